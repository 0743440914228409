//! `ctxbridge mod status`

use serde_json::json;

use super::{ClientPathArg, user_settings};
use crate::cli::output::{BAD, DIM, GOOD, count, styled, time};
use crate::cli::{CommandOutcome, Output};
use crate::client_mod::status::{ModStatus, mod_status};
use crate::hook::mod_state::{AnsweredCompaction, ModState};
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge mod status || ctxbridge mod install

The client may switch plugins' modules off: in folders that it does not trust, with --safe-mode, by a policy, or by a flag that its maker \
sets. So only a session that has loaded the module proves it. Exits 0 if one has, else 1.")]
pub(super) struct ModStatusArgs {
    #[command(flatten)]
    client: ClientPathArg,
}

/// Number of answers that are shown.
const SHOWN: usize = 5;

impl ModStatusArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let (data, target) = (paths::data_dir()?, self.client.target().ok());
        let status = mod_status(&data, &user_settings()?, target.as_ref().and_then(|target| target.version.as_ref()));
        let answers = ModState::in_dir(&data).answers();
        if output.json {
            output.value(&json!({ "status": status, "text": status.to_string(), "answers": answers }))?;
        } else {
            let mark = if status.is_in_force() { styled(GOOD, "✓") } else { styled(BAD, "✗") };
            output.prose(2, format!("{mark} {status}"))?;
            if let Some(next) = status.next_step() {
                output.prose(2, styled(DIM, next))?;
            }
            tell(&answers, output)?;
        }
        Ok(if matches!(status, ModStatus::Loaded { .. }) { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn tell(answers: &[AnsweredCompaction], output: &mut Output) -> anyhow::Result<()> {
    let answered = answers.iter().filter(|answer| answer.messages_after.is_some()).count();
    if answers.is_empty() {
        return Ok(());
    }
    output.prose(
        2,
        format!("{} answered, {} left to the client", count(answered as u64, "compaction"), answers.len() - answered),
    )?;
    for answer in answers.iter().rev().take(SHOWN) {
        let session: String = answer.session.chars().take(8).collect();
        let what = match (answer.messages_after, &answer.reason) {
            (Some(after), _) => format!("{} became {after}", count(answer.messages_before as u64, "message")),
            (None, reason) => format!("left to the client: {}", reason.as_deref().unwrap_or("?")),
        };
        output.prose(2, styled(DIM, format!("  {}  {session}  {what}", time(Some(answer.at_ms)))))?;
    }
    Ok(())
}
