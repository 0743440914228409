//! `ctxbridge mod verify`

use super::ClientPathArg;
use crate::cli::output::{BAD, GOOD, styled};
use crate::cli::{CommandOutcome, Output};
use crate::client_mod::proof::{ModProof, prove};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge mod verify

Runs the client in a scratch folder, without an account and without a network: four prompts, a compaction, and a resume. Your settings \
and sessions are not touched. Exits 1 if the client does not ask the plugin.")]
pub(super) struct ModVerifyArgs {
    #[command(flatten)]
    client: ClientPathArg,
}

impl ModVerifyArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let target = self.client.target()?;
        output.progress("running the client with the plugin");
        let proof = prove(&target, &std::env::current_exe()?);
        output.clear_progress();
        let proof = proof?;
        if output.json {
            let mut value = serde_json::to_value(&proof)?;
            value["holds"] = proof.holds().into();
            value["client"] = serde_json::to_value(&target.path)?;
            value["version"] = target.version_text().into();
            output.value(&value)?;
        } else {
            output.prose(2, format!("Claude Code {}, {}", target.version_text(), target.path.display()))?;
            for (holds, text) in told(&proof) {
                let mark = if holds { styled(GOOD, "✓") } else { styled(BAD, "✗") };
                output.prose(2, format!("{mark} {text}"))?;
            }
        }
        Ok(if proof.holds() { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn told(proof: &ModProof) -> Vec<(bool, String)> {
    let ModProof { tokens_before, tokens_after, tokens_resumed, .. } = proof;
    let mut told = vec![(proof.loaded, "the client loads the module".to_owned())];
    if !proof.loaded {
        return told;
    }
    let summaries = if proof.summaries == 0 {
        "no summary was asked for".to_owned()
    } else {
        format!("{} summaries were asked for", proof.summaries)
    };
    told.push((proof.answered, "it asks before it compacts, and takes the answer".to_owned()));
    told.push((proof.summaries == 0, summaries));
    told.push((tokens_after < tokens_before, format!("{tokens_before} tokens before, {tokens_after} after")));
    told.push((tokens_resumed < tokens_before, format!("{tokens_resumed} after a resume in a new process")));
    told.push((
        proof.refused.is_empty(),
        proof.refused.first().cloned().unwrap_or_else(|| "every request is one that the API takes".to_owned()),
    ));
    told
}
