//! `timeline`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::error::ToolError;
use super::page::{self, ResultPage};
use super::{Library, NOTHING_YET, NOTICE, arguments, session, when};
use ctxbridge_archive::handle::Reference;
use ctxbridge_archive::quote::{self, cut};
use ctxbridge_archive::store::{SegmentReader, StoredCompaction, StoredSummary, StoredTurn, TurnSelection};
use ctxbridge_archive::{handle, turn_text};

/// Maximum characters of the summary of a turn or compaction.
const SUMMARY_CHARS: usize = 300;

/// The output of the tool: events of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct TimelineOutput {
    /// The nature of this output.
    notice: &'static str,
    /// The session's id.
    session: String,
    /// Turns and compactions in order of time.
    events: Vec<TimelineItem>,
    /// Number of events on all pages.
    count: usize,
    /// Notes on the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A turn or a compaction.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct TimelineItem {
    /// turn or compaction.
    kind: &'static str,
    /// The handle, for `recall`.
    handle: String,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The subject, in one line.
    summary: String,
    /// Of a compaction: messages since the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    /// Of a compaction: size of the context before it, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_before: Option<u64>,
    /// Of a compaction: size of the context after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_after: Option<u64>,
    /// Of a compaction: topics since the one before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topics: Vec<String>,
}

/// An event, before its details are looked up.
enum TimelineEntry {
    Turn(Box<StoredTurn>),
    Compaction(StoredSummary, Box<StoredCompaction>),
}

/// The part of a session to list, and its order.
#[derive(Clone, Copy, Default)]
pub(super) struct TimelineRange {
    /// Events from this time on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Events before this time, in milliseconds since 1970.
    pub until: Option<i64>,
    /// `true` to list the newest first.
    pub newest_first: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let arguments: arguments::TimelineArguments = arguments::read(given)?;
    let chars = page::budget_chars(arguments.max_tokens)?;
    let part = TimelineRange {
        since: arguments::moment("since", arguments.since.as_deref())?,
        until: arguments::moment("until", arguments.until.as_deref())?,
        newest_first: arguments.newest_first.unwrap_or_default(),
    };
    let asked = arguments::request_key("timeline", given);
    let begin = page::page_start(&asked, arguments.cursor.as_deref())?;
    page_of(library, ("session", &arguments.session), part, chars, (begin, &asked))
}

/// Returns a page of a session's events, from the event `begin` on. `name` is the argument that has the session's `prefix`.
pub(super) fn page_of(
    library: &mut Library,
    (name, prefix): (&str, &str),
    part: TimelineRange,
    chars: usize,
    (begin, asked): (usize, &str),
) -> Result<ToolAnswer, ToolError> {
    let Some(mut opened) = library.open()? else { return Err(ToolError::NotFound(NOTHING_YET.to_owned())) };
    let session = session::find_session(&mut *opened.store, name, prefix)?;
    let facts = session::SessionItem::of(&mut *opened.store, &session)?;
    let turns = opened.store.turns(session.key, TurnSelection::All)?;
    let mut compactions = opened.store.compactions(Some(session.key), i64::MIN)?;
    let summaries = opened.store.summaries(session.key)?.into_iter().rev();
    let compacted = summaries.map(|summary| {
        let at = compactions.iter().position(|one| one.summary == Some(summary.entry));
        (summary, at.map(|at| compactions.swap_remove(at)).unwrap_or_default())
    });
    let events = in_order(turns, compacted.collect(), part);

    let mut frame = TimelineOutput {
        notice: NOTICE,
        session: facts.session.clone(),
        events: Vec::new(),
        count: events.len(),
        notes: opened.notes,
        next_cursor: None,
    };
    let mut head = format!("{NOTICE} `recall` gives an event in full.\n{}", facts.line());
    page::add_notes(&mut head, &frame.notes);
    let mut page = ResultPage::new(chars, head + "\n", &frame);
    for found in events.iter().skip(begin) {
        let event = TimelineItem::of(&mut *opened.store, found)?;
        if !page.add(&event.line(), event) {
            break;
        }
    }
    let text;
    (text, frame.events, frame.next_cursor) = page.finish(asked, begin, frame.count);
    ToolAnswer::new(text, &frame)
}

/// Puts turns in their order, and each compaction behind the last turn that had started.
fn in_order(
    turns: Vec<StoredTurn>,
    compacted: Vec<(StoredSummary, StoredCompaction)>,
    part: TimelineRange,
) -> Vec<TimelineEntry> {
    let mut events: Vec<(i64, TimelineEntry)> = Vec::with_capacity(turns.len() + compacted.len());
    let mut latest = i64::MIN;
    for turn in turns {
        // Where no line of a transcript told, or clocks went back, the order of lines counts.
        latest = latest.max(if turn.turn.started_ms > 0 { turn.turn.started_ms } else { i64::MIN });
        events.push((latest, TimelineEntry::Turn(Box::new(turn))));
    }
    events.extend(compacted.into_iter().map(|(summary, one)| (summary.at_ms, TimelineEntry::Compaction(summary, Box::new(one)))));
    events.sort_by_key(|(at_ms, _)| *at_ms);
    events.retain(|(at_ms, _)| part.since.is_none_or(|since| *at_ms >= since) && part.until.is_none_or(|until| *at_ms < until));
    if part.newest_first {
        events.reverse();
    }
    events.into_iter().map(|(_, found)| found).collect()
}

impl TimelineItem {
    fn of(store: &mut dyn SegmentReader, found: &TimelineEntry) -> Result<Self, ToolError> {
        let short = |text: &str| cut(&quote::line(text), SUMMARY_CHARS);
        Ok(match found {
            TimelineEntry::Turn(turn) => Self {
                kind: "turn",
                handle: handle::turn_handle(&turn.turn.id),
                time: when(turn.turn.started_ms),
                summary: short(&turn_text::summary_or_reason(store, turn)?),
                ..Self::default()
            },
            TimelineEntry::Compaction(summary, one) => {
                let snapshot = one.snapshot.as_ref();
                Self {
                    kind: "compaction",
                    handle: Reference::Summary(summary.entry).to_string(),
                    time: when(summary.at_ms),
                    summary: short(&summary.text),
                    messages: snapshot.map(|snapshot| snapshot.messages),
                    tokens_before: one.context_tokens,
                    tokens_after: one.context_after,
                    topics: snapshot.map(|snapshot| snapshot.topics.clone()).unwrap_or_default(),
                }
            }
        })
    }

    fn line(&self) -> String {
        let time = self.time.as_deref().unwrap_or_default();
        let mut what = String::new();
        if self.kind == "compaction" {
            let messages = self.messages.map(|messages| format!(" {messages} messages")).unwrap_or_default();
            let about =
                if self.topics.is_empty() { String::new() } else { format!(" about {}", quote::line(&self.topics.join(", "))) };
            what = format!("compacted{messages}{about}: ");
        }
        format!("- {} {time} {what}{}", self.handle, self.summary)
    }
}
