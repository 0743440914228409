//! Parts of ctxbridge in Claude Code, by the names under which they are taken out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::client_mod::user_settings;
use crate::cli::hooks::places;
use crate::cli::output::{Output, short};
use crate::client_mod::install::is_enabled;
use crate::hook::settings::editor::Editor;
use crate::hook::settings::scope::SettingsScope;
use crate::hook::settings::status::status;
use crate::hook::settings::statusline::{StatuslineState, statusline_state};
use ctxbridge_common::paths;
use ctxbridge_patch::journal::Journal;

/// Lists them. What cannot be read is left out: taking it out says why.
pub(super) fn wired(output: &Output) -> Vec<String> {
    let patched = patched_clients(output).ok().flatten().unwrap_or_default();
    let mut found: Vec<String> = patched.iter().map(|path| format!("patch of {}", short(path))).collect();
    let Ok(settings) = user_settings() else { return found };
    if statusline_state(&settings).is_ok_and(|state| state == StatuslineState::Ours) {
        found.push(format!("status line in {}", short(&settings)));
    }
    found.extend(files_with_hooks(output).iter().map(|path| format!("hooks in {}", short(path))));
    if is_enabled(&settings) {
        found.push("plugin".to_owned());
    }
    found
}

/// Clients that are patched and still there; `None` if nothing was ever patched.
pub(super) fn patched_clients(output: &Output) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let data = paths::data_path()?;
    // Opening the journal would make one.
    if !data.join("state.db").exists() {
        return Ok(None);
    }
    let active = Journal::open(&data, &|text| output.note(text))?.active_patches()?;
    Ok(Some(active.into_iter().map(|active| active.path).filter(|path| path.exists()).collect()))
}

/// Settings files that we wrote to, in any project.
pub(super) fn edited_files(editor: &Editor<'_>) -> impl Iterator<Item = PathBuf> {
    editor.edited_files().into_iter().filter(|file| file.exists())
}

/// Settings with hooks of ours: the user's, this project's, and those of other projects.
fn files_with_hooks(output: &Output) -> BTreeSet<PathBuf> {
    let path = std::env::var_os("PATH");
    let scopes = [SettingsScope::User, SettingsScope::Project, SettingsScope::Local];
    let found = places().ok().and_then(|places| status(&places, &scopes, (&[], &[]), path.as_deref()).ok());
    let scopes = found.into_iter().flat_map(|status| status.scopes).filter(|scope| !scope.hooks.is_empty());
    let mut files: BTreeSet<PathBuf> = scopes.map(|scope| scope.file).collect();
    if let Ok(data) = paths::data_path() {
        files.extend(edited_files(&Editor::new(&data, &|text| output.note(text))));
    }
    files
}
