/*!
Transcript lines for claude-flow entries, in the client's form.

A turn is a line with the prompt and one with the answer. Their hook writes a turn while it is going on, and then again with another
answer: that is one turn with two answers. All other data of an entry is in a field of its first line, which the client does not
know. Lines are only ever added, so the entries that exist are read from them.
*/

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use super::entry::{EntryKey, FlowEntry, content_of};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Record, RecordKind, as_typed};

/// Prefix of the name of an imported transcript; no path of a client's transcript starts with it.
pub const TRANSCRIPT_PREFIX: &str = "claude-flow:";

/// Name of the field with all other data of an entry.
const FIELD: &str = "claudeFlow";

/// The model's name: neither the client nor ctxbridge takes a name that starts with `<` for a model.
const MODEL: &str = "<claude-flow>";

/// Tools whose input names a file. claude-flow does not keep which tool had which file.
const WITH_FILES: [&str; 5] = ["Read", "Edit", "Write", "MultiEdit", "NotebookEdit"];

/// The fields of a line that are read back.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImportedLine {
    uuid: Option<String>,
    #[serde(rename = "claudeFlow")]
    entry: Option<Value>,
}

/// State of the writer at the end of a transcript.
#[derive(Debug, Default)]
pub struct WriterState {
    /// The id of the last line.
    parent: Option<String>,
    /// `true` if there is an open turn.
    is_open: bool,
    /// Number and prompt of the last entry.
    last: Option<(Option<i64>, String)>,
}

/// Origin of the lines of a turn.
#[derive(Debug, Default)]
pub struct LineOrigin {
    /// The entries.
    pub entries: Vec<EntryKey>,
    /// The writer's state after them.
    pub state: WriterState,
}

/// Reads the entries back from the complete lines of a turn.
pub fn read_origin(bytes: &[u8]) -> LineOrigin {
    let mut came = LineOrigin::default();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in lines {
        let Ok(read) = serde_json::from_slice::<ImportedLine>(line) else { continue };
        came.state.parent = read.uuid.or(came.state.parent);
        came.state.is_open = true;
        let Some(entry) = read.entry else { continue };
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        came.entries.push(EntryKey { id: text("id"), sha256: text("sha256") });
        let asked = Record::parse(line).ok().filter(|record| record.kind() == RecordKind::Prompt).and_then(|record| {
            let content = record.content()?;
            Some(content.texts().collect::<Vec<_>>().join("\n"))
        });
        if let Some(asked) = asked {
            came.state.last = Some((entry.get("chunk").and_then(Value::as_i64), asked));
        }
    }
    came
}

/// Writes lines of a session.
#[derive(Debug)]
pub struct TranscriptWriter<'w, W> {
    sink: W,
    session: &'w str,
    folder: Option<&'w str>,
    state: WriterState,
}

impl<'w, W: Write> TranscriptWriter<'w, W> {
    /// Continues from a state; `folder` is the one that the client worked in.
    pub fn new(sink: W, session: &'w str, folder: Option<&'w str>, place: WriterState) -> Self {
        Self { sink, session, folder, state: place }
    }

    /// Flushes all lines, and returns the sink.
    ///
    /// # Errors
    /// As the system says.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// Writes the lines of an entry.
    ///
    /// # Errors
    /// As the system says.
    pub fn entry(&mut self, entry: &FlowEntry) -> io::Result<()> {
        let known = entry.known_by();
        let mut besides = Value::Object(entry.original.clone());
        besides["id"] = entry.id.as_str().into();
        besides["chunk"] = entry.chunk.into();
        besides["sha256"] = known.sha256.as_str().into();
        let (asked, answered) = entry.parts().unwrap_or((&entry.content, ""));
        let goes_on = |last: &(Option<i64>, String)| last.0 == entry.chunk && last.1 == asked;
        let is_same_turn = entry.chunk.is_some() && self.state.last.as_ref().is_some_and(goes_on);
        let mut besides = Some(besides);
        if !asked.is_empty() && !is_same_turn {
            let line = self.line(entry, &known, "user", json!({ "role": "user", "content": asked }), &mut besides);
            let mut bytes = line.to_string();
            let is_prompt = Record::parse(bytes.as_bytes()).is_ok_and(|record| record.kind() == RecordKind::Prompt);
            let is_added = is_prompt && as_typed(asked).is_empty();
            if (!is_prompt || is_added) && !self.state.is_open {
                // It begins no turn, and would be in none.
                besides = line.get(FIELD).cloned();
                let whole = content_of(asked, answered);
                return self.answer(entry, &known, &whole, &mut besides);
            }
            if is_added {
                let mut line = line;
                line["isMeta"] = true.into();
                bytes = line.to_string();
            }
            self.put(bytes, &line_id(&known, "user"))?;
            if is_prompt && !is_added {
                self.state.last = Some((entry.chunk, asked.to_owned()));
            }
        }
        if besides.is_some() || !answered.is_empty() || !entry.tools.is_empty() {
            self.answer(entry, &known, answered, &mut besides)?;
        }
        Ok(())
    }

