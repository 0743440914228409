//! What of ctxbridge is in Claude Code, by the names under which it is taken out.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::client_mod::user_settings;
use crate::cli::output::{Output, short};
use crate::client_mod::install::is_enabled;
use crate::hook::settings::editor::Editor;
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use crate::hook::settings::status::status;
use crate::hook::settings::statusline::{StatuslineState, statusline_state};
use ctxbridge_common::paths;
use ctxbridge_patch::journal::Journal;

/// Lists it. What cannot be read is left out: taking it out says why.
pub(super) fn wired(output: &Output) -> Vec<String> {
    let mut found: Vec<String> = patched(output).iter().map(|path| format!("patch of {}", short(path))).collect();
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

/// Clients that were patched and are still there.
fn patched(output: &Output) -> Vec<PathBuf> {
    let Ok(data) = paths::data_path() else { return Vec::new() };
    // Opening the journal would make one.
    if !data.join("state.db").exists() {
        return Vec::new();
    }
    let notice = |text: &str| output.note(text);
    let active = Journal::open(&data, &notice).and_then(|journal| journal.active_patches()).unwrap_or_default();
    active.into_iter().map(|active| active.path).filter(|path| path.exists()).collect()
}

/// Settings with hooks of ours: the user's, this project's, and those of other projects that were written to.
fn files_with_hooks(output: &Output) -> BTreeSet<PathBuf> {
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into);
    let current = std::env::current_dir().unwrap_or_default();
    let places = SettingsPaths::new(paths::home_dir(), config_dir, &current);
    let scopes = [SettingsScope::User, SettingsScope::Project, SettingsScope::Local];
    let found = status(&places, &scopes, (&[], &[]), std::env::var_os("PATH").as_deref()).map(|status| status.scopes);
    let mut files: BTreeSet<PathBuf> =
        found.into_iter().flatten().filter(|scope| !scope.hooks.is_empty()).map(|scope| scope.file).collect();
    if let Ok(data) = paths::data_path() {
        let notice = |text: &str| output.note(text);
        files.extend(Editor::new(&data, &notice).edited_files().into_iter().filter(|file| file.exists()));
    }
    files
}
