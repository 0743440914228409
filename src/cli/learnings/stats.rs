//! `ctxbridge learnings stats`

use serde_json::json;

use super::minute;
use crate::cli::archives;

use crate::cli::output::{BOLD, DIM, Output, count, duration, stamp, styled};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::learn::{LearningKind, ToolStats};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::LearningQuery;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge learnings stats 5e551011

`-v` lists the tools. Exits 1 if there are no statistics of the session.")]
pub(super) struct LearningsStatsArgs {
    /// Session id or prefix
    session: String,
}

impl LearningsStatsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let Some(session) = archives::find(&mut *store, &self.session)? else {
            return Err(UsageError(format!(
                "no session begins with {}; `ctxbridge sessions` lists them",
                quote::line(&self.session)
            ))
            .into());
        };
        let tallies = store.tool_stats(session.key)?;
        let learnings =
            store.learnings(&LearningQuery { session: Some(session.key), with_superseded: true, ..LearningQuery::default() })?;
        let by_kind = |kind: LearningKind| learnings.iter().filter(|learning| learning.kind == kind).count();
        if output.json {
            let of_one = |(agent, tally): &(Option<String>, ToolStats)| {
                json!({
                    "agent": agent, "tools": tally.tools, "agents": tally.agents.asked, "transitions": tally.agents.transitions,
                    "checkpoints": tally.checkpoints.iter().map(|point| json!({ "at": stamp(point.at_ms), "command": point.command })).collect::<Vec<_>>(),
                })
            };
            let kinds: serde_json::Map<_, _> =
                LearningKind::ALL.iter().map(|kind| (kind.name().to_owned(), by_kind(*kind).into())).collect();
            output.value(&json!({
                "session": session.session, "learnings": kinds, "transcripts": tallies.iter().map(of_one).collect::<Vec<_>>(),
            }))?;
        } else {
            if output.verbose {
                for (agent, tally) in &tallies {
                    tell(agent.as_deref(), tally, output)?;
                }
            } else {
                output.prose(2, summary(&tallies))?;
            }
            let kinds: Vec<String> = LearningKind::ALL.iter().map(|kind| count(by_kind(*kind) as u64, kind.name())).collect();
            output.prose(2, format!("learnings: {}", kinds.join(", ")))?;
        }
        Ok(if tallies.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

/// Says on one line what was called; `-v` says it tool by tool.
fn summary(tallies: &[(Option<String>, ToolStats)]) -> String {
    let tools = || tallies.iter().flat_map(|(_, tally)| &tally.tools);
    let (calls, errors) = tools().fold((0, 0), |(calls, errors), (_, one)| (calls + one.calls, errors + one.errors));
    let names: std::collections::BTreeSet<&String> = tools().map(|(name, _)| name).collect();
    let agents = tallies.iter().filter(|(agent, _)| agent.is_some()).count() as u64;
    let by = if agents > 0 { format!(", {} included", count(agents, "sub-agent")) } else { String::new() };
    format!("tools: {} of {}, {errors} failed{by}", count(calls, "call"), count(names.len() as u64, "tool"))
}

fn tell(agent: Option<&str>, tally: &ToolStats, output: &mut Output) -> anyhow::Result<()> {
    output
        .prose(2, styled(BOLD, agent.map_or("conversation".to_owned(), |agent| format!("sub-agent {}", quote::line(agent)))))?;
    for (tool, one) in &tally.tools {
        let failed = if one.errors > 0 { format!(", {} failed", one.errors) } else { String::new() };
        let times = format!("{} on average, {} at most", duration(one.total_ms / one.calls.max(1)), duration(one.longest_ms));
        output.prose(2, format!("  {:<16} {:>5} calls{failed}  {}", quote::line(tool), one.calls, styled(DIM, times)))?;
    }
    for (name, times) in tally.agents.transitions.iter() {
        output.prose(2, format!("  {:<16} {times:>5} times", quote::line(name)))?;
    }
    for point in &tally.checkpoints {
        output.prose(2, format!("  {}  {}", minute(Some(point.at_ms)), quote::line(&point.command)))?;
    }
    Ok(())
}
