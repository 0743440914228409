//! The files of the plugins, for a folder of ours: with the path of this program in the place of its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde_json::{Value, json};

use crate::hook::Event;
use crate::hook::settings::plugin;
use ctxbridge_common::{files, paths};

static PLUGIN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/plugin");
static THRESHOLD_PLUGIN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/plugin-threshold");

/// Name of the marketplace that has the plugins, and of the plugin that answers.
pub const NAME: &str = "ctxbridge";
/// Name of the plugin that asks for a compaction at a threshold of the user's.
pub const THRESHOLD_NAME: &str = "ctxbridge-threshold";

/// Files that look for the program.
const LAUNCHER: &str = "bin/";
/// Begin of the line in the module that says how the program is run.
const PROGRAM_LINE: &str = "const PROGRAM = ";

/// Files that run the program.
const HOOKS: [&str; 2] = ["hooks/hooks.json", "hooks/post-compact.json"];
const MODULE: &str = "hooks/register.ts";
const MCP: &str = ".mcp.json";
/// File of the other plugin with the threshold.
const THRESHOLD_MODULE: &str = "hooks/threshold.ts";

/// The marketplace in our data folder: a folder with the plugins in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marketplace {
    /// The folder.
    pub folder: PathBuf,
}

/// Values that are written into the plugins' files.
#[derive(Debug, Clone, Copy)]
pub struct PluginValues<'a> {
    /// Path of this program.
    pub program: &'a Path,
    /// Tokens at which a compaction is asked for; `None` leaves out the plugin that does.
    pub threshold_tokens: Option<u64>,
}

impl Marketplace {
    /// The one of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: plugin::marketplace(data) }
    }

    /// The folder of the plugin, which the client reads in place.
    pub fn plugin(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// `true` if it is there, as this version of the program writes it.
    pub fn is_current(&self, values: PluginValues<'_>) -> bool {
        let has_other = self.folder.join(THRESHOLD_NAME).exists();
        has_other == values.threshold_tokens.is_some()
            && self.files(values).iter().all(|(path, text)| files::read(path).is_ok_and(|found| found == text.as_bytes()))
    }

    /// Writes the files, and removes those of before.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, values: PluginValues<'_>) -> io::Result<()> {
        self.remove()?;
        for (path, text) in self.files(values) {
            path.parent().map_or(Ok(()), paths::create_private_dir)?;
            files::replace(&path, text.as_bytes())?;
        }
        Ok(())
    }

    /// Removes the files.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn files(&self, values: PluginValues<'_>) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        let mut offered = vec![(NAME, "Answers compactions without a summary, archives every turn, and finds turns again")];
        for_each_file(&PLUGIN, &mut |name, text| {
            // Here it is known where the program is.
            if name.starts_with(LAUNCHER) {
                return;
            }
            files.push((self.plugin().join(name), with_program(name, text, values.program)));
        });
        if let Some(tokens) = values.threshold_tokens {
            offered.push((THRESHOLD_NAME, "Asks ctxbridge to fold between turns, at a threshold of your own"));
            for_each_file(&THRESHOLD_PLUGIN, &mut |name, text| {
                let text = if name == THRESHOLD_MODULE {
                    text.replace("const THRESHOLD_TOKENS = Infinity", &format!("const THRESHOLD_TOKENS = {tokens}"))
                } else {
                    text.to_owned()
                };
                files.push((self.folder.join(THRESHOLD_NAME).join(name), text));
            });
        }
        files.push((self.folder.join(".claude-plugin").join("marketplace.json"), marketplace(&offered)));
        files
    }
}

fn for_each_file(folder: &Dir<'_>, sink: &mut dyn FnMut(&str, &str)) {
    for file in folder.files() {
        sink(&file.path().to_string_lossy().replace('\\', "/"), file.contents_utf8().unwrap_or_default());
    }
    folder.dirs().for_each(|folder| for_each_file(folder, sink));
}

fn marketplace(offered: &[(&str, &str)]) -> String {
    let plugin =
        |(name, description): &(&str, &str)| json!({ "name": name, "source": format!("./{name}"), "description": description });
    pretty(&json!({
        "name": NAME,
        "owner": { "name": NAME },
        "metadata": { "description": "ctxbridge, as it is installed on this machine" },
        "plugins": offered.iter().map(plugin).collect::<Vec<_>>(),
    }))
}

