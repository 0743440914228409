//! Hooks before and after a tool runs. The one before changes the prompt of a sub-agent, whose window gets nothing else, and denies to
//! write a placeholder of ours into a file.

use super::context::{HookContext, HookError};
use super::{Event, HookReply, bundle_recorder, placeholder, recall};
use crate::bundle;
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::LockPolicy;

/// Names of the tool that starts a sub-agent: the client renamed it.
const AGENTS: [&str; 2] = ["Task", "Agent"];

/// Answers before a tool runs.
pub(super) fn before(context: &HookContext) -> Result<HookReply, HookError> {
    if let Some(reason) = placeholder::reason_to_deny(context) {
        return Ok(HookReply { deny: Some(reason), ..HookReply::default() });
    }
    brief_agent(context)
}

/// Adds related history to the prompt of a sub-agent. Its window is empty and it does not see the conversation's context, so the
/// prompt itself is changed. Releases that require more for a changed input ignore the change.
fn brief_agent(context: &HookContext) -> Result<HookReply, HookError> {
    let input = &context.input;
    let is_agent = input.tool.as_deref().is_some_and(|tool| AGENTS.contains(&tool));
    let prompt = input.tool_input.get("prompt").and_then(|prompt| prompt.as_str());
    let Some(prompt) = prompt.filter(|_| is_agent && context.config.recall.agents) else { return Ok(HookReply::default()) };
    // Nothing is archived here, so where there is no archive none is begun.
    let mut store = context.location().open_without_repair(LockPolicy::Interactive).ok().flatten();
    let store = store.as_mut().map(|store| &mut **store as &mut dyn Store);
    let Some(recalled) = recall::context_for_text(context, store, recall::WindowContent::Empty, prompt) else {
        return Ok(HookReply::default());
    };
    let mut tool_input = input.tool_input.clone();
    if let Some(tool_input) = tool_input.as_object_mut() {
        tool_input.insert("prompt".to_owned(), format!("{prompt}\n\n{recalled}").into());
    }
    Ok(HookReply { tool_input: Some(tool_input), ..HookReply::default() })
}

/// Records the work of the tool in the project's bundles.
pub(super) fn after(context: &HookContext) -> Result<HookReply, HookError> {
    let Some(tool) = context.input.tool.as_deref() else { return Ok(HookReply::default()) };
    bundle_recorder::record_work(context, Event::PostToolUse, |project| {
        bundle::action_of_tool_call(
            tool,
            &context.input.tool_input,
            project,
            context.input.cwd.as_deref(),
            context.home.as_deref(),
        )
    });
    Ok(HookReply::default())
}
