//! A tool is about to run, or has run.

use super::scene::{HookError, Scene};
use super::{Event, Reply, note, recall};
use crate::bundle;
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::Patience;

/// Tools that start a sub-agent: the client renamed it.
const AGENTS: [&str; 2] = ["Task", "Agent"];

/// What a sub-agent is asked gets what is known of it. Its window is empty, and what is added to the conversation it does not see: so the prompt
/// itself is changed. Releases that want more than that for a changed input leave it as it is.
pub(super) fn before(scene: &Scene) -> Result<Reply, HookError> {
    let input = &scene.input;
    let is_agent = input.tool.as_deref().is_some_and(|tool| AGENTS.contains(&tool));
    let prompt = input.tool_input.get("prompt").and_then(|prompt| prompt.as_str());
    let Some(prompt) = prompt.filter(|_| is_agent && scene.config.recall.agents) else { return Ok(Reply::default()) };
    // Nothing is archived here, so where there is no archive none is begun.
    let mut store = scene.location().to_look(Patience::Hurried).ok().flatten();
    let store = store.as_mut().map(|store| &mut **store as &mut dyn Store);
    let Some(recalled) = recall::for_text(scene, store, recall::Window::Empty, prompt) else { return Ok(Reply::default()) };
    let mut tool_input = input.tool_input.clone();
    if let Some(tool_input) = tool_input.as_object_mut() {
        tool_input.insert("prompt".to_owned(), format!("{prompt}\n\n{recalled}").into());
    }
    Ok(Reply { tool_input: Some(tool_input), ..Reply::default() })
}

/// What it did is noted down in the project.
pub(super) fn after(scene: &Scene) -> Result<Reply, HookError> {
    let Some(tool) = scene.input.tool.as_deref() else { return Ok(Reply::default()) };
    note::note(scene, Event::PostToolUse, |project| {
        bundle::of_tool(tool, &scene.input.tool_input, project, scene.input.cwd.as_deref(), scene.home.as_deref())
    });
    Ok(Reply::default())
}
