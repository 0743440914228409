//! `learnings`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{self, moment};
use super::error::Failure;
use super::page::{self, Page};
use super::tools::Answer;
use super::{Library, NOTHING_YET, NOTICE, when};
use ctxbridge_archive::search::query::Terms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{StoredLearning, Wanted};
use ctxbridge_archive::{context, quote};

/// Learnings that are listed at most, on all pages.
const MOST: usize = 2_000;

/// What was learned.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Learnings {
    /// What all of this is.
    notice: &'static str,
    /// The best first, or the newest.
    learnings: Vec<Learning>,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Learning {
    /// What it is known by.
    id: String,
    /// decision, solution, outcome, handoff or checkpoint.
    kind: &'static str,
    /// As it was said.
    sentence: String,
    /// When it was said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The folder that the client worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// The turn, for `recall`.
    handle: String,
    /// What took it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<Answer, Failure> {
    let arguments: arguments::Learnings = arguments::read(given)?;
    let chars = page::chars_of(arguments.max_tokens)?;
    let asked = arguments::asked("learnings", given);
    let begin = page::begin(&asked, arguments.cursor.as_deref())?;
    let Some(mut opened) = library.open()? else {
        let frame = Learnings { notice: NOTICE, learnings: Vec::new(), notes: vec![NOTHING_YET.to_owned()], next_cursor: None };
        return Answer::new(NOTHING_YET.to_owned(), &frame);
    };
    let tokenizer = Tokenizer::default();
    let query = arguments.query.as_deref().map(str::trim).filter(|query| !query.is_empty());
    let words = query.map(|query| Terms::of(query, &tokenizer).expression(&[]));
    let found = match words {
        // A query of which nothing is left finds nothing.
        Some(None) => Vec::new(),
        words => opened.store.learnings(&Wanted {
            kind: arguments.kind,
            project: arguments::project(arguments.project.as_deref(), library.folder())?,
            since_ms: moment("since", arguments.since.as_deref())?,
            words: words.flatten(),
            with_superseded: arguments.with_superseded.unwrap_or_default(),
            limit: MOST,
            ..Wanted::default()
        })?,
    };
    let mut frame = Learnings { notice: NOTICE, learnings: Vec::new(), notes: opened.notes, next_cursor: None };
    let mut page = Page::new(chars, head(&frame, found.is_empty()), &frame);
    for learning in found.iter().skip(begin) {
        let learning = shown(learning);
        if !page.add(&line(&learning), learning) {
            break;
        }
    }
    let next = begin + page.items.len();
    frame.learnings = page.items;
    frame.next_cursor = (next < found.len() && next > begin).then(|| page::cursor(&asked, next));
    page::foot(&mut page.text, frame.next_cursor.as_deref());
    Answer::new(page.text, &frame)
}

fn head(frame: &Learnings, is_empty: bool) -> String {
    let mut head = if is_empty {
        "Nothing of that kind was learned yet; `search` looks through all that was said.".to_owned()
    } else {
        format!("{NOTICE} `recall` gives the turn in which something was said.")
    };
    for note in &frame.notes {
        head.push_str(&format!("\nNote: {note}"));
    }
    head
}

fn shown(learning: &StoredLearning) -> Learning {
    Learning {
        id: learning.id.handle(),
        kind: learning.kind.name(),
        sentence: quote::line(&learning.sentence),
        time: when(learning.last_ms),
        project: learning.folder.as_deref().map(quote::line),
        handle: context::handle(&learning.turn),
        superseded_by: learning.superseded_by.map(|id| id.handle()),
    }
}

fn line(learning: &Learning) -> String {
    let time = learning.time.as_deref().unwrap_or_default();
    let project = learning.project.as_deref().unwrap_or_default();
    let taken_back = learning.superseded_by.as_ref().map(|by| format!(" (taken back by {by})")).unwrap_or_default();
    format!("\n{} {} {time} {project} {}{taken_back}\n  {}", learning.id, learning.kind, learning.handle, learning.sentence)
}