    fn answer(&mut self, entry: &FlowEntry, known: &EntryKey, said: &str, besides: &mut Option<Value>) -> io::Result<()> {
        let mut blocks = Vec::new();
        if !said.is_empty() || entry.tools.is_empty() {
            blocks.push(json!({ "type": "text", "text": said }));
        }
        for (number, (name, input)) in calls(entry).into_iter().enumerate() {
            let id = digest::of_bytes(format!("{}:{}:{number}", known.id, known.sha256).as_bytes());
            blocks.push(json!({ "type": "tool_use", "id": format!("toolu_{}", &id[..24]), "name": name, "input": input }));
        }
        let id = digest::of_bytes(format!("{}:{}", known.id, known.sha256).as_bytes());
        let message = json!({
            "id": format!("msg_{}", &id[..24]), "type": "message", "role": "assistant", "model": MODEL, "content": blocks,
        });
        let line = self.line(entry, known, "assistant", message, besides);
        self.put(line.to_string(), &line_id(known, "assistant"))
    }

    fn line(&self, entry: &FlowEntry, known: &EntryKey, kind: &str, message: Value, besides: &mut Option<Value>) -> Value {
        let mut line = json!({
            "parentUuid": self.state.parent, "isSidechain": false, "userType": "external", "sessionId": self.session,
            "type": kind, "message": message, "uuid": line_id(known, kind),
        });
        if let Some(folder) = self.folder {
            line["cwd"] = folder.into();
        }
        let at = entry.created_ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        if let Some(at) = at {
            line["timestamp"] = format!("{at:.3}").into();
        }
        if let Some(besides) = besides.take() {
            line[FIELD] = besides;
        }
        line
    }

    fn put(&mut self, line: String, id: &str) -> io::Result<()> {
        self.state.parent = Some(id.to_owned());
        self.state.is_open = true;
        self.sink.write_all(line.as_bytes())?;
        self.sink.write_all(b"\n")
    }
}

/// Returns the tools of an entry, with the files as their input.
fn calls(entry: &FlowEntry) -> Vec<(&str, Value)> {
    let tools = entry.tools.iter().map(String::as_str);
    let with_files = tools.clone().find(|tool| WITH_FILES.contains(tool)).or_else(|| tools.clone().next());
    let mut calls = Vec::new();
    for tool in tools {
        if Some(tool) != with_files || entry.files.is_empty() {
            calls.push((tool, json!({})));
            continue;
        }
        let field = if tool == "NotebookEdit" { "notebook_path" } else { "file_path" };
        calls.extend(entry.files.iter().map(|file| (tool, json!({ field: file }))));
    }
    calls
}

