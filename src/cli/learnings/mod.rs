//! `ctxbridge learnings`

mod list;
mod patterns;
mod show;
mod stats;

use clap::Subcommand;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::output::{BOLD, DIM, Output, styled};
use super::{Answer, Usage};
use crate::cli::archive::{stamp, time as minute};
use ctxbridge_archive::learn::Kind;
use ctxbridge_archive::search::{self, time};
use ctxbridge_archive::store::{StoredLearning, Wanted};
use ctxbridge_archive::{context, quote};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge learnings list --kind decision --project .
  ctxbridge learnings search retry budget
  ctxbridge learnings show learn:1a2b3c4d
  ctxbridge learnings patterns --project .

Learnings are sentences of the model in archived sessions that say what was decided, what was wrong and fixed it, what came of something,
who goes on, and where one can come back to. Hooks look for them before a compaction and after a session; `ctxbridge archive optimize`
looks through what is archived already. A file learnings.toml beside your config.toml adds patterns: src/learn/patterns.toml has the form.")]
pub(super) struct LearningsArgs {
    #[command(subcommand)]
    command: LearningsCommand,
}

#[derive(Debug, Subcommand)]
enum LearningsCommand {
    /// What was learned, the newest first
    List(list::ListArgs),
    /// Find learnings by their words, the best first
    Search(list::SearchArgs),
    /// One learning, with what is around it
    Show(show::ShowArgs),
    /// What keeps failing, what fixed it, and files that change together
    Patterns(patterns::PatternsArgs),
    /// What the tools and sub-agents of a session did
    Stats(stats::StatsArgs),
}

impl LearningsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            LearningsCommand::List(args) => args.run(output),
            LearningsCommand::Search(args) => args.run(output),
            LearningsCommand::Show(args) => args.run(output),
            LearningsCommand::Patterns(args) => args.run(output),
            LearningsCommand::Stats(args) => args.run(output),
        }
    }
}

/// Which learnings.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only decision, solution, outcome, handoff or checkpoint
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<Kind>,
    /// Only of sessions of this folder or below; a part of its path is enough, `.` is where you are
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Only what was said then or later: a day, or as in `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Also what was taken back by a later decision
    #[arg(long)]
    all: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| format!("there are {}", Kind::ALL.map(Kind::name).join(", ")))
}

impl Which {
    fn wanted(&self) -> anyhow::Result<Wanted> {
        let since = self.since.as_deref().map(|text| time::moment(text, Timestamp::now(), &TimeZone::system()).map_err(Usage));
        Ok(Wanted {
            kind: self.kind,
            project: project(self.project.as_deref())?,
            since_ms: since.transpose()?,
            with_superseded: self.all,
            limit: usize::try_from(self.limit).unwrap_or(usize::MAX),
            ..Wanted::default()
        })
    }
}

/// The folder that a user means, as searches take it.
pub(super) fn project(named: Option<&str>) -> anyhow::Result<Option<String>> {
    let folder = std::env::current_dir().unwrap_or_default();
    let known = |named| search::project(named, &folder).ok_or_else(|| Usage("--project names no folder".to_owned()).into());
    named.map(known).transpose()
}

fn tell(learning: &StoredLearning, output: &mut Output) -> anyhow::Result<()> {
    let again = if learning.said > 1 { format!(", said {} times", learning.said) } else { String::new() };
    let taken_back = learning.superseded_by.map(|by| format!(", taken back by {}", by.handle())).unwrap_or_default();
    let folder = learning.folder.as_deref().map(quote::line).unwrap_or_default();
    output.line(format!(
        "{}  {:<10}  {}  {}",
        styled(BOLD, learning.id.handle()),
        learning.kind.name(),
        minute(Some(learning.last_ms)),
        styled(DIM, format!("{} {folder}{again}{taken_back}", context::handle(&learning.turn)))
    ))?;
    output.line(format!("  {}", quote::line(&learning.sentence)))?;
    Ok(())
}

fn as_json(learning: &StoredLearning) -> Value {
    json!({
        "id": learning.id.handle(), "kind": learning.kind.name(), "sentence": learning.sentence,
        "confidence": learning.confidence, "folder": learning.folder, "first": stamp(learning.first_ms),
        "last": stamp(learning.last_ms), "said": learning.said, "superseded_by": learning.superseded_by.map(|by| by.handle()),
        "session": learning.session, "turn": context::handle(&learning.turn), "before": learning.around.0,
        "after": learning.around.1, "agent": learning.agent, "tools": learning.tools,
    })
}