/// A file of the plugin that runs the program by its path.
fn with_program(name: &str, text: &str, program: &Path) -> String {
    let program = program.to_string_lossy();
    let mut value: Value = serde_json::from_str(text).unwrap_or_default();
    match name {
        MODULE => {
            let own = format!("{PROGRAM_LINE}{}", json!([program]));
            text.lines()
                .filter(|line| !line.starts_with("// The launcher") && !line.starts_with("const LAUNCHER"))
                .map(|line| if line.starts_with(PROGRAM_LINE) { &own } else { line })
                .map(|line| line.to_owned() + "\n")
                .collect()
        }
        MCP => {
            value["mcpServers"][NAME]["command"] = (&*program).into();
            pretty(&value)
        }
        _ if HOOKS.contains(&name) => {
            for (event, groups) in value["hooks"].as_object_mut().into_iter().flatten() {
                let Some(event) = Event::ALL.into_iter().find(|known| known.name() == event) else { continue };
                for hook in hooks_of(groups) {
                    // Each release that has modules starts a program without a shell.
                    hook["command"] = (&*program).into();
                    hook["args"] = json!(["hook", event.slug()]);
                }
            }
            pretty(&value)
        }
        _ => text.to_owned(),
    }
}

fn hooks_of(groups: &mut Value) -> Vec<&mut Value> {
    let groups = groups.as_array_mut().into_iter().flatten();
    groups.flat_map(|group| group["hooks"].as_array_mut().into_iter().flatten()).collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).map(|text| text + "\n").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("there")
    }

    fn json_of(path: &Path) -> Value {
        serde_json::from_str(&read(path)).expect("JSON")
    }

    #[test]
    fn every_file_that_runs_the_program_has_its_path() {
        let data = tempfile::tempdir().expect("a folder");
        let marketplace = Marketplace::in_dir(data.path());
        let values = PluginValues { program: Path::new("/opt/my tools/ctxbridge"), threshold_tokens: None };
        assert!(!marketplace.is_current(values));
        marketplace.write(values).expect("written");
        assert!(marketplace.is_current(values));
        assert!(!marketplace.is_current(PluginValues { program: Path::new("/bin/ctxbridge"), ..values }));
        let plugin = marketplace.plugin();
        for name in HOOKS {
            let mut hooks = json_of(&plugin.join(name));
            for (event, groups) in hooks["hooks"].as_object_mut().expect("events") {
                for hook in hooks_of(groups) {
                    assert_eq!(hook["command"], "/opt/my tools/ctxbridge");
                    assert_eq!(Event::from_slug(hook["args"][1].as_str().expect("a slug")).map(Event::name), Some(&**event));
                }
            }
        }
        assert!(read(&plugin.join(MODULE)).contains("const PROGRAM = [\"/opt/my tools/ctxbridge\"]\n"));
        assert_eq!(json_of(&plugin.join(MCP))["mcpServers"]["ctxbridge"]["command"], "/opt/my tools/ctxbridge");
        marketplace.remove().expect("removed");
        marketplace.remove().expect("nothing to do");
        assert!(!marketplace.folder.exists());
    }

    #[test]
    fn a_threshold_brings_another_plugin_and_none_takes_it_away() {
        let data = tempfile::tempdir().expect("a folder");
        let marketplace = Marketplace::in_dir(data.path());
        let without = PluginValues { program: Path::new("/bin/ctxbridge"), threshold_tokens: None };
        let with = PluginValues { threshold_tokens: Some(90_000), ..without };
        let offered = || json_of(&marketplace.folder.join(".claude-plugin/marketplace.json"))["plugins"].as_array().map(Vec::len);
        marketplace.write(with).expect("written");
        let module = read(&marketplace.folder.join(THRESHOLD_NAME).join(THRESHOLD_MODULE));
        assert!(module.contains("const THRESHOLD_TOKENS = 90000\n"), "{module}");
        assert!(marketplace.is_current(with) && !marketplace.is_current(without));
        assert_eq!(offered(), Some(2));
        marketplace.write(without).expect("written");
        assert!(marketplace.is_current(without));
        assert_eq!(offered(), Some(1));
    }

    #[test]
    fn both_plugins_mean_the_same_wish() {
        let wish = |text: &str| text.lines().find_map(|line| line.strip_prefix("const WISH = ").map(str::to_owned));
        let of = |folder: &Dir<'_>, name: &str| folder.get_file(name).and_then(|file| file.contents_utf8()).and_then(wish);
        assert!(of(&PLUGIN, MODULE).is_some());
        assert_eq!(of(&PLUGIN, MODULE), of(&THRESHOLD_PLUGIN, THRESHOLD_MODULE));
    }
}
