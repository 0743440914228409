use serde_json::{Value, json};

use super::*;

/// A conversation as the client has it, as lines of its transcript and as rows.
#[derive(Default)]
struct Talk {
    lines: Vec<Value>,
    answers: usize,
}

impl Talk {
    fn line(&mut self, kind: &str, id: Option<String>, content: Value) -> &mut Value {
        let number = self.lines.len();
        let mut line = json!({
            "type": kind, "uuid": format!("{number:08x}-0000-4000-8000-000000000000"),
            "timestamp": format!("2026-11-26T00:{:02}:{:02}.000Z", number / 60, number % 60),
            "message": { "role": kind, "content": content },
        });
        if let Some(id) = id {
            line["message"]["id"] = id.into();
            line["message"]["model"] = "claude-sonnet-4-5".into();
        }
        self.lines.push(line);
        self.lines.last_mut().expect("a line")
    }

    fn prompt(&mut self, text: &str) -> &mut Self {
        self.line("user", None, text.into());
        self
    }

    /// An answer of three lines and more, with a call and a result of this many characters for each name.
    fn answer(&mut self, text: &str, calls: &[(&str, usize)]) -> &mut Self {
        self.answers += 1;
        let (number, id) = (self.answers, || Some(format!("msg_{}", self.answers)));
        let id = id();
        self.line("assistant", id.clone(), json!([{ "type": "thinking", "thinking": "Hm.", "signature": "c2ln" }]));
        self.line("assistant", id.clone(), json!([{ "type": "text", "text": text }]));
        for (name, _) in calls {
            let call =
                json!([{ "type": "tool_use", "id": format!("{name}{number}"), "name": "Bash", "input": { "command": name } }]);
            self.line("assistant", id.clone(), call);
        }
        for (name, size) in calls {
            let result =
                json!([{ "type": "tool_result", "tool_use_id": format!("{name}{number}"), "content": "x".repeat(*size) }]);
            self.line("user", None, result);
        }
        self
    }

    fn rows(&self) -> Vec<Row> {
        let is_row = |line: &&Value| line["isMeta"] != true && conversation_content(line).is_some();
        self.lines.iter().filter(is_row).map(row_of).collect()
    }

    fn transcript(&self) -> ReplayConversation {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        ReplayConversation::read(text.as_bytes()).0
    }

    fn answered(&self) -> Result<Vec<AnswerRow>, Declined> {
        answer(&self.rows(), &self.transcript(), &PruneSettings::default())
    }
}

/// A line as the client hands it to a plugin.
fn row_of(line: &Value) -> Row {
    let content = &line["message"]["content"];
    let blocks = content.as_array().cloned().unwrap_or_else(|| vec![json!({ "type": "text", "text": content })]);
    let of = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Row {
        role: text(&line["type"]),
        text: of("text").map(|block| text(&block["text"])).collect(),
        tool_uses: of("tool_use")
            .map(|call| RowCall { tool_use_id: text(&call["id"]), tool: text(&call["name"]), input: call["input"].clone() })
            .collect(),
        tool_results: of("tool_result")
            .map(|result| RowResult {
                tool_use_id: text(&result["tool_use_id"]),
                text: text(&result["content"]),
                is_error: result["is_error"] == true,
            })
            .collect(),
        handle: line["uuid"].as_str().map(str::to_owned),
    }
}

fn long_talk() -> Talk {
    let mut talk = Talk::default();
    for number in 1..=8 {
        talk.prompt(&format!("Prompt {number}."));
        talk.answer("I look.", &[("one", 40_000), ("two", 9)]).answer("Done.", &[]);
    }
    talk
}

fn told(row: &AnswerRow, rows: &[Row]) -> String {
    match row {
        AnswerRow::Kept { row } => format!("kept {}", rows[*row].text),
        AnswerRow::New { role, text, tool_uses, tool_results } => {
            let ids = |ids: Vec<&str>| ids.join(" ");
            let head = text.lines().next().unwrap_or_default();
            let calls = ids(tool_uses.iter().map(|call| call.tool_use_id.as_str()).collect());
            let results = ids(tool_results.iter().map(|result| result.tool_use_id.as_str()).collect());
            format!("{role} {head:?} calls [{calls}] results [{results}]")
        }
    }
}

