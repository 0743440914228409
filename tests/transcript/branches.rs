//! Whatever the tree, the conversation is what the client sends next, and each turn is in it or not.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ctxbridge::transcript::{History, Interpreter, PathChange, Turn, TurnSpan, text_of};
use ctxbridge_testkit::share_of;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What an archive keeps of a transcript.
#[derive(Debug, Default, PartialEq)]
pub struct Kept {
    pub turns: BTreeMap<u32, Turn>,
    rewound: BTreeSet<u32>,
}

impl Kept {
    pub fn take(&mut self, interpreter: &mut Interpreter) {
        for turn in interpreter.take_turns() {
            self.turns.insert(turn.index, turn);
        }
        for PathChange { start, end, is_rewound } in interpreter.take_path_changes() {
            for turn in self.turns.values().filter(|turn| (start..end).contains(&turn.start)) {
                if is_rewound {
                    self.rewound.insert(turn.index);
                } else {
                    self.rewound.remove(&turn.index);
                }
            }
        }
    }
}

/// The file, and what the archive keeps of it.
pub struct Past<'a>(pub &'a [u8], pub &'a Kept);

impl History for Past<'_> {
    fn bytes(&mut self, range: std::ops::Range<u64>) -> Vec<u8> {
        let end = (range.end as usize).min(self.0.len());
        self.0.get(range.start as usize..end).unwrap_or_default().to_vec()
    }
    fn turns_behind(&mut self, byte: u64) -> Vec<TurnSpan> {
        let span = |turn: &Turn| TurnSpan { index: turn.index, start: turn.start, end: turn.end };
        self.1.turns.values().filter(|turn| turn.end > byte).map(span).collect()
    }
}

/// Reads a file in pieces; after each, as another process would.
fn read(bytes: &[u8], cuts: &[usize]) -> (Kept, Interpreter) {
    let (mut kept, mut interpreter) = (Kept::default(), Interpreter::default());
    let mut from = 0;
    for &cut in cuts.iter().chain(&[bytes.len()]) {
        if cut <= from {
            continue;
        }
        interpreter.feed_with(&bytes[from..cut], &mut Past(&bytes[..cut], &kept));
        kept.take(&mut interpreter);
        let written = serde_json::to_string(&interpreter.at_rest()).unwrap();
        interpreter = serde_json::from_str(&written).unwrap();
        from = interpreter.position() as usize;
    }
    (kept, interpreter)
}

/// A step of a conversation.
#[derive(Clone, Debug)]
enum Act {
    Prompt,
    Answer {
        parts: usize,
    },
    /// Calls that run side by side; results in another order, the newest line is the one at `followed`.
    Calls {
        count: usize,
        order: usize,
        followed: usize,
    },
    Note {
        hangs: bool,
    },
    Compact,
    Bookkeeping,
    /// Back to a line; `noted`: with a line of its own that says so.
    Rewind {
        to: prop::sample::Index,
        noted: bool,
    },
    RewindToStart,
    /// A late note of an earlier newest line, which changes nothing.
    LateNote {
        to: prop::sample::Index,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => Just(Act::Prompt),
        6 => (1_usize..4).prop_map(|parts| Act::Answer { parts }),
        4 => (1_usize..5, 0_usize..24, 0_usize..5).prop_map(|(count, order, followed)| Act::Calls { count, order, followed }),
        3 => any::<bool>().prop_map(|hangs| Act::Note { hangs }),
        1 => Just(Act::Compact),
        2 => Just(Act::Bookkeeping),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(to, noted)| Act::Rewind { to, noted }),
        1 => Just(Act::RewindToStart),
        1 => any::<prop::sample::Index>().prop_map(|to| Act::LateNote { to }),
    ];
    prop::collection::vec(act, 1..60)
}

/// A client that writes a transcript.
#[derive(Default)]
struct Client {
    lines: Vec<Value>,
    /// Uuid and parent of the lines that were said, in order.
    tree: Vec<Said>,
    leaf: Option<String>,
    /// A leaf that was noted behind the newest line.
    noted: Option<Option<String>>,
}

struct Said {
    uuid: String,
    parent: Option<String>,
    message: Option<String>,
    is_results: bool,
    is_note: bool,
    is_compaction: bool,
    line: usize,
}