/// Returns a custom UUID (version 8), which is the same wherever the entry is read from.
fn line_id(known: &EntryKey, kind: &str) -> String {
    let mut bytes = [0; 16];
    let hash = digest::sha256(format!("claude-flow {kind} {} {}", known.id, known.sha256).as_bytes());
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = digest::hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ctxbridge_transcript::Interpreter;

    fn entry(id: &str, chunk: i64, content: &str, metadata: Value) -> FlowEntry {
        let original = json!({
            "id": id, "key": format!("transcript:s:{chunk}:t"), "content": content, "createdAt": 1_767_225_600_000_i64,
            "metadata": metadata, "chunkIndex": chunk,
        });
        FlowEntry::of(original.as_object().cloned().unwrap_or_default(), None).expect("it has content")
    }

    fn written(entries: &[FlowEntry], place: WriterState) -> Vec<u8> {
        let mut writer = TranscriptWriter::new(Vec::new(), "s", Some("/work"), place);
        entries.iter().for_each(|entry| writer.entry(entry).expect("memory"));
        writer.finish().expect("memory")
    }

    fn turns(bytes: &[u8]) -> Vec<(String, Vec<String>, Vec<String>)> {
        let mut interpreter = Interpreter::default();
        interpreter.feed(bytes);
        assert_eq!(interpreter.session_metadata().bad_lines, 0);
        let said = |start: u64, end: u64| ctxbridge_transcript::text_of(&bytes[start as usize..end as usize]);
        interpreter.take_turns().into_iter().map(|turn| (said(turn.start, turn.end), turn.tools, turn.files)).collect()
    }

    #[test]
    fn entries_are_turns() {
        let tools = json!({ "toolNames": ["Bash", "Edit"], "filePaths": ["/a.rs", "/b.rs"] });
        let entries = [
            entry("1", 0, "User: Fix it.\n\nAssistant: ", json!({})),
            entry("2", 0, "User: Fix it.\n\nAssistant: Done.", tools),
            entry("3", 1, "User: <system-reminder>x</system-reminder>\n\nAssistant: More.", json!({})),
            entry("4", 2, "User: Go on.\n\nAssistant: a\n\nAssistant: b", json!({})),
            entry("5", 3, "something else", json!({})),
        ];
        let bytes = written(&entries, WriterState::default());
        let found = turns(&bytes);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0].0,
            "Human: Fix it.\n\nAssistant: Done.\n\nTool Bash: {}\n\nTool Edit: {\"file_path\":\"/a.rs\"}\n\n\
             Tool Edit: {\"file_path\":\"/b.rs\"}\n\nAssistant: More."
        );
        assert_eq!((found[0].1.len(), found[0].2.len()), (2, 2));
        assert_eq!(found[1].0, "Human: Go on.\n\nAssistant: a\n\nAssistant: b");
        assert_eq!(found[2].0, "Human: something else");
        assert_eq!(read_origin(&bytes).entries, entries.iter().map(FlowEntry::known_by).collect::<Vec<_>>());
    }

    #[test]
    fn a_transcript_goes_on_where_it_was() {
        let entries = [
            entry("1", 0, "User: Fix it.\n\nAssistant: ", json!({})),
            entry("2", 0, "User: Fix it.\n\nAssistant: Half.", json!({})),
            entry("3", 0, "User: Fix it.\n\nAssistant: Done.", json!({})),
            entry("4", 1, "User: Thanks.\n\nAssistant: Bye.", json!({})),
        ];
        let all = written(&entries, WriterState::default());
        for split in 0..=entries.len() {
            let mut bytes = written(&entries[..split], WriterState::default());
            let more = written(&entries[split..], read_origin(&bytes).state);
            bytes.extend(more);
            assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&all), "{split}");
        }
    }

    #[test]
    fn what_begins_no_turn_is_in_one_all_the_same() {
        for content in [
            "User: <system-reminder>x</system-reminder>\n\nAssistant: y",
            "User: <command-name>/clear</command-name>\n\nAssistant: ",
            "User: \n\nAssistant: y",
            "User: \n\nAssistant: ",
        ] {
            let bytes = written(&[entry("1", 0, content, json!({}))], WriterState::default());
            let found = turns(&bytes);
            assert_eq!(found.len(), 1, "{content}");
            let (asked, answered) = content[6..].split_once("\n\nAssistant: ").expect("both");
            assert!(found[0].0.contains(asked) && found[0].0.contains(answered), "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn every_line_is_in_a_turn_and_every_entry_comes_back(
            given in proptest::collection::vec((0_i64..3, any::<bool>(), asked(), ".{0,20}", any::<bool>()), 0..8), split in 0_usize..8,
        ) {
            let one = |(number, (chunk, is_plain, asked, answered, has_tool)): (usize, (i64, bool, String, String, bool))| {
                let content = if is_plain { content_of(&asked, &answered) } else { format!("x{asked}{answered}") };
                let metadata = if has_tool { json!({ "toolNames": ["Read"], "filePaths": ["/a"] }) } else { json!({}) };
                entry(&number.to_string(), chunk, &content, metadata)
            };
            let entries: Vec<FlowEntry> = given.into_iter().enumerate().map(one).collect();
            let split = split.min(entries.len());
            let mut bytes = written(&entries[..split], WriterState::default());
            let more = written(&entries[split..], read_origin(&bytes).state);
            bytes.extend(more);
            prop_assert_eq!(&bytes, &written(&entries, WriterState::default()));
            prop_assert_eq!(read_origin(&bytes).entries, entries.iter().map(FlowEntry::known_by).collect::<Vec<_>>());
            let mut interpreter = Interpreter::default();
            interpreter.feed(&bytes);
            let covered: u64 = interpreter.take_turns().iter().map(|turn| turn.end - turn.start).sum();
            prop_assert_eq!(covered, bytes.len() as u64);
        }
    }

    fn asked() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,20}",
            Just(String::new()),
            Just("<system-reminder>x</system-reminder>".to_owned()),
            Just("<command-name>/clear</command-name>".to_owned()),
            Just("Go on.".to_owned()),
        ]
    }
}