#[test]
fn prompts_stay_old_rounds_are_folded_and_new_ones_are_made_anew() {
    let talk = long_talk();
    let rows = talk.rows();
    let found: Vec<String> = talk.answered().expect("answered").iter().map(|row| told(row, &rows)).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    kept Prompt 1.
    user "[earlier context folded: 1 step, recall ctx:00000001..00000006]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 2.
    user "[earlier context folded: 1 step, recall ctx:0000000a..0000000f]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 3.
    user "[earlier context folded: 1 step, recall ctx:00000013..00000018]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 4.
    user "[earlier context folded: 1 step, recall ctx:0000001c..00000021]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 5.
    user "[earlier context folded: 1 step, recall ctx:00000025..0000002a]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 6.
    user "[earlier context folded: 1 step, recall ctx:0000002e..00000033]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 7.
    user "[earlier context folded: 1 step, recall ctx:00000037..0000003c]" calls [] results []
    assistant "Done." calls [] results []
    kept Prompt 8.
    assistant "I look." calls [one15 two15] results []
    user "" calls [] results [one15 two15]
    assistant "Done." calls [] results []
    "#);
}

#[test]
fn every_call_has_its_result_right_behind_it() {
    let mut talk = long_talk();
    // The client was interrupted between a call and its result.
    talk.prompt("Go on.");
    talk.line("assistant", Some("msg_x".to_owned()), json!([{ "type": "tool_use", "id": "lost", "name": "Bash", "input": {} }]));
    talk.prompt("What?").answer("I look.", &[("last", 10), ("more", 20)]);
    let answered = talk.answered().expect("answered");
    let mut open: Vec<String> = Vec::new();
    for row in &answered {
        match row {
            AnswerRow::New { role: "assistant", tool_uses, .. } => {
                assert!(open.is_empty(), "{open:?}");
                open = tool_uses.iter().map(|call| call.tool_use_id.clone()).collect();
            }
            AnswerRow::New { tool_results, .. } => {
                let results: Vec<String> = tool_results.iter().map(|result| result.tool_use_id.clone()).collect();
                assert_eq!(std::mem::take(&mut open), results);
            }
            AnswerRow::Kept { .. } => assert!(open.is_empty(), "{open:?}"),
        }
    }
    assert!(open.is_empty());
    assert!(!format!("{answered:?}").contains("\"lost\""));
}

