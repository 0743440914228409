//! The plugin of the client that wires the same hooks: whether it is enabled, and when its hooks step back.
//!
//! The client runs a hook that is in the settings and in a plugin twice, even when both are the same to the letter.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use memchr::memmem;
use serde_json::Value;

use super::document::{Document, decode};
use super::scope::{Places, Scope};
use super::status::runs;
use super::wiring::wiring;
use crate::hook::Event;

/// Its name, in its manifest and before the `@` of a marketplace.
pub const NAME: &str = "ctxbridge";

/// The variable that names a plugin's folder to its hooks.
pub const ROOT_VARIABLE: &str = "CLAUDE_PLUGIN_ROOT";

/// What a settings file says of the plugin, by marketplace: whether it is enabled.
pub(super) fn said(document: &Document<'_>) -> BTreeMap<String, bool> {
    let plugins = document.root.as_ref().and_then(|root| root.get_object("enabledPlugins"));
    let plugins = plugins.map_or(&[][..], |plugins| &plugins.properties);
    let ours = plugins.iter().filter(|plugin| plugin.name.as_str().split('@').next() == Some(NAME));
    ours.filter_map(|plugin| Some((plugin.name.as_str().to_owned(), plugin.value.as_boolean_lit()?.value))).collect()
}

/// Whether a hook that the plugin in `root` runs has nothing to do, since settings that count run it as well.
///
/// Asked at every event, so it looks at little: files without our name in them are not parsed.
pub fn steps_back(event: Event, root: &Path, places: &Places, path: Option<&OsStr>) -> bool {
    // Somebody else's variable, which a client that a plugin starts hands down to its hooks, says nothing about us.
    is_ours(root) && Scope::ALL.into_iter().any(|scope| wires(event, scope, places, path) == Some(true))
}

fn is_ours(root: &Path) -> bool {
    let manifest = fs::read(root.join(".claude-plugin").join("plugin.json")).unwrap_or_default();
    serde_json::from_slice::<Value>(&manifest).is_ok_and(|manifest| manifest["name"] == NAME)
}

/// Whether the client runs the event's hook from this scope; nothing where that cannot be read.
fn wires(event: Event, scope: Scope, places: &Places, path: Option<&OsStr>) -> Option<bool> {
    let bytes = fs::read(places.file(scope).ok()?).ok()?;
    memmem::find(&bytes, NAME.as_bytes())?;
    let document = Document::parse(decode(&bytes).ok()?.1).ok()?;
    document.check_shape().ok()?;
    let wanted = wiring(event)?.matcher;
    let is_wired = document.ours().into_iter().any(|found| {
        let matches = wanted.is_none_or(|wanted| found.matcher.as_ref().is_some_and(|(matcher, _)| matcher == wanted));
        found.event == event && found.is_at_home() && matches && runs(&found.program, path) != Some(false)
    });
    Some(is_wired && (scope == Scope::User || places.is_trusted() != Some(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let places = Places::new(Some(home.clone()), None, &work);
        let path = std::env::join_paths([folder.path()]).expect("a path");
        let steps_back = |event| steps_back(event, &plugin, &places, Some(&path));
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
