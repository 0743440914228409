//! `ctxbridge search`

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::cli::output::{BOLD, DIM, GOOD, Output, count, fit, path_end, relative_time, short, stamp, styled};
use crate::cli::search_shared::{self, FoundTurns};
use crate::cli::{CommandOutcome, UsageError, pick};
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{Filter, Hit, HitContent, Mode, SearchRequest, Snippet, TextKind, time as times};
use ctxbridge_archive::store::Session;

/// Default maximum number of hits.
const DEFAULT_HITS: usize = 10;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge search why did we drop the retry budget
  ctxbridge search '\"connection reset by peer\"' --since 2026-05-01
  ctxbridge search parse_header* --project parser --kind answer
  ctxbridge search the migration last Tuesday

Phrases in quotes must match exactly, if they occur anywhere. A trailing * matches any ending. Days and ranges in the query limit \
the time: yesterday, last week, in March, 2026-05-04. `-v` says why each turn was found. Exits 1 if nothing is found.")]
pub(in crate::cli) struct SearchArgs {
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
    /// Ranking method [default: hybrid, or lexical where nothing has vectors]
    #[arg(long)]
    mode: Option<Mode>,
}

impl SearchArgs {
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
pub(in crate::cli) fn show(request: &SearchRequest, found: &FoundTurns, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let FoundTurns { results, sessions, .. } = found;
    for note in &results.notes {
        output.note(note);
    }
    let session = |hit: &Hit| sessions.get(hit.identity().2);
    if output.json {
        output.value(&json!({
            "query": request.text, "mode": results.mode.word(), "time": results.time, "notes": results.notes,
            "results": results.hits.iter().map(|hit| as_json(hit, session(hit))).collect::<Vec<_>>(),
        }))?;
    } else {
        output.pages();
        for hit in &results.hits {
            as_text(hit, session(hit), output)?;
        }
        match &results.hits[..] {
            [] if found.is_empty_archive => output.note("nothing is archived yet; `ctxbridge setup` begins an archive"),
            [] => output.note("nothing found; other words may help, and `ctxbridge sessions` lists what there is"),
            hits => output.hint(&format!(
                "{}; `ctxbridge recall {}` prints the first in full",
                count(hits.len() as u64, "turn"),
                hits[0].identity().0
            )),
        }
    }
    Ok(if results.hits.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}

/// Maximum columns of a project's name above a hit.
const PROJECT_COLUMNS: usize = 24;

fn as_text(hit: &Hit, session: Option<&Session>, output: &mut Output) -> anyhow::Result<()> {
    let (handle, at_ms, id) = hit.identity();
    let columns = output.columns();
    let when = relative_time(Some(at_ms), output.verbose);
    let folder = session.and_then(|session| session.folder.as_deref()).map(|folder| quote::line(&short(Path::new(folder))));
    let project = folder.map_or_else(String::new, |folder| path_end(&folder, PROJECT_COLUMNS.min(columns)));
    let title = session.and_then(|session| session.title.as_deref()).map(quote::line);
    let title = title.unwrap_or_else(|| format!("session {}", quote::line(id.get(..8).unwrap_or(id))));
    let before = [&handle, &when, &project].iter().filter(|text| !text.is_empty()).map(|text| text.width() + 2).sum::<usize>();
    let project = if project.is_empty() { project } else { styled(DIM, project) + "  " };
    output.line(format!(
        "{}  {}  {project}{}",
        styled(BOLD, handle),
        styled(DIM, when),
        fit(&title, columns.saturating_sub(before))
    ))?;
    for line in wrapped(&hit.snippet, columns.saturating_sub(2)) {
        output.line(format!("  {line}"))?;
    }
    let mut remarks = Vec::new();
    if hit.is_elsewhere {
        remarks.push("on the team's server".to_owned());
    }
    remarks.extend(hit.owner().map(|owner| format!("by {}", quote::line(owner))));
    if hit.is_rewound() {
        remarks.push("rewound".to_owned());
    }
    if hit.duplicates > 0 {
        remarks.push(format!("and {} that say the same", count(hit.duplicates as u64, "other")));
    }
    if output.verbose {
        remarks.push(format!("session {}", quote::line(id)));
        remarks.extend(why(hit));
    }
    if !remarks.is_empty() {
        output.line(styled(DIM, format!("  {}", remarks.join("; "))))?;
    }
    output.line("")?;
    Ok(())
}

/// The lines of a passage, with what matched in color.
fn wrapped(snippet: &Snippet, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut width) = (String::new(), 0);
    for (text, is_match) in parts(snippet) {
        for word in text.split_inclusive(' ') {
            let length = word.trim_end().width();
            if width > 0 && width + length > columns {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                width = 0;
            }
            // A word that is longer than a line is cut: a hit shows where to look, and recall prints all of it.
            let word = if length > columns { fit(word, columns) } else { word.to_owned() };
            width += word.width();
            line += &if is_match { styled(GOOD, &word) } else { word };
        }
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// The parts of a passage, and whether each matched.
fn parts(snippet: &Snippet) -> Vec<(String, bool)> {
    let mut parts = Vec::new();
    let mut at = 0;
    for mark in &snippet.marks {
        parts.push((quoted(&snippet.text[at..mark.start]), false));
        parts.push((quoted(&snippet.text[mark.clone()]), true));
        at = mark.end;
    }
    parts.push((quoted(&snippet.text[at..]), false));
    parts
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

fn as_json(hit: &Hit, session: Option<&Session>) -> Value {
    let (handle, at_ms, id) = hit.identity();
    let turn = match &hit.content {
        HitContent::Turn(turn) => Some(&**turn),
        HitContent::Summary(..) => None,
    };
    json!({
        "handle": handle,
        "session": id,
        "title": session.and_then(|session| session.title.as_ref()),
        "folder": session.and_then(|session| session.folder.as_ref()),
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
