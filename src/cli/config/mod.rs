//! `ctxbridge config …`

mod docs;
mod write;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};

use super::output::{BAD, BOLD, DIM, short, styled};
use super::{CommandOutcome, Output, UsageError};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources, KEYS, Key, Setting, SettingSource};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ctxbridge config list\n  ctxbridge config set archive.restore_budget 6000")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show each setting and the source of its value
    Show(ConfigShowArgs),
    /// List all settings with their defaults and descriptions
    List(docs::ConfigListArgs),
    /// Print the value of a setting
    Get(ConfigGetArgs),
    /// Change a setting in your config.toml
    Set(write::ConfigSetArgs),
    /// Open your config.toml in an editor
    Edit(write::ConfigEditArgs),
    /// Print the path of your config.toml
    #[command(after_help = "Example:\n  ctxbridge config path")]
    Path,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge config get archive.restore_budget

Exits 1 if it is unset.")]
struct ConfigGetArgs {
    /// Name of the setting
    key: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge config show --json

Later sources override earlier ones: defaults, your config.toml (in $CTXBRIDGE_CONFIG_DIR, else ctxbridge/ in the platform's \
config directory), the project's .ctxbridge/config.toml, environment variables. `-v` describes each setting.")]
struct ConfigShowArgs {}

impl ConfigArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            ConfigCommand::Show(args) => args.run(output),
            ConfigCommand::List(args) => args.run(output),
            ConfigCommand::Get(args) => args.run(output),
            ConfigCommand::Set(args) => args.run(output),
            ConfigCommand::Edit(args) => args.run(output),
            ConfigCommand::Path => {
                let file = user_file()?;
                if output.json {
                    output.value(&json!({ "path": file, "exists": file.exists() }))?;
                } else {
                    output.line(file.display().to_string())?;
                }
                Ok(CommandOutcome::Yes)
            }
        }
    }
}

/// The user's file, which need not exist.
fn user_file() -> anyhow::Result<PathBuf> {
    let folder = paths::config_dir().context("no home directory; set CTXBRIDGE_CONFIG_DIR to a folder for config.toml")?;
    Ok(folder.join("config.toml"))
}

/// Finds a setting by its name.
fn key_named(name: &str) -> anyhow::Result<&'static Key> {
    Key::named(name).ok_or_else(|| {
        let near = KEYS.iter().map(|key| (strsim::jaro_winkler(name, key.name), key.name)).max_by(|a, b| a.0.total_cmp(&b.0));
        let next = match near.filter(|(similarity, _)| *similarity > MIN_SIMILARITY) {
            Some((_, near)) => format!("did you mean {near}?"),
            None => "`ctxbridge config list` lists them".to_owned(),
        };
        UsageError(format!("there is no setting {name}; {next}")).into()
    })
}

/// Minimum similarity of a setting that is suggested, as clap has it for commands.
const MIN_SIMILARITY: f64 = 0.7;

impl ConfigGetArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let key = key_named(&self.key)?;
        let value = (key.get)(&load(output));
        if output.json {
            output.value(&value)?;
        } else if !value.is_null() {
            output.line(text(&value))?;
        }
        Ok(if value.is_null() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

/// Loads the settings for this command; their problems go to stderr.
pub(super) fn load(output: &Output) -> Config {
    let cwd = std::env::current_dir().ok();
    let config = Config::load(&ConfigSources::of_process(cwd.as_deref()));
    for problem in &config.problems {
        output.note(&format!("{BAD}warning:{BAD:#} {problem}"));
    }
    config
}

impl ConfigShowArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let config = load(output);
        let settings = config.settings();
        if output.json {
            let problems = config.problems.iter().map(|problem| {
                json!({ "key": problem.key, "source": problem.source.kind(), "from": from(&problem.source), "message": problem.message })
            });
            output.value(&json!({
                "settings": settings.iter().map(as_json).collect::<Vec<_>>(),
                "problems": problems.collect::<Vec<_>>(),
            }))?;
            return Ok(CommandOutcome::Yes);
        }
        let width = |of: fn(&Setting) -> String| settings.iter().map(of).map(|text| text.len()).max().unwrap_or_default();
        let (names, values) = (width(|setting| setting.key.name.to_owned()), width(|setting| text(&setting.value)));
        for setting in &settings {
            let Setting { key, value, source } = setting;
            let value = format!("{:<values$}", text(value));
            let value = if *source == SettingSource::Default { value } else { styled(BOLD, value) };
            let source = match source {
                SettingSource::User(path) | SettingSource::Project(path) if output.verbose => short(path),
                SettingSource::User(_) | SettingSource::Project(_) => source.kind().to_owned(),
                other => other.to_string(),
            };
            output.row(format!("{:<names$}  {value}  {}", key.name, styled(DIM, source)))?;
            if output.verbose {
                let by = if key.project_may_set { "" } else { ", not for a project to set" };
                output.line(styled(DIM, format!("    {} (${}{by})", key.doc, key.variable)))?;
            }
        }
        Ok(CommandOutcome::Yes)
    }
}

fn as_json(setting: &Setting) -> Value {
    let Setting { key, value, source } = setting;
    json!({
        "key": key.name, "value": value, "source": source.kind(), "from": from(source), "default": key.default(),
        "variable": key.variable, "also": key.also.iter().map(|also| also.variable).chain(key.fallback_env).collect::<Vec<_>>(),
        "by_project": key.project_may_set, "doc": key.doc,
    })
}

/// File or variable of a source, if it has one.
fn from(source: &SettingSource) -> Option<String> {
    match source {
        SettingSource::Default | SettingSource::Flag => None,
        SettingSource::User(path) | SettingSource::Project(path) => Some(path.display().to_string()),
        SettingSource::Variable(name) => Some((*name).to_owned()),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
