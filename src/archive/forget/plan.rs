/*!
Plans what is forgotten: which lines of which transcripts, and who else has them.

A turn goes with all of its lines, the work of its sub-agents, and the files that its results point to. Lines of the client's
bookkeeping that repeat its prompt, such as `last-prompt`, go as well. Nothing is written here.
*/

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;
use serde_json::Value;

use super::tombstones::{Tombstone, Tombstones};
use crate::store::{EVERYTHING, Session, Store, StoreError, StoredTranscript, StoredTurn, TurnSelection};
use crate::turn_text;
use ctxbridge_common::digest;
use ctxbridge_transcript::{Content, Record, RecordKind, side_files_of};

/// Minimum characters of a prompt whose repetitions are looked for: shorter ones are in many texts that have nothing to do with it.
const MIN_REPEATED_CHARS: usize = 12;

/// Sessions and turns that the user wants gone.
#[derive(Debug, Default)]
pub struct ForgetRequest {
    /// Whole sessions.
    pub sessions: Vec<Session>,
    /// Turns.
    pub turns: Vec<StoredTurn>,
    /// Turns of these sessions, and files beside them, that have a match.
    pub matches: Option<(Regex, Vec<Session>)>,
    /// `true` to forget what they say in other sessions as well.
    pub is_everywhere: bool,
}

/// Sessions and turns that will be forgotten.
#[derive(Debug, Default)]
pub struct ForgetPlan {
    /// The sessions, by their ids.
    pub parts: BTreeMap<String, ForgetPart>,
    /// Other sessions that have some of it and keep it, with the number of these turns.
    pub also_in: BTreeMap<String, u64>,
    /// Other sessions that quote some of it and keep that, with the number of these lines.
    pub quoted_in: BTreeMap<String, u64>,
    tombstones: BTreeSet<Tombstone>,
    /// Exemptions of lines that their session loses now.
    lifted: BTreeSet<Tombstone>,
    /// The pattern, for texts that are in no transcript.
    pattern: Option<Regex>,
}

/// The part of a session that will be forgotten.
#[derive(Debug)]
pub struct ForgetPart {
    /// The session.
    pub session: Session,
    /// `true` if nothing of it is kept.
    pub is_whole: bool,
    /// Its turns that go, by their ids.
    pub turns: BTreeMap<[u8; 16], StoredTurn>,
    /// Lines that go.
    pub lines: u64,
    /// Files beside the transcript that go, by their paths in the session's own folder.
    pub files: BTreeSet<String>,
    /// Prompts and summaries that go, to be found where they are repeated.
    texts: BTreeSet<String>,
    tombstones: BTreeSet<Tombstone>,
}

impl ForgetPart {
    fn new(session: Session, is_whole: bool) -> Self {
        let (texts, tombstones) = (BTreeSet::new(), BTreeSet::new());
        Self { session, is_whole, turns: BTreeMap::new(), lines: 0, files: BTreeSet::new(), texts, tombstones }
    }

    /// `true` if a text has one that goes, or is the begin of one, as where the client or we cut it.
    fn is_repeated(&self, text: &str) -> bool {
        let text = one_line(text);
        let begin = text.trim_end_matches('…').trim_end_matches("...").trim_end();
        let is_begin = begin.chars().count() >= MIN_REPEATED_CHARS;
        self.texts.iter().any(|gone| text.contains(gone.as_str()) || is_begin && gone.starts_with(begin))
    }
}