#[test]
fn digests_of_an_earlier_compaction_become_one_and_then_a_count() {
    let mut talk = Talk::default();
    talk.prompt("One.").prompt("[earlier context folded: 3 steps, recall ctx:0000000a..0000000c]\n- Bash ls (ctx:0000000b.0)");
    talk.prompt(&format!("[earlier context folded: 2 steps, recall ctx:0000000d..0000000e]\n- Read {}", "x".repeat(60_000)));
    for _ in 0..6 {
        talk.answer("I look.", &[("one", 40_000)]);
    }
    let answered = talk.answered().expect("answered");
    let digests: Vec<&str> = answered
        .iter()
        .filter_map(|row| match row {
            AnswerRow::New { role: "user", text, .. } if text.starts_with("[earlier context folded: ") => Some(text.as_str()),
            _ => None,
        })
        .collect();
    insta::assert_snapshot!(digests.join("\n"), @r#"
    [earlier context folded: 10 steps, recall ctx:0000000a..00000016]
    - said: I look.
    - said: I look.
    - said: I look.
    - said: I look.
    - said: I look.
    "#);
}

#[test]
fn the_client_does_it_where_too_little_would_go_or_is_known() {
    let mut small = Talk::default();
    small.prompt("Hello.").answer("Hello.", &[]);
    assert_eq!(small.answered(), Err(Declined::TooLittle));

    let talk = long_talk();
    let mut other = Talk::default();
    other.prompt("Something else.").lines[0]["uuid"] = "ffffffff-0000-4000-8000-000000000000".into();
    let other = other.transcript();
    assert_eq!(answer(&talk.rows(), &other, &PruneSettings::default()), Err(Declined::OtherTranscript));

    let mut half = long_talk();
    half.lines.drain(3..5);
    assert_eq!(answer(&talk.rows(), &half.transcript(), &PruneSettings::default()), Err(Declined::NotWritten));
}

#[test]
fn what_is_not_written_yet_may_be_new() {
    let talk = long_talk();
    let mut written = long_talk();
    written.lines.truncate(talk.lines.len() - 3);
    let answered = answer(&talk.rows(), &written.transcript(), &PruneSettings::default()).expect("answered");
    let Some(AnswerRow::New { role: "assistant", text, .. }) = answered.last() else { panic!("{answered:?}") };
    assert_eq!(text, "Done.");
}

#[test]
fn what_the_client_told_stays_in_the_newest_rounds() {
    let mut talk = long_talk();
    talk.answer("I use a skill.", &[("skill", 20)]);
    talk.line("user", None, "How the skill is done.".into())["isMeta"] = true.into();
    talk.answer("Done.", &[]);
    let answered = talk.answered().expect("answered");
    let is_told = |row: &AnswerRow| matches!(row, AnswerRow::New { role: "user", text, .. } if text == "How the skill is done.");
    assert_eq!(answered.iter().filter(|row| is_told(row)).count(), 1);
}

#[test]
fn long_prompts_are_shortened_but_for_those_with_images() {
    let mut talk = Talk::default();
    for number in 0..14 {
        talk.prompt(&format!("{number} {}", "All is well. ".repeat(10_000))).answer("Well.", &[]);
    }
    let image = json!([{ "type": "text", "text": "y".repeat(9_000) }, { "type": "image", "source": { "data": "eA==" } }]);
    talk.lines[0]["message"]["content"] = image;
    let answered = talk.answered().expect("answered");
    assert_eq!(answered[0], AnswerRow::Kept { row: 0 });
    let short =
        answered.iter().filter(|row| matches!(row, AnswerRow::New { role: "user", text, .. } if text.contains("the rest of")));
    assert!(short.count() >= 10, "{answered:?}");
}

#[test]
fn a_failed_call_stays_one_and_an_image_is_named() {
    let mut talk = long_talk();
    talk.answer("I look.", &[("bad", 5), ("picture", 5)]);
    let at = talk.lines.len();
    talk.lines[at - 2]["message"]["content"][0]["is_error"] = true.into();
    talk.lines[at - 1]["message"]["content"][0]["content"] = json!([{ "type": "image", "source": { "data": "eA==" } }]);
    let answered = talk.answered().expect("answered");
    let Some(AnswerRow::New { tool_results, .. }) = answered.last() else { panic!("{answered:?}") };
    assert!(tool_results[0].is_error && !tool_results[1].is_error);
    assert!(tool_results[1].text.contains("an image was here"), "{tool_results:?}");
}

#[test]
fn a_summary_of_the_client_stays_and_what_it_said_in_the_model_s_name_does_not() {
    let mut talk = Talk::default();
    talk.line("user", None, "This session is being continued.".into())["isCompactSummary"] = true.into();
    for _ in 0..6 {
        talk.answer("I look.", &[("one", 40_000)]);
    }
    let error =
        talk.line("assistant", Some("msg_error".to_owned()), json!([{ "type": "text", "text": "API Error: overloaded" }]));
    error["isApiErrorMessage"] = true.into();
    talk.prompt("Go on.");
    let answered = talk.answered().expect("answered");
    assert_eq!(answered[0], AnswerRow::Kept { row: 0 });
    assert!(!format!("{answered:?}").contains("API Error"), "{answered:?}");
}

#[test]
fn answers_that_were_made_anew_are_folded_by_the_next_compaction() {
    let mut talk = long_talk();
    // As the client writes the rows of an answer that a plugin made anew: an id for each, and a model that is none.
    for (number, line) in talk.lines.iter_mut().enumerate().filter(|(_, line)| line["type"] == "assistant") {
        line["message"]["id"] = format!("anew-{number}").into();
        line["message"]["model"] = "<synthetic>".into();
    }
    let rows = talk.rows();
    let told: Vec<String> = talk.answered().expect("answered").iter().map(|row| told(row, &rows)).collect();
    assert!(told[1].starts_with("user \"[earlier context folded: 1 step"), "{told:#?}");
    let newest = &told[told.len() - 3..];
    assert_eq!(newest[0], "assistant \"I look.\" calls [one15 two15] results []", "{told:#?}");
    assert_eq!(newest[1], "user \"\" calls [] results [one15 two15]", "{told:#?}");
}
