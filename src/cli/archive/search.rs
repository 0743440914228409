//! `ctxbridge archive search`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{stamp, time};
use crate::cli::output::{BOLD, DIM, GOOD, Output, styled};
use crate::cli::{Answer, Usage, finding};
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{self, Filter, Found, Hit, Kind, Mode, Request, Snippet, What, time as times};

/// Hits unless asked for others.
const LIMIT: usize = 10;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive search why did we drop the retry budget
  ctxbridge archive search '\"connection reset by peer\"' --tool Bash --since 2026-05-01
  ctxbridge archive search parse_header* --project parser --kind answer
  ctxbridge archive search the migration last Tuesday

What is in quotes has to stand there as it is typed, if it does anywhere; a word with * behind it may go on.
Days and ranges in the query count: yesterday, last week, in March, 2026-05-04.")]
pub(in crate::cli) struct SearchArgs {
    /// What to look for
    #[arg(required = true)]
    query: Vec<String>,
    /// Only in this session; the begin of its id is enough
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only in sessions of this folder or below; a part of its path is enough, `.` is where you are
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Only what began then or later: a day, or as in `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what began before then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only turns that used this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only turns that read or wrote such a file; a part of its path is enough
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Only words in prompts, answers, tool calls and results, paths, or summaries; may be given several times
    #[arg(long, value_name = "KIND")]
    kind: Vec<Kind>,
    /// Hits at most
    #[arg(long, value_name = "N", default_value_t = LIMIT as u64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    /// Do not ask the team's server, where there is one
    #[arg(long)]
    here: bool,
    /// What to compare [default: hybrid where there is a model, else lexical]
    #[arg(long)]
    mode: Option<Mode>,
}

impl SearchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let folder = std::env::current_dir().unwrap_or_default();
        let known = |named: &str| search::project(named, &folder).ok_or_else(|| Usage("--project names no folder".to_owned()));
        let request = Request {
            filter: Filter {
                session: self.session.clone(),
                project: self.project.as_deref().map(known).transpose()?,
                since_ms: self.since.as_deref().map(edge).transpose()?,
                until_ms: self.until.as_deref().map(edge).transpose()?,
                tool: self.tool.clone(),
                file: self.file.clone(),
            },
            kinds: self.kind.clone(),
            limit: usize::try_from(self.limit).unwrap_or(LIMIT),
            mode: self.mode,
            folder: Some(folder.to_string_lossy().into_owned()),
            ..Request::new(&self.query.join(" "))
        };
        let found = finding::search(&request, self.here, output)?;
        show(&request, &found, output)
    }
}

/// The begin of the days that are named, for both ends: until March is before March.
fn edge(text: &str) -> anyhow::Result<i64> {
    times::moment(text, Timestamp::now(), &TimeZone::system()).map_err(|why| Usage(why).into())
}

/// Tells what was found.
pub(in crate::cli) fn show(request: &Request, found: &Found, output: &mut Output) -> anyhow::Result<Answer> {
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
    Ok(if found.hits.is_empty() { Answer::No } else { Answer::Yes })
}

fn as_text(hit: &Hit, output: &mut Output) -> anyhow::Result<()> {
    let (handle, at_ms, session) = hit.identity();
    let team = if hit.is_elsewhere { ", on the team's server" } else { "" };
    let owner = hit.owner().map(|owner| format!(" of {}", quote::line(owner))).unwrap_or_default();
    let also = if hit.duplicates > 0 { format!(" and {} that say the same", hit.duplicates) } else { String::new() };
    output.line(format!(
        "{}  {}  {}",
        styled(BOLD, handle),
        time(Some(at_ms)),
        styled(DIM, format!("session {}{owner}{team}{also}", quote::line(session.get(..8).unwrap_or(session))))
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

/// Without what a terminal would obey; spaces at the ends stay.
fn quoted(text: &str) -> String {
    let space = |is: bool| if is { " " } else { "" };
    let inner = quote::line(text);
    if inner.is_empty() {
        return space(!text.is_empty()).to_owned();
    }
    format!("{}{inner}{}", space(text.starts_with(' ')), space(text.ends_with(' ')))
}

/// The reasons, the most telling first.
fn why(hit: &Hit) -> Vec<String> {
    let mut why = Vec::new();
    for (name, words) in &hit.words {
        why.push(format!("{name}: {}", words.join(", ")));
    }
    if let Some(cosine) = hit.cosine {
        why.push(format!("meaning {cosine:.2}"));
    }
    if hit.is_neighbour {
        why.push("beside hits".to_owned());
    }
    if hit.is_in_time {
        why.push("of that time".to_owned());
    }
    why
}

fn as_json(hit: &Hit) -> Value {
    let (handle, at_ms, session) = hit.identity();
    let turn = match &hit.what {
        What::Turn(turn) => Some(&**turn),
        What::Summary(..) => None,
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
    })
}
