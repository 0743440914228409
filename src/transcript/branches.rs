/*!
The branches of a conversation.

A transcript is a tree: each line names the line that it follows. Who goes back to an earlier line and goes on from there leaves
the lines behind it in the file, and the client no longer sends them: they are rewound. The conversation is the path from the
newest line back to the first.

Nearly always a line follows the newest one, and nothing has to be looked up. Lines of the recent past are known; earlier ones are
read again from the file, only as far back as the two branches meet.

Newer clients also write which line is the newest (`last-prompt` with `leafUuid`), at times late, when the conversation has gone on.
With `explicit` the user went back to it, and with `null` to before everything, and nothing need follow.

The client sends some lines that are on no such path: of an answer whose tools ran side by side, only one result is followed, and
the others are sent with it. They are told by the id of the answer's message.
*/

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::lines::read_line;
use super::record::{Link, Record, RecordKind};
use ctxbridge_common::digest;

/// Lines that are known between two passes: more than the results of tools that run side by side.
const RECENT_LINES: usize = 48;

/// Lines that are known during a pass.
const MAX_KNOWN_LINES: usize = 1 << 14;

/// Bytes of the file that are read at once to find an earlier line.
const LOOKUP_BYTES: u64 = 1 << 20;

/// Maximum number of lines whose parent was nowhere in the file, before the file is no longer searched for parents: it is one
/// that was cut together.
const MAX_MISSING_PARENTS: u32 = 16;

/// Source of what was read earlier.
pub trait History {
    /// Returns bytes of the file; fewer if they cannot be read.
    fn bytes(&mut self, range: Range<u64>) -> Vec<u8>;

    /// Returns the turns that end behind a byte and were taken from the interpreter before.
    fn turns_behind(&mut self, byte: u64) -> Vec<TurnSpan>;
}

/// A history that knows nothing: what is no longer in memory is not found.
#[derive(Debug)]
pub struct NoHistory;

impl History for NoHistory {
    fn bytes(&mut self, _range: Range<u64>) -> Vec<u8> {
        Vec::new()
    }
    fn turns_behind(&mut self, _byte: u64) -> Vec<TurnSpan> {
        Vec::new()
    }
}

/// A whole file in memory, none of whose turns were taken yet.
#[derive(Debug)]
pub struct WholeFile<'b>(pub &'b [u8]);

impl History for WholeFile<'_> {
    fn bytes(&mut self, range: Range<u64>) -> Vec<u8> {
        let end = (range.end as usize).min(self.0.len());
        self.0.get(range.start as usize..end).unwrap_or_default().to_vec()
    }
    fn turns_behind(&mut self, _byte: u64) -> Vec<TurnSpan> {
        Vec::new()
    }
}

/// Extent of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnSpan {
    /// Its index in the transcript, from 0.
    pub index: u32,
    /// Byte offset of its first line.
    pub start: u64,
    /// Byte offset after its last line.
    pub end: u64,
}

/// A part of the transcript that was rewound, or is part of the conversation again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Its first byte, which begins a turn.
    pub start: u64,
    /// The byte after it.
    pub end: u64,
    /// `true` if it was rewound.
    pub is_rewound: bool,
}

/// Relation of a line to the conversation before it.
#[derive(Debug)]
pub(super) enum PathStep {
    /// It follows.
    Follows,
    /// It follows a line that is not in the file.
    Orphan,
    /// The conversation took another path.
    Moved(Move),
}

/// A change of the path.
#[derive(Debug)]
pub(super) struct Move {
    /// Byte offset of the last line that both paths have; `None` if there is none.
    pub fork: Option<u64>,
    /// Byte offset of the newest answer of the new path before the line that took it.
    pub last_answer: Option<u64>,
    /// The changes, in order.
    pub changes: Vec<PathChange>,
}

/// Position of a line, counted from the newest one, which is 1: earlier lines may be read while a position is used.
type Back = usize;

/// The lines of a tree, and the path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Branches {
    /// Lines from `from` on, in order of the file.
    known: VecDeque<TreeLine>,
    from: u64,
    /// The newest line of the conversation.
    leaf: Option<u64>,
    /// Parts of the file that were rewound, in order.
    rewound: Vec<(u64, u64)>,
    /// `true` if lines name their parents.
    is_chained: bool,
    /// `true` if the whole conversation was left, and nothing was said since.
    is_cleared: bool,
    missing_parents: u32,
}

