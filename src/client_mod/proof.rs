/*!
Proof that a client asks our plugin before it compacts: the real client, offline, in a scratch home, against the stub of the Messages API.
*/

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::install::ENABLING_VARIABLE;
use super::plugin::{Marketplace, PluginValues};
use crate::demo;
use crate::hook::mod_state::ModState;
use ctxbridge_client::{Client, ClientConversation, ClientError, ConversationLimits};
use ctxbridge_patch::install::Target;
use ctxbridge_prune::DIGEST_BEGIN;
use ctxbridge_stub::{ApiRequest, RequestKind, ScriptedReply, Stub, StubError};

/// Observations of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModProof {
    /// `true` if the client loaded the module.
    pub loaded: bool,
    /// `true` if it asked before it compacted, and took the answer.
    pub answered: bool,
    /// Number of summaries that it asked the model for.
    pub summaries: usize,
    /// Tokens of the requests before and after the compaction, and of that after the session was resumed in a new process.
    pub tokens_before: u64,
    /// See [`Self::tokens_before`].
    pub tokens_after: u64,
    /// See [`Self::tokens_before`].
    pub tokens_resumed: u64,
    /// Requests that the API would have refused.
    pub refused: Vec<String>,
}

impl ModProof {
    /// `true` if a compaction is answered, and stays so.
    pub fn holds(&self) -> bool {
        let is_smaller = |tokens: u64| tokens > 0 && tokens * 4 < self.tokens_before * 3;
        self.loaded
            && self.answered
            && self.summaries == 0
            && is_smaller(self.tokens_after)
            && is_smaller(self.tokens_resumed)
            && self.refused.is_empty()
    }
}

/// Errors from running the client.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The scratch folder cannot be written.
    #[error("cannot write a scratch folder: {0}; make room and try again")]
    Scratch(#[from] std::io::Error),
    /// The stub does not start.
    #[error(transparent)]
    Stub(#[from] StubError),
    /// The client does not run.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The client failed.
    #[error("the client failed: {0}")]
    Failed(String),
}

/// Runs a client with the plugin, which calls this program.
///
/// # Errors
/// If the client does not run. That it does not ask is no error.
pub fn prove(target: &Target, program: &Path) -> Result<ModProof, ProofError> {
    let scratch = tempfile::tempdir()?;
    let data = scratch.path().join("data");
    let marketplace = Marketplace::in_dir(&data);
    marketplace.write(PluginValues { program, threshold_tokens: None })?;
    let stub = Stub::start_with(call_then_answer, ctxbridge_stub::Options::default())?;
    let client = || -> Result<Client, ClientError> {
        Ok(demo::offline(target)?
            .api(&stub.url())
            .env("CTXBRIDGE_DATA_DIR", &data)
            .env(ENABLING_VARIABLE, "1")
            .env("IS_SANDBOX", "1")
            .arg("--plugin-dir")
            .arg(marketplace.plugin())
            .arg("--allowedTools")
            .arg("Bash"))
    };
    let client = client()?;
    fs::create_dir_all(client.home().join(".claude"))?;
    let say = |client: &Client, prompts: &[&str]| -> Result<(), ProofError> {
        let prompts: Vec<String> = prompts.iter().map(|prompt| (*prompt).to_owned()).collect();
        let said: ClientConversation = client.converse(&prompts, ConversationLimits::default())?;
        if said.is_success() { Ok(()) } else { Err(ProofError::Failed(said.diagnostics)) }
    };
    say(&client, &["Count.", "Count again.", "And again.", "Once more.", "/compact", "What did you count?"])?;
    let main = stub.main_requests();
    let after = main.last().cloned();
    let before = main.iter().rev().nth(1).map_or(0, |request| request.tokens);
    say(&client.arg("--continue"), &["And now?"])?;
    let resumed = stub.main_requests().last().map_or(0, |request| request.tokens);
    Ok(ModProof {
        loaded: ModState::in_dir(&data).loaded().is_some(),
        answered: after
            .as_ref()
            .is_some_and(|request| request.text_blocks().iter().any(|block| block.text.contains(DIGEST_BEGIN))),
        summaries: stub.requests().iter().filter(|request| request.kind == RequestKind::Compaction).count(),
        tokens_before: before,
        tokens_after: after.map_or(0, |request| request.tokens),
        tokens_resumed: resumed,
        refused: stub.violations(),
    })
}

/// A long result for each prompt to count.
fn call_then_answer(request: &ApiRequest) -> ScriptedReply {
    let asks = request.human_prompts().last().is_some_and(|prompt| !prompt.ends_with('?'));
    if !asks || request.brings_tool_result() {
        return ScriptedReply::Text(format!("Counted, {}.", request.number));
    }
    ScriptedReply::ToolUse { name: "Bash".into(), input: serde_json::json!({ "command": "seq 1 5000", "description": "Count" }) }
}
