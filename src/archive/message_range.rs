/*!
Finds all messages behind the handle of a digest: those from one message to another of the same transcript.

In the file, other lines may be between the two. Those of sub-agents are left out, and those that the user went back from, as no request
had them.
*/

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::handle_lookup::{self, FoundLine};
use super::message_text;
pub use super::message_text::OriginalMessage;
use super::store::StoreError;
use crate::store::StoreReader;
use ctxbridge_common::files;
use ctxbridge_prune::RangeHandle;
use ctxbridge_transcript::{RepeatedRows, read_line};

/// The original messages behind a handle.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginalMessages {
    /// The messages, in order.
    pub messages: Vec<OriginalMessage>,
    /// The session that their lines name.
    pub session: Option<String>,
    /// The transcript.
    pub path: PathBuf,
}

impl OriginalMessages {
    /// Everything that the messages say, each after a line with its role, tools and time.
    pub fn text(&self) -> String {
        message_text::text_of(&self.messages)
    }
}

/// Errors from finding the messages of a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// No message is the first one, or none the last one, or both.
    #[error("no transcript and no archived session has {}", missing(.range, .is_first_known, .is_last_known))]
    Unknown {
        /// The range.
        range: RangeHandle,
        /// `true` if the first message was found.
        is_first_known: bool,
        /// `true` if the last message was found.
        is_last_known: bool,
    },
    /// The digits are those of several messages of a session.
    #[error(
        "several messages of session {session} have an id that begins with {digits}; `ctxbridge show {session} --full` prints all of it"
    )]
    Ambiguous {
        /// The first digits of the ids.
        digits: String,
        /// The session.
        session: String,
    },
    /// The last message comes before the first.
    #[error("the last message of {range} comes before the first one; `ctxbridge recall {}` gives what is between them", turned(.range))]
    Reversed {
        /// The range.
        range: RangeHandle,
    },
    /// No transcript has both messages.
    #[error(
        "the first message of {range} is in session {first} and the last one in session {last}, and a range is within one transcript; \
         `ctxbridge show {first} --full` prints all of the first session"
    )]
    DifferentSessions {
        /// The range.
        range: RangeHandle,
        /// The session of the first message.
        first: String,
        /// The session of the last message.
        last: String,
    },
}

fn missing(range: &RangeHandle, is_first_known: &bool, is_last_known: &bool) -> String {
    let one = |which: &str, digits: &str| format!("the {which} message of {range}, whose id begins with {digits}");
    match (is_first_known, is_last_known) {
        (false, false) => format!("the messages of {range}"),
        (false, true) => one("first", &range.first),
        (true, _) => one("last", &range.last),
    }
}

fn turned(range: &RangeHandle) -> RangeHandle {
    RangeHandle { first: range.last.clone(), last: range.first.clone() }
}

/// A search for the messages of a range, through transcripts and archives.
#[derive(Debug)]
pub struct RangeSearch<'r> {
    range: &'r RangeHandle,
    found: Option<OriginalMessages>,
    /// The reason why a transcript with both ends does not have the range.
    problem: Option<RangeError>,
    /// Sessions that have the first and the last message.
    sessions: [Option<String>; 2],
}

impl<'r> RangeSearch<'r> {
    /// Starts a search.
    pub fn new(range: &'r RangeHandle) -> Self {
        Self { range, found: None, problem: None, sessions: [None, None] }
    }

    /// Searches transcripts, in the given order. Unreadable files are skipped.
    pub fn search_transcripts(&mut self, paths: &[PathBuf]) {
        for path in paths {
            let lines = handle_lookup::lines_in_transcript(path, &self.digits()).unwrap_or_default();
            if let Some((start, end)) = self.extent(&lines)
                && let Some(bytes) = bytes_of_file(path, start, end)
                && self.take(&bytes, path)
            {
                return;
            }
        }
    }