impl Client {
    fn uuid(&self) -> String {
        // Random enough in the first half, as those of the client are.
        let number = self.lines.len() as u64 + 1;
        format!("{:016x}{number:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn say(&mut self, kind: &str, parent: Option<String>, fields: Value) -> String {
        let uuid = self.uuid();
        let mut line = json!({ "parentUuid": parent, "type": kind, "uuid": uuid, "sessionId": "s", "isSidechain": false });
        let (Value::Object(all), Value::Object(more)) = (&mut line, fields) else { unreachable!() };
        all.extend(more);
        let message = line["message"]["id"].as_str().map(str::to_owned);
        let is_results = line["message"]["content"][0]["type"] == "tool_result";
        let is_boundary = line["subtype"] == "compact_boundary";
        let is_compaction = is_boundary || line["isCompactSummary"] == true;
        let is_note = !matches!(kind, "user" | "assistant") && !is_boundary;
        let parent = parent.or_else(|| line["logicalParentUuid"].as_str().map(str::to_owned));
        self.tree.push(Said { uuid: uuid.clone(), parent, message, is_results, is_note, is_compaction, line: self.lines.len() });
        self.lines.push(line);
        if !is_note {
            self.noted = None;
        }
        uuid
    }

    fn act(&mut self, act: &Act) {
        let number = self.lines.len();
        let leaf = self.leaf.clone();
        match act {
            Act::Prompt => {
                let content = json!({ "role": "user", "content": format!("prompt {number}") });
                self.leaf = Some(self.say("user", leaf, json!({ "message": content })));
            }
            Act::Answer { .. } | Act::Calls { .. } | Act::Note { .. } | Act::Compact if leaf.is_none() => {}
            Act::Answer { parts } => {
                for part in 0..*parts {
                    let block = json!({ "type": "text", "text": format!("answer {number} {part}") });
                    let message = json!({ "role": "assistant", "id": format!("m{number}"), "content": [block] });
                    self.leaf = Some(self.say("assistant", self.leaf.clone(), json!({ "message": message })));
                }
            }
            Act::Calls { count, order, followed } => {
                let mut calls = Vec::new();
                for call in 0..*count {
                    let block = json!({ "type": "tool_use", "id": format!("t{number}-{call}"), "name": "Read", "input": {} });
                    let message = json!({ "role": "assistant", "id": format!("m{number}"), "content": [block] });
                    self.leaf = Some(self.say("assistant", self.leaf.clone(), json!({ "message": message })));
                    calls.push((call, self.leaf.clone()));
                }
                let turned = order % calls.len();
                calls.rotate_left(turned);
                let mut results = Vec::new();
                for (call, parent) in calls {
                    let block = json!({ "type": "tool_result", "tool_use_id": format!("t{number}-{call}"), "content": "r" });
                    let message = json!({ "role": "user", "content": [block] });
                    results.push(self.say("user", parent, json!({ "message": message })));
                }
                self.leaf = Some(results[followed % results.len()].clone());
            }
            Act::Note { hangs } => {
                let note = self.say("system", leaf, json!({ "subtype": "turn_duration" }));
                if !hangs {
                    self.leaf = Some(note);
                }
            }
            Act::Compact => {
                let fields = json!({ "subtype": "compact_boundary", "logicalParentUuid": leaf });
                let boundary = self.say("system", None, fields);
                let message = json!({ "role": "user", "content": "summary" });
                self.leaf = Some(self.say("user", Some(boundary), json!({ "isCompactSummary": true, "message": message })));
            }
            Act::Bookkeeping => self.lines.push(json!({ "type": "file-history-snapshot", "messageId": "x" })),
            Act::Rewind { to, noted } => {
                if self.tree.is_empty() {
                    return;
                }
                self.rewind(to.index(self.tree.len()), *noted);
            }
            Act::RewindToStart => {
                if self.tree.len() < 2 {
                    return;
                }
                self.leaf = None;
                self.lines.push(json!({ "type": "last-prompt", "leafUuid": null, "explicit": true, "sessionId": "s" }));
                self.noted = Some(None);
            }
            Act::LateNote { to } => {
                let path = self.path(self.sent_leaf());
                if self.noted.is_some() || path.is_empty() {
                    return;
                }
                let to = self.tree[path[to.index(path.len())]].uuid.clone();
                self.lines.push(json!({ "type": "last-prompt", "leafUuid": to, "sessionId": "s" }));
            }
        }
    }

    fn rewind(&mut self, to: usize, is_noted: bool) {
        let to = self.tree[to].uuid.clone();
        self.leaf = Some(to.clone());
        if is_noted {
            self.lines.push(json!({ "type": "last-prompt", "leafUuid": to, "explicit": true, "sessionId": "s" }));
            self.noted = Some(Some(to));
        }
    }

    /// The line that the client would go on from if it read the file now: the newest that was said.
    fn sent_leaf(&self) -> Option<usize> {
        match &self.noted {
            Some(noted) => noted.as_ref().and_then(|uuid| self.tree.iter().position(|said| said.uuid == *uuid)),
            None => self.tree.iter().rposition(|said| !said.is_note),
        }
    }

    /// Lines from the first to a leaf.
    fn path(&self, leaf: Option<usize>) -> Vec<usize> {
        let places: HashMap<&str, usize> = self.tree.iter().enumerate().map(|(at, said)| (said.uuid.as_str(), at)).collect();
        let mut path = Vec::new();
        let mut at = leaf;
        while let Some(place) = at {
            path.push(place);
            at = self.tree[place].parent.as_deref().map(|parent| places[parent]);
        }
        path.reverse();
        path
    }

    /// Lines that the client sends: the path, and the other parts and results of its answers.
    fn sent(&self) -> HashSet<usize> {
        let path = self.path(self.sent_leaf());
        let messages: HashSet<&str> = path.iter().filter_map(|at| self.tree[*at].message.as_deref()).collect();
        let mut sent: HashSet<usize> = path.into_iter().collect();
        let is_part = |said: &Said| said.message.as_deref().is_some_and(|message| messages.contains(message));
        sent.extend((0..self.tree.len()).filter(|at| is_part(&self.tree[*at])));
        let calls: HashSet<&str> = self.tree.iter().filter(|said| is_part(said)).map(|said| said.uuid.as_str()).collect();
        let is_result = |said: &Said| said.is_results && said.parent.as_deref().is_some_and(|call| calls.contains(call));
        sent.extend((0..self.tree.len()).filter(|at| is_result(&self.tree[*at])));
        sent
    }
}

fn text(lines: &[Value]) -> (String, Vec<u64>) {
    let (mut text, mut starts) = (String::new(), Vec::new());
    for line in lines {
        starts.push(text.len() as u64);
        text += &format!("{line}\n");
    }
    (text, starts)
}

/// Compares what is read of a file, in pieces, with what the client sends.
fn check(client: &Client, cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let (text, starts) = text(&client.lines);
    let bytes = text.as_bytes();
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let (kept, interpreter) = read(bytes, &cuts);

    let is_rewound = |start: u64| interpreter.rewound().iter().any(|(from, to)| (*from..*to).contains(&start));
    let sent = client.sent();
    for (at, said) in client.tree.iter().enumerate().filter(|(_, said)| !said.is_note) {
        let start = starts[said.line];
        prop_assert_eq!(is_rewound(start), !sent.contains(&at), "line {} of {}", said.line, text);
        // What was said is in one turn, and the turn is in the conversation if the line is. The mark of a compaction says nothing.
        let turns: Vec<&Turn> = kept.turns.values().filter(|turn| (turn.start..turn.end).contains(&start)).collect();
        if !said.is_compaction {
            prop_assert_eq!(turns.len(), 1, "line {} of {}", said.line, text);
            prop_assert_eq!(kept.rewound.contains(&turns[0].index), is_rewound(start), "line {} of {}", said.line, text);
        }
    }
    // What is known of a turn is what its bytes say.
    for turn in kept.turns.values() {
        let words = text_of(&bytes[turn.start as usize..turn.end as usize]);
        prop_assert_eq!(turn.content_chars as usize, words.chars().count() + if words.is_empty() { 0 } else { 2 });
    }
    // However the bytes come.
    let (whole, at_once) = read(bytes, &[]);
    prop_assert_eq!(at_once.rewound(), interpreter.rewound());
    prop_assert_eq!(whole, kept);
    Ok(())
}

/// The conversation goes on from a note that stands among what was rewound, and then from a line behind that note.
#[test]
fn what_is_behind_a_note_comes_back() {
    let mut client = Client::default();
    let answer = Act::Answer { parts: 1 };
    client.act(&Act::Prompt);
    client.act(&answer);
    client.rewind(0, false);
    client.act(&Act::Note { hangs: false });
    client.act(&answer);
    client.act(&Act::Prompt);
    client.rewind(0, true);
    check(&client, &[]).unwrap();
    client.rewind(2, false);
    client.act(&Act::Prompt);
    client.rewind(3, false);
    client.act(&answer);
    check(&client, &[]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share_of(2_000)))]

    #[test]
    fn the_path_is_what_the_client_sends(acts in acts(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut client = Client::default();
        for act in &acts {
            client.act(act);
        }
        check(&client, &cuts)?;
    }
}
