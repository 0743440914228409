//! `ctxbridge learnings`

mod list;
mod patterns;
mod show;
mod stats;

use clap::Subcommand;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::archives;
use super::output::{BOLD, DIM, Output, styled};
use super::output::{stamp, time as minute};
use super::{CommandOutcome, UsageError};
use ctxbridge_archive::learn::LearningKind;
use ctxbridge_archive::search::time;
use ctxbridge_archive::store::{LearningQuery, Store, StoredLearning};
use ctxbridge_archive::{handle, quote};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge learnings list --kind decision --project .
  ctxbridge learnings search retry budget
  ctxbridge learnings show learn:1a2b3c4d
  ctxbridge learnings patterns --project .

Learnings are sentences of the model in archived sessions: decisions, fixes, outcomes, handoffs and checkpoints. Hooks extract \
them before a compaction and after a session; `ctxbridge archive optimize` extracts them from older sessions.

A file learnings.toml next to your config.toml adds patterns; docs/learnings.md describes the form.")]
pub(super) struct LearningsArgs {
    #[command(subcommand)]
    command: LearningsCommand,
}

#[derive(Debug, Subcommand)]
enum LearningsCommand {
    /// List learnings, most worth reading first
    List(list::LearningsListArgs),
    /// Search learnings by words, best first
    Search(list::LearningsSearchArgs),
    /// Show one learning with its context
    Show(show::LearningsShowArgs),
    /// Show recurring failures with their fixes, and files that change together
    Patterns(patterns::PatternsArgs),
    /// Show tool and sub-agent statistics of a session
    Stats(stats::LearningsStatsArgs),
}

impl LearningsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            LearningsCommand::List(args) => args.run(output),
            LearningsCommand::Search(args) => args.run(output),
            LearningsCommand::Show(args) => args.run(output),
            LearningsCommand::Patterns(args) => args.run(output),
            LearningsCommand::Stats(args) => args.run(output),
        }
    }
}

/// Filter of learnings.
#[derive(Debug, clap::Args)]
struct LearningFilterArgs {
    /// Only this kind: decision, solution, outcome, handoff or checkpoint
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<LearningKind>,
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Only learnings from this time on: a day, or words such as `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Include learnings superseded by a later decision, or rewound
    #[arg(long)]
    all: bool,
    /// Maximum number to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
}

fn kind(name: &str) -> Result<LearningKind, String> {
    LearningKind::named(name).ok_or_else(|| format!("there are {}", LearningKind::ALL.map(LearningKind::name).join(", ")))
}

impl LearningFilterArgs {
    fn to_query(&self, store: &mut dyn Store, output: &Output) -> anyhow::Result<LearningQuery> {
        let since =
            self.since.as_deref().map(|text| time::parse_moment(text, Timestamp::now(), &TimeZone::system()).map_err(UsageError));
        Ok(LearningQuery {
            kind: self.kind,
            project: archives::project(self.project.as_deref(), store, false, output)?,
            since_ms: since.transpose()?,
            with_superseded: self.all,
            limit: usize::try_from(self.limit).unwrap_or(usize::MAX),
            ..LearningQuery::default()
        })
    }
}

fn tell(learning: &StoredLearning, output: &mut Output) -> anyhow::Result<()> {
    let again = if learning.said > 1 { format!(", said {} times", learning.said) } else { String::new() };
    let taken_back = match learning.superseded_by {
        Some(by) => format!(", taken back by {}", by.handle()),
        None if learning.is_rewound => ", taken back: rewound".to_owned(),
        None => String::new(),
    };
    let folder = learning.folder.as_deref().map(quote::line).unwrap_or_default();
    output.row(format!(
        "{}  {:<10}  {}  {}",
        styled(BOLD, learning.id.handle()),
        learning.kind.name(),
        minute(Some(learning.last_ms)),
        styled(DIM, format!("{}{again}{taken_back}  {folder}", handle::turn_handle(&learning.turn)))
    ))?;
    output.prose(2, format!("  {}", quote::line(&learning.sentence)))?;
    Ok(())
}

fn as_json(learning: &StoredLearning) -> Value {
    json!({
        "id": learning.id.handle(), "kind": learning.kind.name(), "sentence": learning.sentence,
        "confidence": learning.confidence, "folder": learning.folder, "first": stamp(learning.first_ms),
        "last": stamp(learning.last_ms), "said": learning.said, "superseded_by": learning.superseded_by.map(|by| by.handle()), "is_rewound": learning.is_rewound,
        "session": learning.session, "turn": handle::turn_handle(&learning.turn), "before": learning.around.0,
        "after": learning.around.1, "agent": learning.agent, "tools": learning.tools,
    })
}