    /// Searches the archive, newest sessions first, including bytes that a rewritten transcript no longer has.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn search_archive(&mut self, store: &mut dyn StoreReader) -> Result<(), StoreError> {
        if self.found.is_some() {
            return Ok(());
        }
        let digits = self.digits();
        handle_lookup::search_archive(store, &digits, &mut |store, transcript, generation, lines| {
            let Some(extent) = self.extent(lines) else { return Ok(false) };
            let mut bytes = Vec::new();
            store.read_bytes(transcript.key, generation, extent, &mut bytes)?;
            Ok(self.take(&bytes, Path::new(&transcript.path)))
        })
    }

    /// `true` if the messages were found.
    pub fn is_done(&self) -> bool {
        self.found.is_some()
    }

    /// Returns the messages.
    ///
    /// # Errors
    /// If they were not found.
    pub fn finish(self) -> Result<OriginalMessages, RangeError> {
        let Self { range, found, problem, sessions } = self;
        match (found, problem, sessions) {
            (Some(found), ..) => Ok(found),
            (None, Some(problem), _) => Err(problem),
            (None, None, [Some(first), Some(last)]) => Err(RangeError::DifferentSessions { range: range.clone(), first, last }),
            (None, None, [first, last]) => {
                Err(RangeError::Unknown { range: range.clone(), is_first_known: first.is_some(), is_last_known: last.is_some() })
            }
        }
    }

    fn digits(&self) -> [&'r str; 2] {
        [&self.range.first, &self.range.last]
    }

    /// Finds the messages in a transcript, if these lines have both ends. Of a message that is there twice, the newer line counts.
    fn extent(&mut self, lines: &[FoundLine]) -> Option<(u64, u64)> {
        let mut ends: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
        for (end, digits) in self.digits().into_iter().enumerate() {
            let mut ids = HashSet::new();
            for line in lines {
                let Some(message) = handle_lookup::parse(&line.bytes) else { continue };
                let Some(uuid) = uuid_of(&message).filter(|uuid| uuid.starts_with(digits)) else { continue };
                let session = session_of(&message).unwrap_or("without an id").to_owned();
                ids.insert(uuid.to_owned());
                if ids.len() > 1 {
                    self.problem.get_or_insert(RangeError::Ambiguous { digits: digits.to_owned(), session });
                    return None;
                }
                self.sessions[end].get_or_insert(session);
                ends[end].push((line.start, line.start + line.bytes.len() as u64));
            }
        }
        let [firsts, lasts] = ends;
        let pairs = lasts.iter().rev().flat_map(|last| firsts.iter().rev().map(move |first| (first.0, last.1)));
        let extent = pairs.into_iter().find(|(start, end)| start < end);
        if extent.is_none() && !firsts.is_empty() && !lasts.is_empty() {
            self.problem.get_or_insert(RangeError::Reversed { range: self.range.clone() });
        }
        extent
    }

    /// Reads the messages. Returns `true` if there are some.
    fn take(&mut self, bytes: &[u8], path: &Path) -> bool {
        let records: Vec<Value> = bytes.split(|byte| *byte == b'\n').filter_map(handle_lookup::parse).collect();
        let session = records.first().and_then(session_of).map(str::to_owned);
        let messages = messages_of(&records, &repeated_in(bytes));
        if !messages.is_empty() {
            self.found = Some(OriginalMessages { messages, session, path: path.to_owned() });
        }
        self.found.is_some()
    }
}

fn bytes_of_file(path: &Path, start: u64, end: u64) -> Option<Vec<u8>> {
    let mut file = files::open(path).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(end - start).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The id of a message of the conversation.
fn uuid_of(record: &Value) -> Option<&str> {
    role_of(record)?;
    record.get("uuid")?.as_str()
}

fn role_of(record: &Value) -> Option<&str> {
    record.get("type")?.as_str().filter(|role| matches!(*role, "user" | "assistant"))
}

fn session_of(record: &Value) -> Option<&str> {
    record.get("sessionId")?.as_str()
}

fn blocks_of(record: &Value) -> impl Iterator<Item = &Value> {
    record.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
}

fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

/// Ids of the rows in some bytes of a transcript that were said before: in a range over a compaction, each message comes once.
fn repeated_in(bytes: &[u8]) -> HashSet<String> {
    let (mut rows, mut ids) = (RepeatedRows::default(), HashSet::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        read_line(line, &mut |_, record| {
            if rows.includes(record) {
                ids.extend(record.uuid().map(str::to_owned));
            }
        });
    }
    ids
}

/// The messages of the conversation among these records, of which the first and the last are surely such.
fn messages_of(records: &[Value], repeated: &HashSet<String>) -> Vec<OriginalMessage> {
    let Some(begin) = records.first() else { return Vec::new() };
    let speaker =
        |record: &Value| (record.get("isSidechain") == Some(&Value::Bool(true)), text_of(record, "agentId").map(str::to_owned));
    let own: Vec<&Value> = records.iter().filter(|record| speaker(record) == speaker(begin)).collect();
    let branch = Branch::of(&own);
    let mut tools: HashMap<&str, &str> = HashMap::new();
    let mut seen = HashSet::new();
    let mut messages = Vec::new();
    for record in own {
        let (Some(role), Some(uuid), Some(content)) = (role_of(record), uuid_of(record), record.pointer("/message/content"))
        else {
            continue;
        };
        let is_aside = branch.as_ref().is_some_and(|branch| !branch.has(record)) || repeated.contains(uuid);
        if is_aside || !seen.insert(uuid) {
            continue;
        }
        let mut named = Vec::new();
        for block in blocks_of(record) {
            let name = match text_of(block, "type") {
                Some("tool_use") => {
                    let name = text_of(block, "name").unwrap_or_default();
                    tools.insert(text_of(block, "id").unwrap_or_default(), name);
                    name
                }
                Some("tool_result") => text_of(block, "tool_use_id").and_then(|id| tools.get(id).copied()).unwrap_or_default(),
                _ => continue,
            };
            if !name.is_empty() {
                named.push(name.to_owned());
            }
        }
        messages.push(OriginalMessage {
            uuid: uuid.to_owned(),
            role: role.to_owned(),
            time: text_of(record, "timestamp").map(str::to_owned),
            tools: named,
            content: content.clone(),
        });
    }
    messages
}

/// The branch of the conversation that the last of some records is on.
struct Branch<'v> {
    /// Ids from the last record back to the first.
    ids: HashSet<&'v str>,
    /// Ids of the answers on it, and of their calls: of calls that ran side by side, only one result is followed by others.
    answers: HashSet<&'v str>,
    calls: HashSet<&'v str>,
}

