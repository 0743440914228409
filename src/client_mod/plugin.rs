//! The files of the plugin, for a folder of ours: with the path of this program in the place of its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde_json::{Value, json};

use ctxbridge_common::{files, paths};

static PLUGIN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/plugin");

/// Name of the marketplace that has the plugin, and of the plugin in it.
pub const NAME: &str = "ctxbridge";

/// Name of the program in the plugin's files, which runs if it is on the PATH.
const PROGRAM: &str = "ctxbridge";

/// Files that run the program.
const HOOKS: [&str; 2] = ["hooks/hooks.json", "hooks/post-compact.json"];
const MODULE: &str = "hooks/register.ts";
const MCP: &str = ".mcp.json";

/// The marketplace in our data folder: a folder with the plugin in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marketplace {
    /// The folder.
    pub folder: PathBuf,
}

impl Marketplace {
    /// The one of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.join("mod").join("marketplace") }
    }

    /// The folder of the plugin, which the client reads in place.
    pub fn plugin(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// `true` if it is there, as this version of the program writes it.
    pub fn is_current(&self, program: &Path) -> bool {
        self.files(program).iter().all(|(path, text)| fs::read(path).is_ok_and(|found| found == text.as_bytes()))
    }

    /// Writes the files, with the path of a program.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, program: &Path) -> io::Result<()> {
        for (path, text) in self.files(program) {
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

    fn files(&self, program: &Path) -> Vec<(PathBuf, String)> {
        let plugin = self.plugin();
        let mut files = vec![(self.folder.join(".claude-plugin").join("marketplace.json"), marketplace())];
        let mut folders = vec![&PLUGIN];
        while let Some(folder) = folders.pop() {
            folders.extend(folder.dirs());
            for file in folder.files() {
                let text = with_program(
                    &file.path().to_string_lossy().replace('\\', "/"),
                    file.contents_utf8().unwrap_or_default(),
                    program,
                );
                files.push((plugin.join(file.path()), text));
            }
        }
        files
    }
}

fn marketplace() -> String {
    let description = "Answers compactions without a summary, archives every turn, and finds turns again";
    pretty(&json!({
        "name": NAME,
        "owner": { "name": NAME },
        "metadata": { "description": "ctxbridge, as it is installed on this machine" },
        "plugins": [{ "name": NAME, "source": format!("./{NAME}"), "description": description }],
    }))
}

/// A file of the plugin that runs the program by its path.
fn with_program(name: &str, text: &str, program: &Path) -> String {
    let program = program.to_string_lossy();
    if HOOKS.contains(&name) {
        let quoted =
            format!("\"{}\"", program.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`"));
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        for hook in value["hooks"].as_object_mut().into_iter().flat_map(|events| events.values_mut()).flat_map(hooks_of) {
            if let Some(rest) = hook["command"].as_str().and_then(|command| command.strip_prefix(PROGRAM)) {
                hook["command"] = format!("{quoted}{rest}").into();
            }
        }
        return pretty(&value);
    }
    match name {
        MODULE => text.replace(&format!("const PROGRAM = '{PROGRAM}'"), &format!("const PROGRAM = {}", Value::from(&*program))),
        MCP => {
            let mut value: Value = serde_json::from_str(text).unwrap_or_default();
            value["mcpServers"][NAME]["command"] = (&*program).into();
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

    #[test]
    fn every_file_that_runs_the_program_has_its_path() {
        let data = tempfile::tempdir().expect("a folder");
        let marketplace = Marketplace::in_dir(data.path());
        let program = Path::new("/opt/my tools/ctxbridge");
        assert!(!marketplace.is_current(program));
        marketplace.write(program).expect("written");
        assert!(marketplace.is_current(program) && !marketplace.is_current(Path::new("/bin/ctxbridge")));
        let read = |name: &str| fs::read_to_string(marketplace.plugin().join(name)).expect("there");
        for name in HOOKS {
            let hooks: Value = serde_json::from_str(&read(name)).expect("JSON");
            let events = hooks["hooks"].as_object().expect("events");
            let commands: Vec<String> = events
                .values()
                .flat_map(|groups| {
                    hooks_of(&mut groups.clone())
                        .into_iter()
                        .map(|hook| hook["command"].as_str().unwrap_or_default().to_owned())
                        .collect::<Vec<_>>()
                })
                .collect();
            assert!(!commands.is_empty());
            assert!(commands.iter().all(|command| command.starts_with("\"/opt/my tools/ctxbridge\" hook ")), "{commands:?}");
        }
        assert!(read(MODULE).contains("const PROGRAM = \"/opt/my tools/ctxbridge\"\n"));
        let mcp: Value = serde_json::from_str(&read(MCP)).expect("JSON");
        assert_eq!(mcp["mcpServers"]["ctxbridge"]["command"], "/opt/my tools/ctxbridge");
        let offered: Value =
            serde_json::from_str(&fs::read_to_string(marketplace.folder.join(".claude-plugin/marketplace.json")).expect("there"))
                .expect("JSON");
        assert_eq!(offered["plugins"][0]["source"], "./ctxbridge");
        marketplace.remove().expect("removed");
        marketplace.remove().expect("nothing to do");
        assert!(!marketplace.folder.exists());
    }
}
