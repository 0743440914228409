//! `ctxbridge config …`

use clap::Subcommand;
use serde_json::{Value, json};

use super::output::{BAD, BOLD, DIM, styled};
use super::{CommandOutcome, Output};
use ctxbridge_config::{Config, ConfigSources, Setting, SettingSource};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge config show")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show each setting and the source of its value
    Show(ConfigShowArgs),
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
        }
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
            output.line(format!("{:<names$}  {value}  {}", key.name, styled(DIM, source)))?;
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
