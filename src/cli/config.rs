//! `ctxbridge config …`

use clap::Subcommand;
use serde_json::{Value, json};

use super::output::{BAD, BOLD, DIM, styled};
use super::{Answer, Output};
use ctxbridge_config::{Config, Setting, Source, Sources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge config show")]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show each setting, and where its value comes from
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge config show --json

Settings come from the defaults, the user's config.toml ($CTXBRIDGE_CONFIG_DIR or ctxbridge/ in the platform's config directory),
the project's .ctxbridge/config.toml and the environment, each over the one before. `-v` says what each setting does.")]
struct ShowArgs {}

impl ConfigArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            ConfigCommand::Show(args) => args.run(output),
        }
    }
}

/// The settings of this command; what is wrong with them goes to stderr.
pub(super) fn load(output: &Output) -> Config {
    let cwd = std::env::current_dir().ok();
    let config = Config::load(&Sources::of_process(cwd.as_deref()));
    for problem in &config.problems {
        output.note(&format!("{BAD}warning:{BAD:#} {problem}"));
    }
    config
}

impl ShowArgs {
    fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
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
            return Ok(Answer::Yes);
        }
        let width = |of: fn(&Setting) -> String| settings.iter().map(of).map(|text| text.len()).max().unwrap_or_default();
        let (names, values) = (width(|setting| setting.key.name.to_owned()), width(|setting| text(&setting.value)));
        for setting in &settings {
            let Setting { key, value, source } = setting;
            let value = format!("{:<values$}", text(value));
            let value = if *source == Source::Default { value } else { styled(BOLD, value) };
            output.line(format!("{:<names$}  {value}  {}", key.name, styled(DIM, source)))?;
            if output.verbose {
                let by = if key.by_project { "" } else { ", not for a project to set" };
                output.line(styled(DIM, format!("    {} (${}{by})", key.doc, key.variable)))?;
            }
        }
        Ok(Answer::Yes)
    }
}

fn as_json(setting: &Setting) -> Value {
    let Setting { key, value, source } = setting;
    json!({
        "key": key.name, "value": value, "source": source.kind(), "from": from(source), "default": key.default(),
        "variable": key.variable, "also": key.also.iter().map(|also| also.variable).chain(key.otherwise).collect::<Vec<_>>(),
        "by_project": key.by_project, "doc": key.doc,
    })
}

/// The file or variable of a source that is one.
fn from(source: &Source) -> Option<String> {
    match source {
        Source::Default | Source::Flag => None,
        Source::User(path) | Source::Project(path) => Some(path.display().to_string()),
        Source::Variable(name) => Some((*name).to_owned()),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
