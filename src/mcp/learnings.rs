//! `learnings`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::arguments::{self, moment};
use super::error::ToolError;
use super::page::{self, ResultPage};
use super::{Library, NOTHING_YET, NOTICE, when};
use ctxbridge_archive::learn::{MAX_RANKED_LEARNINGS, sort_by_worth, taken_back_last};
use ctxbridge_archive::search::query::QueryTerms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{LearningQuery, StoredLearning};
use ctxbridge_archive::{handle, quote};

/// The output of the tool.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct LearningsOutput {
    /// The nature of this output.
    notice: &'static str,
    /// The learnings: the best first, or those most worth reading.
    learnings: Vec<LearningItem>,
    /// Notes on the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A learning in the list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct LearningItem {
    /// Its id.
    id: String,
    /// decision, solution, outcome, handoff or checkpoint.
    kind: &'static str,
    /// The sentence, as it was said.
    sentence: String,
    /// Time when it was last said.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The folder that the client worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// The handle of the turn, for `recall`.
    handle: String,
    /// Id of the learning that replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    /// `true` if the conversation went back to before it was said.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_rewound: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let arguments: arguments::LearningsArguments = arguments::read(given)?;
    let chars = page::budget_chars(arguments.max_tokens)?;
    let asked = arguments::request_key("learnings", given);
    let begin = page::page_start(&asked, arguments.cursor.as_deref())?;
    let Some(mut opened) = library.open()? else {
        let frame =
            LearningsOutput { notice: NOTICE, learnings: Vec::new(), notes: vec![NOTHING_YET.to_owned()], next_cursor: None };
        return ToolAnswer::new(NOTHING_YET.to_owned(), &frame);
    };
    let tokenizer = Tokenizer::default();
    let query = arguments.query.as_deref().map(str::trim).filter(|query| !query.is_empty());
    let words = query.map(|query| QueryTerms::of(query, &tokenizer).expression(&[]));
    let is_search = words.is_some();
    let mut found = match words {
        // A query of which nothing is left finds nothing.
        Some(None) => Vec::new(),
        words => {
            let query = LearningQuery {
                kind: arguments.kind,
                project: arguments::project(arguments.project.as_deref(), library, &mut *opened.store)?,
                since_ms: moment("since", arguments.since.as_deref())?,
                words: words.flatten(),
                with_superseded: arguments.with_superseded.unwrap_or_default(),
                limit: MAX_RANKED_LEARNINGS,
                ..LearningQuery::default()
            };
            opened.store.learnings(&query)?
        }
    };
    if is_search {
        taken_back_last(&mut found);
    } else {
        sort_by_worth(&mut found);
    }
    let mut frame = LearningsOutput { notice: NOTICE, learnings: Vec::new(), notes: opened.notes, next_cursor: None };
    let mut page = ResultPage::new(chars, head(&frame, found.is_empty()), &frame);
    for learning in found.iter().skip(begin) {
        let learning = shown(learning);
        if !page.add(&line(&learning), learning) {
            break;
        }
    }
    let text;
    (text, frame.learnings, frame.next_cursor) = page.finish(&asked, begin, found.len());
    ToolAnswer::new(text, &frame)
}

fn head(frame: &LearningsOutput, is_empty: bool) -> String {
    let mut head = if is_empty {
        "Nothing of that kind was learned yet; `search` looks through all that was said.".to_owned()
    } else {
        format!("{NOTICE} `recall` gives the turn in which something was said.")
    };
    page::add_notes(&mut head, &frame.notes);
    head
}

fn shown(learning: &StoredLearning) -> LearningItem {
    LearningItem {
        id: learning.id.handle(),
        kind: learning.kind.name(),
        sentence: quote::line(&learning.sentence),
        time: when(learning.last_ms),
        project: learning.folder.as_deref().map(quote::line),
        handle: handle::turn_handle(&learning.turn),
        superseded_by: learning.superseded_by.map(|id| id.handle()),
        is_rewound: learning.is_rewound,
    }
}

fn line(learning: &LearningItem) -> String {
    let time = learning.time.as_deref().unwrap_or_default();
    let project = learning.project.as_deref().unwrap_or_default();
    let taken_back = match &learning.superseded_by {
        Some(by) => format!(" (taken back by {by})"),
        None if learning.is_rewound => " (taken back: rewound)".to_owned(),
        None => String::new(),
    };
    format!("\n{} {} {time} {project} {}{taken_back}\n  {}", learning.id, learning.kind, learning.handle, learning.sentence)
}
