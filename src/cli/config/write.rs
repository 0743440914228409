//! `ctxbridge config set` and `config edit`

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::json;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::{key_named, user_file};
use crate::cli::output::{GOOD, Output, short, styled};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources, Key};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge config set archive.restore_budget 6000
  ctxbridge config set archive.exclude '[\"~/clients/*\"]'
  ctxbridge config set recall.prompts --default

Writes your own config.toml; comments and order in it stay. A value that the setting does not take is refused. The next `patch apply` \
writes prune.* into the client.")]
pub(super) struct ConfigSetArgs {
    /// Name of the setting, such as archive.restore_budget
    key: String,
    /// Its value: a word, a number, true or false, or a list such as [\"a\", \"b\"]
    #[arg(required_unless_present = "default", conflicts_with = "default", allow_hyphen_values = true)]
    value: Option<String>,
    /// Remove it from the file, so that its default counts
    #[arg(long)]
    default: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  EDITOR=nano ctxbridge config edit

Uses $VISUAL, else $EDITOR. Says afterwards what is wrong in the file, if anything.")]
pub(super) struct ConfigEditArgs {}

impl ConfigSetArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let key = key_named(&self.key)?;
        // A link into a folder of dotfiles stays one.
        let named = user_file()?;
        let file = paths::real(&named).unwrap_or(named);
        let is_read_only = file.metadata().is_ok_and(|metadata| metadata.permissions().readonly());
        anyhow::ensure!(!is_read_only, "{} is read-only; make it writable first", file.display());
        let (mut document, has_crlf) = read(&file)?;
        let (section, name) = key.name.split_once('.').context("each setting is in a section")?;
        match &self.value {
            None => {
                if let Some(table) = document.get_mut(section).and_then(Item::as_table_like_mut) {
                    table.remove(name);
                }
            }
            Some(text) => {
                let table = document.entry(section).or_insert_with(|| Item::Table(Table::new()));
                let table = table.as_table_like_mut().with_context(|| {
                    format!("{section} in {} is no section; correct it with `ctxbridge config edit`", file.display())
                })?;
                table.insert(name, Item::Value(value(text)));
            }
        }
        let new = with_line_ends(document.to_string(), has_crlf);
        check(key, &new)?;
        let folder = file.parent().context("the file is in no folder")?;
        ctxbridge_common::paths::create_private_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        files::replace(&file, new.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
        let config = Config::load(&ConfigSources::of_process(std::env::current_dir().ok().as_deref()));
        let in_force = (key.get)(&config);
        if output.json {
            output
                .value(&json!({ "key": key.name, "value": in_force, "file": file, "source": config.source(key.name).kind() }))?;
            return Ok(CommandOutcome::Yes);
        }
        let told = self.value.as_ref().map_or_else(|| "its default".to_owned(), |value| value.clone());
        output.line(format!("{} {} is {told} in {}", styled(GOOD, "set:"), key.name, short(&file)))?;
        let source = config.source(key.name);
        if self.value.is_some() && source.kind() != "user" {
            output.note(&format!("note: {source} counts more, so it is {in_force} here"));
        }
        Ok(CommandOutcome::Yes)
    }
}

impl ConfigEditArgs {
    #[expect(clippy::unused_self, reason = "as all commands")]
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let named =
            ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()));
        let Some(named) = named else {
            return Err(UsageError("no editor is named; set EDITOR, or use `ctxbridge config set`".to_owned()).into());
        };
        let file = user_file()?;
        if !file.exists() {
            let folder = file.parent().context("the file is in no folder")?;
            ctxbridge_common::paths::create_private_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            files::replace(&file, NEW_FILE.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
        }
        // Words, and no shell.
        let mut words = named.split_whitespace();
        let program = words.next().unwrap_or_default();
        let status = Command::new(program).args(words).arg(&file).status();
        let status = status.with_context(|| format!("cannot start the editor `{program}`; set EDITOR to another one"))?;
        anyhow::ensure!(status.success(), "the editor ended with {status}; {} is as it left it", file.display());
        let problems = super::load(output).problems.len();
        Ok(if problems == 0 { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

/// Text of a new file.
const NEW_FILE: &str =
    "# Settings of ctxbridge. `ctxbridge config list` describes all of them.\n#\n# [archive]\n# restore_budget = 4000\n";

fn read(file: &Path) -> anyhow::Result<(DocumentMut, bool)> {
    let text = match files::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let document = text.parse::<DocumentMut>().map_err(|error| {
        let cause = error.message().lines().next().unwrap_or_default();
        anyhow::anyhow!("{} is not valid TOML ({cause}); correct it with `ctxbridge config edit`", file.display())
    })?;
    Ok((document, text.contains("\r\n")))
}

/// The text with the line ends that the file had.
fn with_line_ends(text: String, has_crlf: bool) -> String {
    if has_crlf { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text }
}

/// A value as TOML: a number, a switch or a list where it reads as one, else text.
fn value(text: &str) -> Value {
    text.trim().parse::<Value>().unwrap_or_else(|_| Value::from(text))
}

/// Checks that a file is read without a problem in this setting. Text that looks like a number may be meant as text.
fn check(key: &Key, text: &str) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let file: PathBuf = scratch.path().join("config.toml");
    files::replace(&file, text.as_bytes())?;
    let config = Config::load(&ConfigSources { user_file: Some(file), ..ConfigSources::default() });
    match config.problems.iter().find(|problem| problem.key == key.name) {
        // The file is not changed, whatever would count instead.
        Some(problem) => {
            let cause = problem.message.split("; it ").next().unwrap_or_default();
            Err(UsageError(format!("{} {cause}; nothing was changed", key.name)).into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_that_they_read_as() {
        assert!(value("6000").is_integer() && value("true").is_bool() && value("0.7").is_float());
        assert!(value("[\"a\", 'b']").is_array());
        assert_eq!(value("sqlite").as_str(), Some("sqlite"));
        assert_eq!(value("~/a b").as_str(), Some("~/a b"));
        assert_eq!(value("a = 1").as_str(), Some("a = 1"));
    }
}
