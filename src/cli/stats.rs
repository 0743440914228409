//! `ctxbridge stats`

use std::time::{Duration, Instant};

use serde_json::json;

use super::output::{BOLD, DIM, Output, count, size, styled};
use super::{CommandOutcome, dashboard};
use crate::dashboard::data::{DashboardService, TotalSavings};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge stats

Each archived session is replayed once, without and with pruning; results are kept, so that the next run is quick. Compactions avoided, \
tokens and dollars are what pruning by your settings saves in the replay, at list prices. Exits 1 if nothing is archived.")]
pub(super) struct StatsArgs {
    /// Maximum time for sessions that were not replayed yet, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    limit_time: u64,
}

impl StatsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let service = DashboardService::new(dashboard::source(output)?);
        let overview = service.overview()?;
        if overview.is_empty {
            output.note(
                "nothing is archived yet; `ctxbridge setup` installs all, `ctxbridge archive import` takes in what there is",
            );
            return Ok(CommandOutcome::No);
        }
        service.replay_until(Instant::now() + Duration::from_secs(self.limit_time), &|so_far| {
            output.progress(&format!("replaying sessions, {} left", so_far.pending));
        })?;
        output.clear_progress();
        let savings = service.total_savings()?;
        if output.json {
            output.value(&json!({ "archive": overview, "savings": savings }))?;
            return Ok(CommandOutcome::Yes);
        }
        tell(&savings, output)?;
        let learnings: u64 = overview.learnings.iter().map(|(_, number)| number).sum();
        output.prose(
            2,
            format!(
                "{} {}, {}, {}; {} of transcripts in {}",
                styled(BOLD, "Archive"),
                count(overview.sessions, "session"),
                count(overview.turns, "turn"),
                count(learnings, "learning"),
                size(overview.bytes_raw.cast_signed()),
                size(overview.bytes_stored.cast_signed())
            ),
        )?;
        output.hint("`ctxbridge dashboard --open` shows it over time, `ctxbridge prune simulate ID` one session");
        Ok(CommandOutcome::Yes)
    }
}

fn tell(savings: &TotalSavings, output: &mut Output) -> anyhow::Result<()> {
    let (without, pruned) = (&savings.without, &savings.pruned);
    if savings.sessions == 0 {
        output.prose(2, format!("{} no session has an answer of the model yet", styled(BOLD, "Savings")))?;
        return Ok(());
    }
    let avoided = without.compactions.saturating_sub(pruned.compactions);
    let saved_tokens = without.input_tokens as f64 - pruned.input_tokens as f64;
    output.prose(
        2,
        format!("{} in {}, replayed with your settings:", styled(BOLD, "Savings"), count(savings.sessions, "session")),
    )?;
    output.prose(
        2,
        match without.compactions {
            0 => "  no compaction was in them, so there was none to avoid".to_owned(),
            compactions => format!("  {avoided} of {} avoided", count(compactions, "compaction")),
        },
    )?;
    output.prose(
        2,
        format!(
            "  {:.1} million tokens saved of {:.1} million ({:.0} %)",
            saved_tokens / 1e6,
            without.input_tokens as f64 / 1e6,
            saved_tokens / without.input_tokens.max(1) as f64 * 100.0
        ),
    )?;
    output.prose(2, format!("  ${:.2} instead of ${:.2}; {}", pruned.cost_usd, without.cost_usd, savings.tally))?;
    if savings.pending > 0 {
        output.prose(2, styled(DIM, format!("  {} still to be replayed: run it again", count(savings.pending, "session"))))?;
    }
    Ok(())
}
