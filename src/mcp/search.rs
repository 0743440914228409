//! `search`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{self, moment};
use super::error::Failure;
use super::page::{self, Page};
use super::tools::Answer;
use super::{Library, NOTHING_YET, NOTICE, when};
use ctxbridge_archive::quote::{self, cut};
use ctxbridge_archive::search::{self, Filter, Mode, Request};
use ctxbridge_archive::store::Store;

/// Hits on a page unless asked for others, and at most.
const HITS: u32 = 10;
const MOST_HITS: u32 = 50;

/// Characters of what a turn was about.
const SUMMARY_CHARS: usize = 200;

/// What was found.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Hits {
    /// What all of this is.
    notice: &'static str,
    /// The best first.
    hits: Vec<Hit>,
    /// What was compared: lexical, dense or hybrid.
    mode: &'static str,
    /// The time that the query names.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// For the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A turn or summary that fits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Hit {
    /// For `recall`.
    handle: String,
    /// Its session, for `timeline`.
    session: String,
    /// The colleague who archived it; nobody where that is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The folder that the client worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// What it was about.
    summary: String,
    /// The piece that fits best.
    snippet: String,
    /// Where the words are; nowhere in what is found by its meaning, or stands beside a hit.
    found_in: Vec<&'static str>,
    /// Whether it is on the team's server, and not here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    on_team_server: bool,
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<Answer, Failure> {
    let arguments: arguments::Search = arguments::read(given)?;
    if arguments.query.trim().is_empty() {
        return Err(Failure::argument("query", "it is empty"));
    }
    let limit = arguments.limit.unwrap_or(HITS);
    if !(1..=MOST_HITS).contains(&limit) {
        return Err(Failure::argument("limit", format!("{limit} is not between 1 and {MOST_HITS}")));
    }
    let chars = page::chars_of(arguments.max_tokens)?;
    let asked = arguments::asked("search", given);
    let begin = page::begin(&asked, arguments.cursor.as_deref())?;
    let end = begin.saturating_add(limit as usize);
    let request = Request {
        mode: arguments.mode,
        filter: Filter {
            session: arguments.session,
            project: arguments::project(arguments.project.as_deref(), library.folder())?,
            since_ms: moment("since", arguments.since.as_deref())?,
            until_ms: moment("until", arguments.until.as_deref())?,
            tool: arguments.tool,
            file: arguments.file,
        },
        kinds: arguments.kind.into_iter().collect(),
        // One more says whether there is a next page.
        limit: end.saturating_add(1),
        folder: Some(library.folder().to_string_lossy().into_owned()),
        ..Request::new(&arguments.query)
    };
    let Some(mut opened) = library.open()? else {
        let frame = Hits { notice: NOTICE, mode: Mode::Lexical.word(), notes: vec![NOTHING_YET.to_owned()], ..Hits::default() };
        return Answer::new(NOTHING_YET.to_owned(), &frame);
    };
    let found = library.search(&mut opened, &request)?;
    opened.notes.extend(found.notes);
    if found.hits.is_empty() && opened.store.sessions("", None, 1)?.is_empty() {
        opened.notes.push(NOTHING_YET.to_owned());
    }
    let mut frame =
        Hits { notice: NOTICE, mode: found.mode.word(), time: found.time, notes: opened.notes.clone(), ..Hits::default() };
    let mut page = Page::new(chars, head(&frame, found.hits.is_empty()), &frame);
    let count = found.hits.len();
    for hit in found.hits.iter().take(end).skip(begin) {
        let hit = shown(&mut *opened.store, hit)?;
        if !page.add(&line(&hit), hit) {
            break;
        }
    }
    let next = begin + page.items.len();
    frame.hits = page.items;
    frame.next_cursor = (next < count && next > begin).then(|| page::cursor(&asked, next));
    page::foot(&mut page.text, frame.next_cursor.as_deref());
    Answer::new(page.text, &frame)
}

fn head(frame: &Hits, is_empty: bool) -> String {
    let mut head = if is_empty { "Nothing was found.".to_owned() } else { format!("{NOTICE} `recall` gives a hit in full.") };
    if let Some(time) = &frame.time {
        head.push_str(&format!("\nThe time that is meant: {}", quote::line(time)));
    }
    for note in &frame.notes {
        head.push_str(&format!("\nNote: {note}"));
    }
    head
}

fn shown(store: &mut dyn Store, hit: &search::Hit) -> Result<Hit, Failure> {
    let (handle, at_ms, session) = hit.identity();
    Ok(Hit {
        handle,
        session: quote::line(session),
        owner: hit.owner().map(quote::line),
        project: store.session(session)?.and_then(|session| session.folder).map(|folder| quote::line(&folder)),
        time: when(at_ms),
        summary: cut(&quote::line(&hit.summary), SUMMARY_CHARS),
        snippet: quote::line(&hit.snippet.text),
        found_in: hit.words.iter().map(|(place, _)| *place).collect(),
        on_team_server: hit.is_elsewhere,
    })
}

fn line(hit: &Hit) -> String {
    let time = hit.time.as_deref().unwrap_or_default();
    let project = hit.project.as_deref().unwrap_or_default();
    let team = if hit.on_team_server { "(on the team's server) " } else { "" };
    let owner = hit.owner.as_ref().map(|owner| format!("of {owner} ")).unwrap_or_default();
    format!("\n{} {time} session {} {owner}{team}{project}\n  {}\n  > {}", hit.handle, hit.session, hit.summary, hit.snippet)
}