impl ForgetPlan {
    /// Plans what a request asks for. `progress` receives the number of sessions that were looked through.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn of(store: &mut dyn Store, request: ForgetRequest, progress: &mut dyn FnMut(usize)) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        for session in request.sessions {
            plan.add_session(store, session)?;
        }
        for turn in &request.turns {
            plan.add_turn(store, turn)?;
        }
        if let Some((pattern, sessions)) = request.matches {
            plan.pattern = Some(pattern.clone());
            for (done, session) in sessions.into_iter().enumerate() {
                if !plan.is_whole(&session.session) {
                    plan.add_matches(store, session, &pattern)?;
                }
                progress(done + 1);
            }
        }
        let others = plan.others(store)?;
        if request.is_everywhere {
            for turn in &others {
                plan.add_turn(store, turn)?;
            }
        } else {
            for turn in others {
                *plan.also_in.entry(turn.session).or_default() += 1;
            }
        }
        plan.add_repetitions(store)?;
        plan.add_quotes(store, request.is_everywhere, progress)?;
        plan.exempt_others(store)?;
        Ok(plan)
    }

    /// Notes in a data folder that what goes is not archived again, and returns all that was ever forgotten.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn bury(&self, data: &Path) -> Result<Tombstones, StoreError> {
        Tombstones::change(data, &self.lifted, &self.tombstones)
    }

    /// `true` if a text that is in no transcript says what goes of a session.
    pub fn covers(&self, session: &str, text: &str) -> bool {
        let has_match = || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
        self.parts.get(session).is_some_and(|part| part.is_whole || part.is_repeated(text) || has_match())
    }

    /// `true` for a time within a turn that goes, in milliseconds since 1970; work logs know whole seconds.
    pub fn covers_time(&self, session: &str, at_ms: i64) -> bool {
        let is_within = |turn: &StoredTurn| turn.turn.started_ms - 999 <= at_ms && at_ms <= turn.turn.ended_ms;
        self.parts.get(session).is_some_and(|part| part.is_whole || part.turns.values().any(is_within))
    }

    /// Number of turns of the conversation that go and began before a time.
    pub(super) fn turns_before(&self, session: &str, at_ms: i64) -> u32 {
        let is_counted = |turn: &&StoredTurn| turn.agent.is_none() && !turn.is_superseded && turn.turn.started_ms < at_ms;
        let part = self.parts.get(session);
        part.map_or(0, |part| u32::try_from(part.turns.values().filter(is_counted).count()).unwrap_or(u32::MAX))
    }

    /// `true` if nothing is to be forgotten.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// `true` if a line of a session goes already.
    pub(super) fn has_line(&self, session: &str, line: &[u8]) -> bool {
        self.parts.get(session).is_some_and(|part| part.tombstones.contains(&Tombstone::of_line(session, line)))
    }

    pub(super) fn is_whole(&self, session: &str) -> bool {
        self.parts.get(session).is_some_and(|part| part.is_whole)
    }

    fn add_session(&mut self, store: &mut dyn Store, session: Session) -> Result<(), StoreError> {
        let id = session.session.clone();
        self.tombstones.insert(Tombstone::of_session(&id));
        let mut part = ForgetPart::new(session, true);
        part.turns = all_turns(store, part.session.key)?.into_iter().map(|turn| (turn.turn.id, turn)).collect();
        for transcript in store.transcripts(part.session.key)? {
            part.files.extend(transcript.part.side_file().map(str::to_owned));
            each_line(store, &transcript, &mut |_, line| {
                part.tombstones.insert(Tombstone::of_line(&id, line));
            })?;
        }
        part.lines = part.tombstones.len() as u64;
        self.tombstones.extend(&part.tombstones);
        self.parts.insert(id, part);
        Ok(())
    }

    /// Returns the part of a session, which the archive has.
    pub(super) fn part(&mut self, store: &mut dyn Store, session: &str) -> Result<Option<&mut ForgetPart>, StoreError> {
        if !self.parts.contains_key(session) {
            let Some(found) = store.session(session)? else { return Ok(None) };
            self.parts.insert(session.to_owned(), ForgetPart::new(found, false));
        }
        Ok(self.parts.get_mut(session))
    }

    /// Adds a turn with all of its versions: the client may have cut the end of the file off and written another answer.
    fn add_turn(&mut self, store: &mut dyn Store, stored: &StoredTurn) -> Result<(), StoreError> {
        let Some(part) = self.part(store, &stored.session)? else { return Ok(()) };
        if part.is_whole || part.turns.insert(stored.turn.id, stored.clone()).is_some() {
            return Ok(());
        }
        self.add_version(store, stored)?;
        let place = |turn: &StoredTurn| (turn.transcript, turn.generation, turn.turn.start);
        for version in store.turns_by_id(&digest::hex(&stored.turn.id))? {
            if version.session == stored.session && place(&version) != place(stored) {
                self.add_version(store, &version)?;
            }
        }
        Ok(())
    }

    fn add_version(&mut self, store: &mut dyn Store, stored: &StoredTurn) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        store.read_bytes(stored.transcript, stored.generation, (stored.turn.start, stored.turn.end), &mut bytes)?;
        let prompt = turn_text::fields(store, stored)?.prompt;
        let Some(part) = self.part(store, &stored.session)? else { return Ok(()) };
        part.add_text(&prompt);
        let files = side_files_of(&bytes, &stored.session);
        for (_, line) in lines(&bytes) {
            self.add_line(&stored.session, line);
        }
        let key = self.parts.get(&stored.session).map_or(0, |part| part.session.key);
        let is_of = |transcript: &StoredTranscript| match transcript.part.agent() {
            Some(agent) => stored.turn.agents.iter().any(|named| named == agent),
            None => false,
        };
        for transcript in store.transcripts(key)?.iter().filter(|transcript| is_of(transcript)) {
            each_line(store, transcript, &mut |_, line| self.add_line(&stored.session, line))?;
        }
        files.into_iter().for_each(|file| self.add_file(&stored.session, file));
        Ok(())
    }

    pub(super) fn add_line(&mut self, session: &str, line: &[u8]) {
        let record = Record::parse(line).ok();
        let kind = record.as_ref().map(Record::kind);
        // It says nothing but where a compaction was, and what came before is found by it; unless it has what is looked for.
        let has_match = || self.pattern.as_ref().is_some_and(|pattern| any_text(line, &mut |text| pattern.is_match(text)));
        if kind == Some(RecordKind::CompactBoundary) && !has_match() {
            return;
        }
        let tombstone = Tombstone::of_line(session, line);
        self.tombstones.insert(tombstone);
        self.lifted.extend(Tombstone::exemption(session, line));
        if let Some(part) = self.parts.get_mut(session)
            && part.tombstones.insert(tombstone)
        {
            part.lines += 1;
            if kind == Some(RecordKind::CompactSummary) {
                record.iter().filter_map(Record::content).flat_map(Content::texts).for_each(|text| part.add_text(text));
            }
        }
    }

    fn add_file(&mut self, session: &str, file: String) {
        self.tombstones.insert(Tombstone::of_file(session, &file));
        if let Some(part) = self.parts.get_mut(session) {
            part.files.insert(file);
        }
    }

    fn add_matches(&mut self, store: &mut dyn Store, session: Session, pattern: &Regex) -> Result<(), StoreError> {
        let id = session.session.clone();
        let turns = all_turns(store, session.key)?;
        for transcript in store.transcripts(session.key)? {
            if transcript.part.is_transcript() {
                let mut found = Vec::new();
                each_line(store, &transcript, &mut |at, line| {
                    if any_text(line, &mut |text| pattern.is_match(text)) {
                        found.push((at, line.to_vec()));
                    }
                })?;
                for ((generation, start), line) in found {
                    self.part(store, &id)?;
                    self.add_line(&id, &line);
                    let is_in = |turn: &&StoredTurn| {
                        turn.transcript == transcript.key
                            && turn.generation <= generation
                            && (turn.turn.start..turn.turn.end).contains(&start)
                    };
                    if let Some(turn) = turns.iter().filter(is_in).max_by_key(|turn| turn.generation) {
                        self.add_turn(store, turn)?;
                    }
                }
            } else if let Some(file) = transcript.part.side_file() {
                for generation in 0..=transcript.generation {
                    let mut bytes = Vec::new();
                    store.read_bytes(transcript.key, generation, EVERYTHING, &mut bytes)?;
                    if pattern.is_match(&String::from_utf8_lossy(&bytes)) {
                        self.part(store, &id)?;
                        self.add_file(&id, file.to_owned());
                    }
                }
            }
        }
        // A title that the user gave, or the summary of a compaction, need not be in a line.
        let is_said = store.summaries(session.key)?.iter().any(|summary| pattern.is_match(&summary.text));
        if is_said || session.title.is_some_and(|title| pattern.is_match(&title)) {
            self.part(store, &id)?;
        }
        Ok(())
    }

    /// Turns of other sessions that say what goes, or are the same turns.
    fn others(&self, store: &mut dyn Store) -> Result<Vec<StoredTurn>, StoreError> {
        let mut others: BTreeMap<(String, [u8; 16]), StoredTurn> = BTreeMap::new();
        for stored in self.parts.values().flat_map(|part| part.turns.values()) {
            let mut found = store.turns_by_id(&digest::hex(&stored.turn.id))?;
            for place in store.turn_locations(&[stored.entry])? {
                found.extend(store.turn_by_location(&place)?);
            }
            for turn in found {
                let is_planned =
                    self.parts.get(&turn.session).is_some_and(|part| part.is_whole || part.turns.contains_key(&turn.turn.id));
                if !is_planned {
                    others.insert((turn.session.clone(), turn.turn.id), turn);
                }
            }
        }
        Ok(others.into_values().collect())
    }

    /// Adds the lines of the client's bookkeeping that repeat a prompt.
    fn add_repetitions(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let partial: Vec<String> = self.parts.iter().filter(|(_, part)| !part.is_whole).map(|(id, _)| id.clone()).collect();
        for id in partial {
            let Some(part) = self.parts.get(&id).filter(|part| !part.texts.is_empty()) else { continue };
            let mut found = Vec::new();
            for transcript in store.transcripts(part.session.key)?.iter().filter(|transcript| transcript.part.is_transcript()) {
                each_line(store, transcript, &mut |_, line| {
                    if Record::parse(line).is_ok_and(|record| record.uuid().is_none())
                        && any_text(line, &mut |text| part.is_repeated(text))
                    {
                        found.push(line.to_vec());
                    }
                })?;
            }
            found.iter().for_each(|line| self.add_line(&id, line));
        }
        Ok(())
    }

    /// Other sessions keep the lines that they have by now.
    fn exempt_others(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        for id in self.also_in.keys() {
            let Some(session) = store.session(id)? else { continue };
            // It may lose some itself.
            let goes = self.parts.get(id).map(|part| &part.tombstones);
            let mut kept = BTreeSet::new();
            for transcript in store.transcripts(session.key)?.iter().filter(|transcript| transcript.part.is_transcript()) {
                each_line(store, transcript, &mut |_, line| {
                    let tombstone = Tombstone::of_line(id, line);
                    let is_gone = |key: &Tombstone| self.tombstones.contains(key);
                    let is_named = is_gone(&tombstone) || Tombstone::of_leaf(line).as_ref().is_some_and(is_gone);
                    if is_named && goes.is_none_or(|goes| !goes.contains(&tombstone)) {
                        kept.extend(Tombstone::exemption(id, line));
                    }
                })?;
            }
            self.tombstones.append(&mut kept);
        }
        Ok(())
    }
}

