//! `ctxbridge archive search`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::cli::output::{BOLD, DIM, GOOD, Output, stamp, styled, time};
use crate::cli::{CommandOutcome, UsageError, pick, search_shared};
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{Filter, Hit, HitContent, Mode, SearchRequest, SearchResults, Snippet, TextKind, time as times};

/// Default maximum number of hits.
const DEFAULT_HITS: usize = 10;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive search why did we drop the retry budget
  ctxbridge archive search '\"connection reset by peer\"' --since 2026-05-01
  ctxbridge archive search parse_header* --project parser --kind answer
  ctxbridge archive search the migration last Tuesday

Phrases in quotes must match exactly, if they occur anywhere. A trailing * matches any ending. Days and ranges in the query limit \
the time: yesterday, last week, in March, 2026-05-04. Exits 1 if nothing is found.")]
pub(in crate::cli) struct ArchiveSearchArgs {
    /// Words, "phrases" or a question to search for
    #[arg(required_unless_present = "interactive")]
    query: Vec<String>,
    /// Pick from a list of sessions and turns that follows what you type
    #[arg(short, long, conflicts_with_all = ["session", "since", "until", "tool", "file", "kind", "limit", "here", "mode"])]
    interactive: bool,
    /// Only this session (id or prefix)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Only turns started at this time or later: a day, or words such as `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only turns started before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only turns that used this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only turns that read or wrote this file (part of the path is enough)
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Search only this kind of text; may be repeated
    #[arg(long, value_name = "KIND")]
    kind: Vec<TextKind>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = DEFAULT_HITS as u64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Search only this machine, not the team server
    #[arg(long)]
    here: bool,
    /// Ranking method [default: hybrid if a model is installed, else lexical]
    #[arg(long)]
    mode: Option<Mode>,
}

impl ArchiveSearchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if self.interactive {
            return pick::run(&self.query.join(" "), self.project.as_deref(), output);
        }
        let folder = std::env::current_dir().unwrap_or_default();
        let request = SearchRequest {
            filter: Filter {
                session: self.session.clone(),
                project: None,
                since_ms: self.since.as_deref().map(edge).transpose()?,
                until_ms: self.until.as_deref().map(edge).transpose()?,
                tool: self.tool.clone(),
                file: self.file.clone(),
            },
            kinds: self.kind.clone(),
            limit: usize::try_from(self.limit).unwrap_or(DEFAULT_HITS),
            mode: self.mode,
            folder: Some(folder.to_string_lossy().into_owned()),
            ..SearchRequest::new(&self.query.join(" "))
        };
        let found = search_shared::search(request.clone(), self.project.as_deref(), self.here, output)?;
        show(&request, &found, output)
    }
}

/// Parses a time as the start of the named day or range, for both ends: `--until March` means before March.
fn edge(text: &str) -> anyhow::Result<i64> {
    times::parse_moment(text, Timestamp::now(), &TimeZone::system()).map_err(|why| UsageError(why).into())
}

/// Prints search results.
pub(in crate::cli) fn show(
    request: &SearchRequest,
    found: &SearchResults,
    output: &mut Output,
) -> anyhow::Result<CommandOutcome> {
    for note in &found.notes {
        output.note(note);
    }
    if output.json {
        output.value(&json!({
            "query": request.text, "mode": found.mode.word(), "time": found.time, "notes": found.notes,
            "results": found.hits.iter().map(as_json).collect::<Vec<_>>(),
        }))?;
    } else {
        for hit in &found.hits {
            as_text(hit, output)?;
        }
        if found.hits.is_empty() {
            output.note("nothing found");
        }
    }
    Ok(if found.hits.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}

fn as_text(hit: &Hit, output: &mut Output) -> anyhow::Result<()> {
    let (handle, at_ms, session) = hit.identity();
    let team = if hit.is_elsewhere { ", on the team's server" } else { "" };
    let owner = hit.owner().map(|owner| format!(" of {}", quote::line(owner))).unwrap_or_default();
    let rewound = if hit.is_rewound() { ", rewound" } else { "" };
    let also = if hit.duplicates > 0 { format!(" and {} that say the same", hit.duplicates) } else { String::new() };
    output.line(format!(
        "{}  {}  {}",
        styled(BOLD, handle),
        time(Some(at_ms)),
        styled(DIM, format!("session {}{rewound}{owner}{team}{also}", quote::line(session.get(..8).unwrap_or(session))))
    ))?;
    output.line(format!("  {}", marked(&hit.snippet)))?;
    output.line(styled(DIM, format!("  {}", why(hit).join("; "))))?;
    output.line("")?;
    Ok(())
}

fn marked(snippet: &Snippet) -> String {
    let mut shown = String::new();
    let mut at = 0;
    for mark in &snippet.marks {
        shown += &quoted(&snippet.text[at..mark.start]);
        shown += &styled(GOOD, quoted(&snippet.text[mark.clone()]));
        at = mark.end;
    }
    shown + &quoted(&snippet.text[at..])
}

/// Removes control characters; spaces at the ends stay.
fn quoted(text: &str) -> String {
    let space = |is: bool| if is { " " } else { "" };
    let inner = quote::line(text);
    if inner.is_empty() {
        return space(!text.is_empty()).to_owned();
    }
    format!("{}{inner}{}", space(text.starts_with(' ')), space(text.ends_with(' ')))
}

/// Reasons for a hit, most specific first.
fn why(hit: &Hit) -> Vec<String> {
    let mut why = Vec::new();
    for (name, words) in &hit.words {
        why.push(format!("{name}: {}", words.join(", ")));
    }
    if let Some(cosine) = hit.cosine {
        why.push(format!("meaning {cosine:.2}"));
    }
    if hit.is_neighbor {
        why.push("beside hits".to_owned());
    }
    if hit.is_in_time {
        why.push("of that time".to_owned());
    }
    why
}

fn as_json(hit: &Hit) -> Value {
    let (handle, at_ms, session) = hit.identity();
    let turn = match &hit.content {
        HitContent::Turn(turn) => Some(&**turn),
        HitContent::Summary(..) => None,
    };
    json!({
        "handle": handle,
        "session": session,
        "owner": hit.owner(),
        "agent": turn.and_then(|turn| turn.agent.as_ref()),
        "turn": turn.map(|turn| turn.turn.index),
        "timestamp": stamp(at_ms),
        "score": (hit.score * 1e4).round() / 1e4,
        "why": why(hit),
        "summary": hit.summary,
        "text": hit.snippet.text,
        "highlights": hit.snippet.marks.iter().map(|mark| &hit.snippet.text[mark.clone()]).collect::<Vec<_>>(),
        "duplicates": hit.duplicates,
        "is_on_server_only": hit.is_elsewhere,
        "is_rewound": hit.is_rewound(),
    })
}
