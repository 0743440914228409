//! The client's plugin that installs the same hooks: its state, and the check whether its hooks must do nothing.
//!
//! The client runs a hook that is in the settings and in a plugin twice, even if both are identical. So
//! with both, a hook of the plugin ends at once.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use memchr::memmem;
use serde_json::Value;

use super::command::runs;
use super::document::{SettingsDocument, decode};
use super::scope::{SettingsPaths, SettingsScope};
use super::wiring::{PROGRAM_NAME, wiring};
use crate::hook::Event;
use ctxbridge_common::{files, paths};

/// Name of the plugin, in its manifest and before the `@` of a marketplace.
pub const NAME: &str = "ctxbridge";

/// Variable with a plugin's folder, for its hooks.
pub const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";

/// The marketplace in our data folder that `mod install` makes: there, the plugin has the path of the program in its files.
pub fn marketplace(data: &Path) -> PathBuf {
    data.join("mod").join("marketplace")
}

/// Returns the flags in a settings file that enable the plugin, by marketplace.
pub(super) fn enabled_plugins(document: &SettingsDocument<'_>) -> BTreeMap<String, bool> {
    let plugins = document.root.as_ref().and_then(|root| root.get_object("enabledPlugins"));
    let plugins = plugins.map_or(&[][..], |plugins| &plugins.properties);
    let ours = plugins.iter().filter(|plugin| plugin.name.as_str().split('@').next() == Some(NAME));
    ours.filter_map(|plugin| Some((plugin.name.as_str().to_owned(), plugin.value.as_boolean_lit()?.value))).collect()
}

/// `true` if a hook of the plugin in `root` must do nothing, because active settings run it as well.
///
/// Runs at every event, so it does little: files without our name in them are not parsed.
pub fn is_wired_in_settings(event: Event, root: &Path, places: &SettingsPaths, path: Option<&OsStr>) -> bool {
    // Somebody else's variable, which a client that a plugin starts hands down to its hooks, says nothing about us.
    is_ours(root) && SettingsScope::ALL.into_iter().any(|scope| wires(event, scope, places, path) == Some(true))
}

/// `true` if the plugin finds the program: by its launcher, or where `mod install` has written its path down.
pub(super) fn finds_program(path: Option<&OsStr>) -> bool {
    let data = paths::data_path().ok();
    let written = data.as_ref().and_then(|data| written_program(&marketplace(data).join(NAME)));
    let is_written = written.is_some_and(|program| runs(&program, path) == Some(true));
    let folders = data.into_iter().map(|data| data.join("bin"));
    let folders =
        folders.chain(paths::home_dir().into_iter().flat_map(|home| [home.join(".local/bin"), home.join(".cargo/bin")]));
    let in_folder = |folder: &Path| runs(&folder.join(PROGRAM_NAME).to_string_lossy(), None) == Some(true);
    is_written || runs(PROGRAM_NAME, path) != Some(false) || folders.into_iter().any(|folder| in_folder(&folder))
}

/// The program that the hooks of a plugin's folder start.
fn written_program(plugin: &Path) -> Option<String> {
    let hooks: Value = serde_json::from_slice(&files::read(plugin.join("hooks").join("hooks.json")).ok()?).ok()?;
    let first = hooks["hooks"].as_object()?.values().next()?;
    Some(first[0]["hooks"][0]["command"].as_str()?.to_owned())
}

fn is_ours(root: &Path) -> bool {
    let manifest = files::read(root.join(".claude-plugin").join("plugin.json")).unwrap_or_default();
    serde_json::from_slice::<Value>(&manifest).is_ok_and(|manifest| manifest["name"] == NAME)
}

/// `true` if the client runs the event's hook from this scope; `None` if the file cannot be read.
fn wires(event: Event, scope: SettingsScope, places: &SettingsPaths, path: Option<&OsStr>) -> Option<bool> {
    let bytes = files::read(places.file(scope).ok()?).ok()?;
    memmem::find(&bytes, NAME.as_bytes())?;
    let document = SettingsDocument::parse(decode(&bytes).ok()?.1).ok()?;
    document.check_shape().ok()?;
    let wanted = wiring(event)?.matcher;
    let is_wired = document.ours().into_iter().any(|found| {
        let matches = wanted.is_none_or(|wanted| found.matcher.as_ref().is_some_and(|(matcher, _)| matcher == wanted));
        found.event == event && found.is_at_home() && matches && runs(&found.program, path) != Some(false)
    });
    Some(is_wired && (scope == SettingsScope::User || places.is_trusted() != Some(false)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_program_of_a_plugin_is_the_one_in_its_hooks() {
        let folder = tempfile::tempdir().expect("a folder");
        let hooks = folder.path().join("hooks");
        assert_eq!(written_program(folder.path()), None);
        fs::create_dir(&hooks).expect("a folder");
        let text =
            r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/opt/ctxbridge", "args": ["hook", "stop"]}]}]}}"#;
        fs::write(hooks.join("hooks.json"), text).expect("written");
        assert_eq!(written_program(folder.path()).as_deref(), Some("/opt/ctxbridge"));
    }

    #[test]
    fn the_plugin_steps_back_only_where_settings_run_the_same_hook() {
        let folder = tempfile::tempdir().expect("a folder");
        let (home, plugin) = (folder.path().join("home"), folder.path().join("plugin"));
        let work = home.join("work");
        for made in [home.join(".claude"), work.join(".git"), work.join(".claude"), plugin.join(".claude-plugin")] {
            fs::create_dir_all(made).expect("a folder");
        }
        let write = |path: &Path, text: &str| fs::write(path, text).expect("written");
        let settings =
            |command: &str| format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "{command}"}}]}}]}}}}"#);
        let places = SettingsPaths::new(Some(home.clone()), None, &work);
        let path = std::env::join_paths([folder.path()]).expect("a path");
        let steps_back = |event| is_wired_in_settings(event, &plugin, &places, Some(&path));
        let user = home.join(".claude/settings.json");

        write(&user, &settings("$HOME/bin/ctxbridge hook stop"));
        assert!(!steps_back(Event::Stop), "it is not known whose variable it is");
        write(&plugin.join(".claude-plugin/plugin.json"), r#"{"name": "other"}"#);
        assert!(!steps_back(Event::Stop), "the variable is another plugin's");
        write(&plugin.join(".claude-plugin/plugin.json"), r#"{"name": "ctxbridge"}"#);
        assert!(steps_back(Event::Stop));
        assert!(!steps_back(Event::SessionEnd), "which is not wired");
        for other in
            ["/gone/ctxbridge hook stop", "ctxbridge hook stop", "$HOME/bin/ctxbridge hook stop && date", "echo ctxbridge"]
        {
            write(&user, &settings(other));
            assert!(!steps_back(Event::Stop), "{other}");
        }
        write(&user, "ctxbridge");
        assert!(!steps_back(Event::Stop), "the client cannot read it");

        write(&work.join(".claude/settings.json"), &settings("~/ctxbridge hook stop"));
        assert!(steps_back(Event::Stop));
        write(&home.join(".claude.json"), "{}");
        assert!(!steps_back(Event::Stop), "the client does not trust the project, and ignores its settings");
    }
}