impl ForgetPart {
    fn add_text(&mut self, text: &str) {
        let text = one_line(text);
        if text.chars().count() >= MIN_REPEATED_CHARS {
            self.texts.insert(text);
        }
    }
}

/// The turns of a session in all of its generations, also those that were rewound, and its sub-agents' work.
pub(super) fn all_turns(store: &mut dyn Store, session: i64) -> Result<Vec<StoredTurn>, StoreError> {
    let mut turns = Vec::new();
    for which in [TurnSelection::All, TurnSelection::Superseded, TurnSelection::Agents] {
        turns.extend(store.turns(session, which)?);
    }
    Ok(turns)
}

/// A text with one space between its words, as it is where the client or we repeat it in a line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `true` if a string, a number or a key in a line of JSON fits, or the line itself, if it is none.
pub fn any_text(line: &[u8], fits: &mut dyn FnMut(&str) -> bool) -> bool {
    fn any(value: &Value, fits: &mut dyn FnMut(&str) -> bool) -> bool {
        match value {
            Value::String(text) => fits(text),
            Value::Array(values) => values.iter().any(|value| any(value, fits)),
            Value::Object(fields) => fields.iter().any(|(name, value)| fits(name) || any(value, fits)),
            Value::Number(number) => fits(&number.to_string()),
            Value::Null | Value::Bool(_) => false,
        }
    }
    match serde_json::from_slice(line) {
        Ok(value) => any(&value, fits),
        Err(_) => fits(&String::from_utf8_lossy(line)),
    }
}

/// The lines of some bytes, without their ends, each with its position; empty ones are left out.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut start = 0;
    let placed = bytes.split(|byte| *byte == b'\n').map(move |line| {
        let at = start;
        start += line.len() as u64 + 1;
        (at, line.strip_suffix(b"\r").unwrap_or(line))
    });
    placed.filter(|(_, line)| !line.is_empty())
}

/// Uses a line, with the generation and the position that it is in.
type UseLine<'u> = &'u mut dyn FnMut((u32, u64), &[u8]);

/// Goes through the lines of all generations of a transcript.
pub(super) fn each_line(store: &mut dyn Store, transcript: &StoredTranscript, found: UseLine<'_>) -> Result<(), StoreError> {
    if !transcript.part.is_transcript() {
        return Ok(());
    }
    for generation in 0..=transcript.generation {
        let mut bytes = Vec::new();
        match store.read_bytes(transcript.key, generation, EVERYTHING, &mut bytes) {
            // What cannot be read is not there to be forgotten line by line.
            Err(error) if error.is_session_local() && !error.is_cold() => continue,
            read => read?,
        }
        lines(&bytes).for_each(|(start, line)| found((generation, start), line));
    }
    Ok(())
}
