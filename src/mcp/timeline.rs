//! `timeline`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::error::Failure;
use super::page::{self, Page};
use super::tools::Answer;
use super::{Library, NOTHING_YET, NOTICE, arguments, session, when};
use crate::archive::quote::{self, cut};
use crate::archive::recall::Reference;
use crate::archive::store::{Store, StoredSummary, StoredTurn, Turns};
use crate::archive::{context, words};

/// Characters of what a turn or compaction says.
const SUMMARY_CHARS: usize = 300;

/// What happened in a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Events {
    /// What all of this is.
    notice: &'static str,
    /// The session's id.
    session: String,
    /// Turns and compactions in order of time.
    events: Vec<Event>,
    /// How many there are on all pages.
    count: usize,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A turn or a compaction.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Event {
    /// turn or compaction.
    kind: &'static str,
    /// For `recall`.
    handle: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// What it was about.
    summary: String,
}

/// The same before it is looked up.
enum Found {
    Turn(Box<StoredTurn>),
    Compaction(StoredSummary),
}

/// Which part of a session.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// From then on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before then.
    pub until: Option<i64>,
    /// The last first.
    pub newest_first: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<Answer, Failure> {
    let arguments: arguments::Timeline = arguments::read(given)?;
    let chars = page::chars_of(arguments.max_tokens)?;
    let part = Part {
        since: arguments::moment("since", arguments.since.as_deref())?,
        until: arguments::moment("until", arguments.until.as_deref())?,
        newest_first: arguments.newest_first.unwrap_or_default(),
    };
    let asked = arguments::asked("timeline", given);
    let begin = page::begin(&asked, arguments.cursor.as_deref())?;
    page_of(library, ("session", &arguments.session), part, chars, (begin, &asked))
}

/// A page of a session, which is named by the argument of that name; from the event `begin` on.
pub(super) fn page_of(
    library: &mut Library,
    (name, prefix): (&str, &str),
    part: Part,
    chars: usize,
    (begin, asked): (usize, &str),
) -> Result<Answer, Failure> {
    let Some(mut opened) = library.open()? else { return Err(Failure::Missing(NOTHING_YET.to_owned())) };
    let session = session::find(&mut opened.store, name, prefix)?;
    let facts = session::Facts::of(&mut opened.store, &session)?;
    let turns = opened.store.turns(session.key, Turns::All)?;
    let events = in_order(turns, opened.store.summaries(session.key)?, part);

    let mut frame = Events {
        notice: NOTICE,
        session: facts.session.clone(),
        events: Vec::new(),
        count: events.len(),
        notes: opened.notes,
        next_cursor: None,
    };
    let mut head = format!("{NOTICE} `recall` gives an event in full.\n{}", facts.line());
    frame.notes.iter().for_each(|note| head.push_str(&format!("\nNote: {note}")));
    let mut page = Page::new(chars, head + "\n", &frame);
    for found in events.iter().skip(begin) {
        let event = Event::of(&mut opened.store, found)?;
        if !page.add(&event.line(), event) {
            break;
        }
    }
    let next = begin + page.items.len();
    frame.events = page.items;
    frame.next_cursor = (next < frame.count).then(|| page::cursor(asked, next));
    page::foot(&mut page.text, frame.next_cursor.as_deref());
    Answer::new(page.text, &frame)
}

/// Turns as they follow each other, each compaction behind the last turn that had begun.
fn in_order(turns: Vec<StoredTurn>, summaries: Vec<StoredSummary>, part: Part) -> Vec<Found> {
    let mut events: Vec<(i64, Found)> = Vec::with_capacity(turns.len() + summaries.len());
    let mut latest = i64::MIN;
    for turn in turns {
        // Where no line of a transcript told, or clocks went back, the order of lines counts.
        latest = latest.max(if turn.turn.started_ms > 0 { turn.turn.started_ms } else { i64::MIN });
        events.push((latest, Found::Turn(Box::new(turn))));
    }
    events.extend(summaries.into_iter().rev().map(|summary| (summary.at_ms, Found::Compaction(summary))));
    events.sort_by_key(|(at_ms, _)| *at_ms);
    events.retain(|(at_ms, _)| part.since.is_none_or(|since| *at_ms >= since) && part.until.is_none_or(|until| *at_ms < until));
    if part.newest_first {
        events.reverse();
    }
    events.into_iter().map(|(_, found)| found).collect()
}

impl Event {
    fn of(store: &mut dyn Store, found: &Found) -> Result<Self, Failure> {
        let (kind, handle, at_ms, summary) = match found {
            Found::Turn(turn) => {
                ("turn", context::handle(&turn.turn.id), turn.turn.started_ms, words::summary_or_cold(store, turn)?)
            }
            Found::Compaction(summary) => {
                ("compaction", Reference::Summary(summary.entry).to_string(), summary.at_ms, summary.text.clone())
            }
        };
        Ok(Self { kind, handle, time: when(at_ms), summary: cut(&quote::line(&summary), SUMMARY_CHARS) })
    }

    fn line(&self) -> String {
        let time = self.time.as_deref().unwrap_or_default();
        let what = if self.kind == "compaction" { "compacted: " } else { "" };
        format!("- {} {time} {what}{}", self.handle, self.summary)
    }
}
