//! What is told of a real conversation afterwards: its timeline, what was learned, exports, differences, the page.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::*;

impl Stage {
    /// `before` was said before the compaction; the first of it asks to be kept.
    #[track_caller]
    pub fn is_told(&self, before: &[&str], trigger: &str) {
        let session = stem(&self.transcript());
        self.stdout(&["archive", "optimize"]);
        self.has_a_timeline(&session, before, trigger);
        self.has_learned();
        self.is_exported(&session, before);
        self.is_on_the_page(&session);
    }

    fn has_a_timeline(&self, session: &str, before: &[&str], trigger: &str) {
        let history = self.json(&["archive", "history", session, "--json"]);
        let compactions = history["compactions"].as_array().unwrap();
        let [one] = &compactions[..] else { panic!("one compaction: {history:#}") };
        let is = |key: &str, value: Value| assert_eq!(one[key], value, "{key} of {one:#}");
        is("number", json!(1));
        is("outcome", json!("done"));
        is("trigger", json!(trigger));
        is("first_message", json!(before[0]));
        let number = |key: &str| one[key].as_u64().unwrap_or_else(|| panic!("{key} of {one:#}"));
        // Prompts, answers, a call of a tool and one of an agent, and their results.
        assert!(number("messages_before") >= 2 * before.len() as u64 + 4, "{one:#}");
        assert!(number("tokens_after") > 0 && number("took_ms") > 0 && number("learnings") > 0, "{one:#}");
        if trigger == "auto" {
            assert!(number("tokens_before") >= 60_000 && number("tokens_after") < number("tokens_before"), "{one:#}");
        }
        let found = self.json(&["archive", "history", "--search", "Ospreys", "--json"]);
        assert_eq!(found["compactions"][0]["session"], session, "{found:#}");
        let told = String::from_utf8(self.stdout(&["archive", "history", session])).unwrap();
        println!("{told}");

        let as_it_was = self.json(&["archive", "show", &format!("{session}@1"), "--json"]);
        let said: Vec<&str> = as_it_was["turns"].as_array().unwrap().iter().filter_map(super::said).collect();
        // The newest clients write the prompt that waits for the compaction down before it.
        assert!((before.len()..=before.len() + 1).contains(&said.len()), "{said:?}");
        assert!(said.iter().zip(before).all(|(said, prompt)| said.starts_with(prompt)), "{said:?}");

        let kept = self.json(&["archive", "pin", "--json"]);
        assert_eq!(kept["turns"].as_array().unwrap().len(), 1, "{kept:#}");
        let requests = self.stub.requests();
        let compaction = requests.iter().find(|request| request.kind == RequestKind::Compaction).unwrap();
        let is_named = |text: &str| text.contains("The user asked to keep these turns");
        assert!(compaction.text_blocks().iter().any(|block| is_named(block.text)), "the client is told what to keep");
    }

    fn has_learned(&self) {
        let learned = self.json(&["learnings", "list", "--json"]);
        let sentences: Vec<_> = learned["learnings"].as_array().unwrap().iter().map(|one| one["sentence"].to_string()).collect();
        assert!(sentences.iter().any(|sentence| sentence.contains("Decided to")), "{learned:#}");
        let log = fs::read_to_string(self.data().join("logs/metrics.jsonl")).unwrap();
        let hooks: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(hooks.len() > 5 && hooks.iter().all(|hook| hook["ok"] == true), "{log}");
        assert!(hooks.iter().filter_map(|hook| hook["turns"].as_u64()).sum::<u64>() > 3, "{log}");
    }

    fn is_exported(&self, session: &str, before: &[&str]) {
        for format in ["markdown", "html", "json"] {
            let text = String::from_utf8(self.stdout(&["archive", "export", session, "--format", format])).unwrap();
            for prompt in before {
                let word = prompt.split(':').next().unwrap();
                assert!(text.contains(word), "{word} is missing in {format}");
            }
        }
        let exported = self.json(&["archive", "export", session, "--json"]);
        assert_eq!(exported["compactions"], 1);
        let calls = exported.to_string().matches("\"agents\":[{").count();
        assert!(calls >= 1, "the work of the sub-agent stands at its call: {exported:#}");
        let difference = self.ctxbridge(&["archive", "diff", &format!("{session}@1"), session, "--json"]);
        assert_eq!(difference.status.code(), Some(1), "{difference:?}");
        let difference: Value = serde_json::from_slice(&difference.stdout).unwrap();
        assert!(difference["only_b"].as_u64() > Some(0) && difference["only_a"] == 0, "{difference:#}");
    }

    fn is_on_the_page(&self, session: &str) {
        let mut command = self.command(&["dashboard", "--json", "--until-eof"]);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // One value, on three lines.
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().take(3).map(Result::unwrap);
        let printed: Value = serde_json::from_str(&lines.collect::<String>()).unwrap();
        let url = printed["url"].as_str().unwrap().to_owned();
        let get = |path: &str| -> Value {
            let text = ureq::get(format!("{url}api/{path}")).call().unwrap().body_mut().read_to_string().unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let overview = get("overview");
        assert_eq!((&overview["compactions"], &overview["capture"]["all"]["failed"]), (&json!(1), &json!(0)), "{overview:#}");
        assert!(overview["learnings"].as_array().is_some_and(|kinds| !kinds.is_empty()), "{overview:#}");
        let context = get(&format!("session/{session}"));
        assert!(context.to_string().contains("compact"), "{context:#}");
        // The end of its input ends it.
        drop(server.stdin.take());
        assert!(server.wait().unwrap().success());
    }
}
