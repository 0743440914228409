//! `search`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::arguments::{self, moment};
use super::error::ToolError;
use super::page::{self, ResultPage};
use super::{Library, NOTHING_YET, NOTICE, when};
use ctxbridge_archive::quote::{self, cut};
use ctxbridge_archive::search::{self, Filter, Mode, SearchRequest};
use ctxbridge_archive::store::SessionReader;

/// Default and maximum number of hits on a page.
const DEFAULT_PAGE_HITS: u32 = 10;
const MAX_PAGE_HITS: u32 = 50;

/// Maximum characters of a turn's summary.
const SUMMARY_CHARS: usize = 200;

/// The output of the tool.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct SearchOutput {
    /// The nature of this output.
    notice: &'static str,
    /// The hits, the best first.
    hits: Vec<SearchItem>,
    /// The mode of search: lexical, dense or hybrid.
    mode: &'static str,
    /// The time that the query names.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// Notes on the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A turn or summary that matches.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct SearchItem {
    /// The handle, for `recall`.
    handle: String,
    /// The session, for `timeline`.
    session: String,
    /// The colleague who archived it; none if that is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The folder that the client worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The subject, in one line.
    summary: String,
    /// The best passage.
    snippet: String,
    /// Parts of the turn that have the words; empty for a hit by meaning, or for a neighbor of a hit.
    found_in: Vec<&'static str>,
    /// `true` if it is on the team's server, and not on this machine.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    on_team_server: bool,
    /// `true` if the conversation went back to before it: it is not what was decided.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_rewound: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let arguments: arguments::SearchArguments = arguments::read(given)?;
    if arguments.query.trim().is_empty() {
        return Err(ToolError::invalid_argument("query", "it is empty"));
    }
    let limit = arguments.limit.unwrap_or(DEFAULT_PAGE_HITS);
    if !(1..=MAX_PAGE_HITS).contains(&limit) {
        return Err(ToolError::invalid_argument("limit", format!("{limit} is not between 1 and {MAX_PAGE_HITS}")));
    }
    let chars = page::budget_chars(arguments.max_tokens)?;
    let asked = arguments::request_key("search", given);
    let begin = page::page_start(&asked, arguments.cursor.as_deref())?;
    let end = begin.saturating_add(limit as usize);
    let mut request = SearchRequest {
        mode: arguments.mode,
        filter: Filter {
            session: arguments.session,
            project: None,
            since_ms: moment("since", arguments.since.as_deref())?,
            until_ms: moment("until", arguments.until.as_deref())?,
            tool: arguments.tool,
            file: arguments.file,
        },
        kinds: arguments.kind.into_iter().collect(),
        // One more says whether there is a next page.
        limit: end.saturating_add(1),
        folder: Some(library.folder().to_string_lossy().into_owned()),
        ..SearchRequest::new(&arguments.query)
    };
    let Some(mut opened) = library.open()? else {
        let frame = SearchOutput {
            notice: NOTICE,
            mode: Mode::Lexical.word(),
            notes: vec![NOTHING_YET.to_owned()],
            ..SearchOutput::default()
        };
        return ToolAnswer::new(NOTHING_YET.to_owned(), &frame);
    };
    request.filter.project = arguments::project(arguments.project.as_deref(), library, &mut *opened.store)?;
    let found = library.search(&mut opened, &request)?;
    opened.notes.extend(found.notes);
    if found.hits.is_empty() && opened.store.sessions("", None, 1)?.is_empty() {
        opened.notes.push(NOTHING_YET.to_owned());
    }
    let mut frame = SearchOutput {
        notice: NOTICE,
        mode: found.mode.word(),
        time: found.time,
        notes: opened.notes.clone(),
        ..SearchOutput::default()
    };
    let mut page = ResultPage::new(chars, head(&frame, found.hits.is_empty()), &frame);
    let count = found.hits.len();
    for hit in found.hits.iter().take(end).skip(begin) {
        let hit = shown(&mut *opened.store, hit)?;
        if !page.add(&line(&hit), hit) {
            break;
        }
    }
    let text;
    (text, frame.hits, frame.next_cursor) = page.finish(&asked, begin, count);
    ToolAnswer::new(text, &frame)
}

fn head(frame: &SearchOutput, is_empty: bool) -> String {
    let mut head = if is_empty { "Nothing was found.".to_owned() } else { format!("{NOTICE} `recall` gives a hit in full.") };
    if let Some(time) = &frame.time {
        head.push_str(&format!("\nThe time that is meant: {}", quote::line(time)));
    }
    page::add_notes(&mut head, &frame.notes);
    head
}

fn shown(store: &mut dyn SessionReader, hit: &search::Hit) -> Result<SearchItem, ToolError> {
    let (handle, at_ms, session) = hit.identity();
    Ok(SearchItem {
        handle,
        session: quote::line(session),
        owner: hit.owner().map(quote::line),
        project: store.session(session)?.and_then(|session| session.folder).map(|folder| quote::line(&folder)),
        time: when(at_ms),
        summary: cut(&quote::line(&hit.summary), SUMMARY_CHARS),
        snippet: quote::line(&hit.snippet.text),
        found_in: hit.words.iter().map(|(place, _)| *place).collect(),
        on_team_server: hit.is_elsewhere,
        is_rewound: hit.is_rewound(),
    })
}

fn line(hit: &SearchItem) -> String {
    let time = hit.time.as_deref().unwrap_or_default();
    let project = hit.project.as_deref().unwrap_or_default();
    let team = if hit.on_team_server { "(on the team's server) " } else { "" };
    let rewound = if hit.is_rewound { "(rewound: the conversation went on without it) " } else { "" };
    let owner = hit.owner.as_ref().map(|owner| format!("of {owner} ")).unwrap_or_default();
    format!(
        "\n{} {time} session {} {rewound}{owner}{team}{project}\n  {}\n  > {}",
        hit.handle, hit.session, hit.summary, hit.snippet
    )
}