/// A line of the tree. Uuids are shortened to 64 bits: they are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TreeLine {
    #[serde(rename = "i")]
    id: u64,
    #[serde(rename = "p")]
    parent: Parent,
    #[serde(rename = "s")]
    start: u64,
    #[serde(rename = "k")]
    kind: TreeLineKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Parent {
    /// The line before it in the file.
    #[serde(rename = "b")]
    Before,
    /// None: a conversation begins.
    #[serde(rename = "n")]
    Nothing,
    #[serde(rename = "l")]
    Line(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TreeLineKind {
    /// A prompt.
    #[serde(rename = "p")]
    Prompt,
    /// A part of the answer with this message id.
    #[serde(rename = "a")]
    Answer(u64),
    /// Results of tools.
    #[serde(rename = "r")]
    Results,
    /// The position of a compaction, or its summary.
    #[serde(rename = "c")]
    Compaction,
    /// Said by neither: echoes, additions and notices of the client.
    #[serde(rename = "n")]
    Note,
}

impl TreeLine {
    /// Reads a line of the tree; `None` for other lines, and for those of sub-agents in the file of the conversation.
    fn of(record: &Record<'_>, start: u64) -> Option<Self> {
        let id = short(record.uuid()?);
        if record.is_sidechain() {
            return None;
        }
        let kind = match (record.type_name()?, record.kind()) {
            (_, RecordKind::CompactBoundary | RecordKind::CompactSummary) => TreeLineKind::Compaction,
            ("assistant", _) => TreeLineKind::Answer(record.message_id().map_or(id, short)),
            ("user", RecordKind::Prompt) => TreeLineKind::Prompt,
            ("user", RecordKind::ToolResults) => TreeLineKind::Results,
            ("user" | "system" | "attachment" | "progress", _) => TreeLineKind::Note,
            _ => return None,
        };
        let parent = match (record.parent(), record.logical_parent()) {
            (Link::To(parent), _) => Parent::Line(short(parent)),
            (Link::Null, Some(parent)) => Parent::Line(short(parent)),
            // Only a prompt begins a conversation anew.
            (Link::Null, None) if kind == TreeLineKind::Prompt => Parent::Nothing,
            _ => Parent::Before,
        };
        // A line that follows itself follows nothing that is known.
        let parent = if parent == Parent::Line(id) { Parent::Before } else { parent };
        Some(Self { id, parent, start, kind })
    }
}

impl Branches {
    /// For a file that is read from a byte on, at which a turn starts.
    pub fn starting_at(position: u64) -> Self {
        Self { from: position, ..Self::default() }
    }

    /// Parts of the file that were rewound, in order: first byte, and the byte behind.
    pub fn rewound(&self) -> &[(u64, u64)] {
        &self.rewound
    }

    /// Returns the state to save.
    pub fn at_rest(&self) -> Self {
        let mut rest = self.clone();
        rest.forget_all_but(RECENT_LINES);
        rest
    }

    /// `true` if a line is one of the recent ones.
    pub fn is_recent(&self, uuid: &str) -> bool {
        let id = short(uuid);
        self.known.iter().rev().take(RECENT_LINES).any(|node| node.id == id)
    }

    /// Reads the next line.
    pub fn feed(&mut self, start: u64, record: &Record<'_>, history: &mut dyn History) -> PathStep {
        if let Some((leaf, is_explicit)) = record.leaf() {
            return self.note_leaf(leaf, is_explicit, start, history);
        }
        let Some(mut node) = TreeLine::of(record, start) else { return PathStep::Follows };
        let mut is_orphan = false;
        match node.parent {
            Parent::Before => {}
            Parent::Line(parent) => {
                if Some(parent) == self.leaf || self.find(parent, 0, history).is_some() {
                    // Releases that write no parents name one before a compaction all the same.
                    self.is_chained |= matches!(record.parent(), Link::To(_));
                } else {
                    node.parent = Parent::Before;
                    is_orphan = matches!(node.kind, TreeLineKind::Answer(_)) && self.leaf.is_some() && self.is_searching();
                    self.missing_parents = self.missing_parents.saturating_add(1);
                }
            }
            // Other tools write `null` in each line.
            Parent::Nothing if !self.is_chained => node.parent = Parent::Before,
            Parent::Nothing => {}
        }
        self.known.push_back(node);
        if node.kind == TreeLineKind::Note {
            return PathStep::Follows;
        }
        let old_leaf = self.leaf.replace(node.id);
        let is_first = old_leaf.is_none() && !std::mem::take(&mut self.is_cleared);
        // A result belongs to its call, wherever it comes.
        let may_move = !is_first && node.kind != TreeLineKind::Results && !old_leaf.is_some_and(|leaf| self.follows(leaf));
        let moved = if may_move { self.change_path(old_leaf, Some(node.id), start, history) } else { None };
        if self.known.len() > MAX_KNOWN_LINES {
            self.forget_all_but(RECENT_LINES);
        }
        match moved {
            Some(moved) => PathStep::Moved(moved),
            None if is_orphan => PathStep::Orphan,
            None => PathStep::Follows,
        }
    }

    /// `true` if the newest line follows the leaf, perhaps over notes: the usual case.
    fn follows(&self, leaf: u64) -> bool {
        let mut at = self.known.len() - 1;
        loop {
            at = match self.known[at].parent {
                Parent::Nothing => return false,
                Parent::Line(parent) if parent == leaf => return true,
                Parent::Before if at > 0 => at - 1,
                Parent::Before => return true,
                Parent::Line(parent) => match self.known.iter().take(at).rposition(|node| node.id == parent) {
                    Some(at) => at,
                    None => return false,
                },
            };
            if self.known[at].id == leaf {
                return true;
            }
            if self.known[at].kind != TreeLineKind::Note {
                return false;
            }
        }
    }

    /// Reads a line that says which line is the newest of the conversation.
    fn note_leaf(&mut self, leaf: &Link<'_>, is_explicit: bool, start: u64, history: &mut dyn History) -> PathStep {
        let old = self.leaf;
        if old.is_none() && !self.is_cleared {
            return PathStep::Follows;
        }
        let new = match leaf {
            Link::To(uuid) => Some(short(uuid)),
            // Everything was left.
            Link::Null if is_explicit && self.is_chained => None,
            _ => return PathStep::Follows,
        };
        if let Some(new) = new {
            let Some(found) = self.find(new, 0, history) else { return PathStep::Follows };
            // It is written late at times, when the conversation has already gone on.
            let is_behind = |old| self.is_ancestor(found, old, history);
            if Some(new) == old || !is_explicit && old.is_some_and(is_behind) {
                return PathStep::Follows;
            }
        }
        self.leaf = new;
        self.is_cleared = new.is_none();
        self.change_path(old, new, start, history).map_or(PathStep::Follows, PathStep::Moved)
    }

    fn is_ancestor(&mut self, ancestor: Back, line: u64, history: &mut dyn History) -> bool {
        let mut at = self.find(line, 0, history);
        while let Some(back) = at
            && back < ancestor
        {
            at = self.parent_of(back, history);
        }
        at == Some(ancestor)
    }

    /// Compares the paths of two leaves; `None` if nothing that was said is left or joined. `end` is the byte after what is known
    /// of the old path.
    fn change_path(&mut self, old: Option<u64>, new: Option<u64>, end: u64, history: &mut dyn History) -> Option<Move> {
        let mut old_at = old.and_then(|id| self.find(id, 0, history));
        let mut new_at = new.and_then(|id| self.find(id, 0, history));
        let mut path = HashSet::new();
        while old_at != new_at {
            // The later one goes back; nothing is before everything.
            let is_old_later = new_at.is_none_or(|new| old_at.is_some_and(|old| old < new));
            if is_old_later {
                old_at = old_at.and_then(|at| self.parent_of(at, history));
            } else if let Some(at) = new_at {
                path.insert(self.node(at).id);
                new_at = self.parent_of(at, history);
            }
        }
        let fork = new_at;
        // Parts of one answer may stand on both sides of the fork.
        while fork.is_none_or(|fork| self.known.len() - fork < RECENT_LINES) && self.load(history) {}
        let behind = fork.map_or(0, |fork| self.known.len() - fork + 1);
        let fork_start = fork.map(|fork| self.node(fork).start);
        let kept = self.rewound.iter().take_while(|(_, end)| fork_start.is_some_and(|fork| *end <= fork)).count();
        // A conversation may have gone on from a note among lines that were rewound: what is behind the note may be on the path now.
        let around = self.rewound.get(kept).map(|(start, _)| *start);
        let around = around.filter(|start| fork_start.is_some_and(|fork| *start <= fork));
        let (left, is_said) = self.left(behind, &path, around, end);
        let before = &self.rewound[kept..];
        if before == left || before.is_empty() && !is_said {
            return None;
        }
        let change = |is_rewound| move |&(start, end): &(u64, u64)| PathChange { start, end, is_rewound };
        let changes = before.iter().map(change(false)).chain(left.iter().map(change(true))).collect();
        self.rewound.truncate(kept);
        self.rewound.extend(left);
        let is_answer = |node: &&TreeLine| matches!(node.kind, TreeLineKind::Answer(_)) && node.start < end;
        let newest = self.known.iter().skip(behind).rev().filter(is_answer).find(|node| path.contains(&node.id));
        let last_answer = newest.map(|node| node.start).or_else(|| self.answer_at_or_before(fork?, history));
        Some(Move { fork: fork_start, last_answer, changes })
    }

    /// The newest answer on the path to a line, among some twenty lines.
    fn answer_at_or_before(&mut self, mut at: Back, history: &mut dyn History) -> Option<u64> {
        for _ in 0..20 {
            let node = self.node(at);
            if matches!(node.kind, TreeLineKind::Answer(_)) {
                return Some(node.start);
            }
            at = self.parent_of(at, history)?;
        }
        None
    }

    /// The parts of the file from a line on that are not on the path, and `true` if something was said there. `path` are the
    /// path's lines there; `around` is where the part begins that the line is in.
    fn left(&self, behind: usize, path: &HashSet<u64>, around: Option<u64>, end: u64) -> (Vec<(u64, u64)>, bool) {
        let is_rewound = |start: u64| self.rewound.iter().any(|(from, to)| (*from..*to).contains(&start));
        // Answers of the path, whose other parts and results are sent as well.
        let (mut messages, mut answers) = (HashSet::new(), HashSet::new());
        for (at, node) in self.known.iter().enumerate() {
            let is_on = if at < behind { !is_rewound(node.start) } else { path.contains(&node.id) };
            if let (TreeLineKind::Answer(message), true) = (node.kind, is_on) {
                messages.insert(message);
                answers.insert(node.id);
            }
        }
        let mut left = Vec::new();
        let mut open = around;
        let mut is_said = false;
        for node in self.known.iter().skip(behind).take_while(|node| node.start < end) {
            let is_on = path.contains(&node.id)
                || match (node.kind, node.parent) {
                    (TreeLineKind::Answer(message), _) if messages.contains(&message) => {
                        answers.insert(node.id);
                        true
                    }
                    (TreeLineKind::Results, Parent::Line(call)) => answers.contains(&call),
                    _ => false,
                };
            if is_on {
                left.extend(open.take().map(|start| (start, node.start)));
            } else if node.kind != TreeLineKind::Note {
                is_said |= node.kind != TreeLineKind::Results;
                open.get_or_insert(node.start);
            }
        }
        left.extend(open.map(|start| (start, end)));
        (left, is_said)
    }

    fn node(&self, at: Back) -> TreeLine {
        self.known[self.known.len() - at]
    }

    /// The line that a line follows.
    fn parent_of(&mut self, at: Back, history: &mut dyn History) -> Option<Back> {
        match self.node(at).parent {
            Parent::Nothing => None,
            Parent::Before => self.before(at, history),
            Parent::Line(parent) => self.find(parent, at, history).or_else(|| self.before(at, history)),
        }
    }

    fn before(&mut self, at: Back, history: &mut dyn History) -> Option<Back> {
        (at < self.known.len() || self.load(history)).then_some(at + 1)
    }

    /// Finds a line before another one; the file is read for it if it has to be. 0: anywhere.
    fn find(&mut self, id: u64, before: Back, history: &mut dyn History) -> Option<Back> {
        let mut searched = before;
        loop {
            let count = self.known.len();
            if let Some(at) = self.known.iter().take(count - searched).rposition(|node| node.id == id) {
                return Some(count - at);
            }
            searched = count;
            if !self.is_searching() || !self.load(history) {
                return None;
            }
        }
    }

    fn is_searching(&self) -> bool {
        self.missing_parents < MAX_MISSING_PARENTS
    }

    /// Reads the lines before the first known one; `false` if there are none.
    fn load(&mut self, history: &mut dyn History) -> bool {
        let mut length = LOOKUP_BYTES;
        while self.from > 0 {
            let start = self.from.saturating_sub(length);
            let bytes = history.bytes(start..self.from);
            if bytes.len() as u64 != self.from - start {
                return false;
            }
            // The first line of the piece may have begun before it.
            let skipped = match memchr::memchr(b'\n', &bytes) {
                _ if start == 0 => 0,
                Some(at) if at + 1 < bytes.len() => at + 1,
                _ => {
                    length *= 2;
                    continue;
                }
            };
            let mut nodes = Vec::new();
            let mut at = start + skipped as u64;
            for line in bytes[skipped..].split_inclusive(|byte| *byte == b'\n') {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                read_line(text, &mut |range, record| nodes.extend(TreeLine::of(record, at + range.start as u64)));
                at += line.len() as u64;
            }
            self.from = start + skipped as u64;
            if nodes.is_empty() {
                continue;
            }
            for node in nodes.into_iter().rev() {
                self.known.push_front(node);
            }
            return true;
        }
        false
    }

    fn forget_all_but(&mut self, recent: usize) {
        if self.known.len() > recent {
            self.known.drain(..self.known.len() - recent);
            self.from = self.known.front().map_or(self.from, |node| node.start);
        }
    }
}

/// The first 64 bits of a uuid, or of a hash of what is none.
fn short(uuid: &str) -> u64 {
    let mut digits = uuid.bytes().filter(|byte| *byte != b'-');
    let mut id = 0_u64;
    for _ in 0..16 {
        match digits.next().and_then(|digit| char::from(digit).to_digit(16)) {
            Some(digit) => id = id << 4 | u64::from(digit),
            None => {
                let hash = digest::sha256(uuid.as_bytes());
                return u64::from_be_bytes([hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7]]);
            }
        }
    }
    id
}