impl<'v> Branch<'v> {
    /// Follows the records back; `None` if that does not lead to the first one, as in old transcripts that name no parents.
    fn of(records: &[&'v Value]) -> Option<Self> {
        let id = |record: &&'v Value| text_of(record, "uuid");
        // A compaction follows what was said before it.
        let parent = |record: &&'v Value| text_of(record, "parentUuid").or_else(|| text_of(record, "logicalParentUuid"));
        let parents: HashMap<&str, &str> = records.iter().filter_map(|record| Some((id(record)?, parent(record)?))).collect();
        let first = id(records.first()?)?;
        let mut at = id(records.last()?)?;
        let mut ids = HashSet::from([at]);
        while at != first {
            at = parents.get(at)?;
            if !ids.insert(at) {
                return None;
            }
        }
        let mut branch = Self { ids, answers: HashSet::new(), calls: HashSet::new() };
        branch.answers = records.iter().filter(|record| branch.has(record)).filter_map(|record| answer_of(record)).collect();
        let calls = records.iter().filter(|record| branch.has(record)).flat_map(|record| blocks_of(record));
        branch.calls =
            calls.filter(|block| text_of(block, "type") == Some("tool_use")).filter_map(|call| text_of(call, "id")).collect();
        Some(branch)
    }

    fn has(&self, record: &Value) -> bool {
        text_of(record, "uuid").is_some_and(|id| self.ids.contains(id))
            || answer_of(record).is_some_and(|answer| self.answers.contains(answer))
            || blocks_of(record).filter_map(|block| text_of(block, "tool_use_id")).any(|call| self.calls.contains(call))
    }
}

/// The id of the answer that a record is a part of.
fn answer_of(record: &Value) -> Option<&str> {
    role_of(record).filter(|role| *role == "assistant")?;
    record.pointer("/message/id")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn uuid(number: u32) -> String {
        format!("{number:08x}-0000-4000-8000-000000000000")
    }

    /// A message that follows another one.
    fn message(number: u32, parent: u32, role: &str, content: Value) -> Value {
        json!({
            "type": role, "uuid": uuid(number), "parentUuid": uuid(parent), "sessionId": "s", "isSidechain": false,
            "timestamp": format!("2026-05-01T10:00:0{number}.000Z"),
            "message": { "role": role, "id": if role == "assistant" { json!(format!("msg_{}", content[0]["name"])) } else { Value::Null }, "content": content },
        })
    }

    fn call(number: u32, parent: u32, name: &str) -> Value {
        message(
            number,
            parent,
            "assistant",
            json!([{ "type": "tool_use", "id": format!("call {number}"), "name": name, "input": {} }]),
        )
    }

    fn result(number: u32, parent: u32, of: u32) -> Value {
        message(
            number,
            parent,
            "user",
            json!([{ "type": "tool_result", "tool_use_id": format!("call {of}"), "content": "done" }]),
        )
    }

    fn found(records: &[Value]) -> Vec<String> {
        messages_of(records, &HashSet::new()).into_iter().map(|message| message.uuid[7..8].to_owned()).collect()
    }

    #[test]
    fn what_the_user_went_back_from_is_left_out() {
        let records =
            [call(1, 0, "Read"), result(2, 1, 1), call(3, 2, "Bash"), result(4, 3, 3), call(5, 2, "Edit"), result(6, 5, 5)];
        assert_eq!(found(&records), ["1", "2", "5", "6"]);
        // Where the way back is not known, everything stays.
        let mut records = records;
        records[4]["parentUuid"] = Value::Null;
        assert_eq!(found(&records).len(), 6);
    }

    #[test]
    fn results_of_calls_side_by_side_all_stay() {
        // One answer, one call a message: only the result that came last is followed.
        let records =
            [call(1, 0, "Read"), call(2, 1, "Read"), call(3, 2, "Read"), result(4, 3, 3), result(5, 1, 1), result(6, 2, 2)];
        assert_eq!(found(&records), ["1", "2", "3", "4", "5", "6"]);
        assert_eq!(messages_of(&records, &HashSet::new())[4].tools, ["Read"]);
    }

    #[test]
    fn what_others_said_in_between_is_left_out() {
        let mut agent = message(7, 1, "user", json!("Look for birds."));
        agent["isSidechain"] = json!(true);
        let notice = json!({ "type": "system", "uuid": uuid(8), "parentUuid": uuid(1), "content": "a notice" });
        let mut answer = call(3, 2, "Bash");
        answer["parentUuid"] = json!(uuid(9));
        let note = json!({ "type": "progress", "uuid": uuid(9), "parentUuid": uuid(2) });
        let records = [call(1, 0, "Task"), agent, notice, result(2, 1, 1), note, answer.clone(), answer];
        assert_eq!(found(&records), ["1", "2", "3"], "one of them is there twice, and a notice is on the way");
    }

    fn lines(records: &[Value]) -> Vec<FoundLine> {
        let line =
            |(index, record): (usize, &Value)| FoundLine { start: 1_000 * index as u64, bytes: record.to_string().into_bytes() };
        records.iter().enumerate().map(line).collect()
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |range: &str, transcripts: &[&[Value]]| {
            let range = range.parse().expect("a range");
            let mut search = RangeSearch::new(&range);
            for records in transcripts {
                assert_eq!(search.extent(&lines(records)), None);
            }
            search.finish().expect_err("nothing").to_string()
        };
        let (one, two) = (call(1, 0, "Read"), result(2, 1, 1));
        let mut other = two.clone();
        other["sessionId"] = json!("t");
        let mut like_one = one.clone();
        like_one["uuid"] = json!("00000001-ffff");
        let mut named = two.clone();
        named["uuid"] = json!("x");
        named["parentUuid"] = json!(uuid(2));
        insta::assert_snapshot!(error("ctx:00000001..00000002", &[]), @"no transcript and no archived session has the messages of ctx:00000001..00000002");
        insta::assert_snapshot!(error("ctx:00000001..00000002", &[&[one.clone(), named]]), @"no transcript and no archived session has the last message of ctx:00000001..00000002, whose id begins with 00000002");
        insta::assert_snapshot!(error("ctx:00000001..00000002", &[std::slice::from_ref(&two)]), @"no transcript and no archived session has the first message of ctx:00000001..00000002, whose id begins with 00000001");
        insta::assert_snapshot!(error("ctx:00000001..00000002", &[std::slice::from_ref(&one), &[other]]), @"the first message of ctx:00000001..00000002 is in session s and the last one in session t, and a range is within one transcript; `ctxbridge show s --full` prints all of the first session");
        insta::assert_snapshot!(error("ctx:00000002..00000001", &[&[one.clone(), two.clone()]]), @"the last message of ctx:00000002..00000001 comes before the first one; `ctxbridge recall ctx:00000001..00000002` gives what is between them");
        insta::assert_snapshot!(error("ctx:00000001..00000002", &[&[one, like_one, two]]), @"several messages of session s have an id that begins with 00000001; `ctxbridge show s --full` prints all of it");
    }

    #[test]
    fn a_range_is_the_shortest_of_lines_that_are_there_twice() {
        let range = "ctx:00000001..00000002".parse().expect("a range");
        let (one, two) = (call(1, 0, "Read"), result(2, 1, 1));
        let length = two.to_string().len() as u64;
        let mut search = RangeSearch::new(&range);
        assert_eq!(search.extent(&lines(&[one.clone(), two.clone(), one.clone(), two.clone()])), Some((2_000, 3_000 + length)));
        assert_eq!(search.extent(&lines(&[one.clone(), two, one])), Some((0, 1_000 + length)));
    }
}
