//! Reading the layers of the configuration, in sequence.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::left_out::compile_folder_glob;
use super::pattern::compile_pattern;
use super::raw::{WrittenValue, escape_controls, quote};
use super::{Config, KEYS, Key, Problem, SettingSource};
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Maximum size of a configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 256 << 10;

/// Maximum number of problems that are reported per file.
const MAX_PROBLEMS_PER_FILE: usize = 20;

/// Sources of the configuration. All outside input comes in here, so that a test can set it.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources {
    /// The user's file, which need not exist.
    pub user_file: Option<PathBuf>,
    /// The folder of the project: the nearest `.ctxbridge/config.toml` in it or above is read.
    pub cwd: Option<PathBuf>,
    /// Environment variables with their values.
    pub variables: Vec<(String, String)>,
    /// Keys with their values from the command line.
    pub flags: Vec<(String, String)>,
}

impl ConfigSources {
    /// The sources of this process: `$CTXBRIDGE_CONFIG_DIR`, else `ctxbridge` in the platform's config directory, and the
    /// variables of [`KEYS`]. Hooks pass the client's `cwd`, commands their own.
    pub fn of_process(cwd: Option<&Path>) -> Self {
        let all = |key: &'static Key| key.also.iter().map(|also| also.variable).chain([key.variable]).chain(key.fallback_env);
        let names = KEYS.iter().flat_map(all);
        // What is no text is no value of any key, and is reported as such.
        let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            user_file: paths::config_dir().map(|folder| folder.join("config.toml")),
            cwd: cwd.map(Path::to_owned),
            variables: names.filter_map(|name| Some((name.to_owned(), value(name)?))).collect(),
            flags: Vec::new(),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        // An empty variable counts as unset: that is how shells switch one off.
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

impl Config {
    /// Loads the settings in force. Problems are in [`Config::problems`].
    pub fn load(sources: &ConfigSources) -> Self {
        let mut config = Self::default();
        if let Some(path) = &sources.user_file {
            config.load_file(&SettingSource::User(path.clone()), path);
        }
        if let Some(path) = sources.cwd.as_deref().and_then(project_file).filter(|path| sources.user_file.as_ref() != Some(path))
        {
            config.load_file(&SettingSource::Project(path.clone()), &path);
        }
        for key in KEYS {
            config.load_environment(key, sources);
        }
        for (name, value) in &sources.flags {
            match Key::named(name) {
                Some(key) => config.set(key, WrittenValue::Text(value), SettingSource::Flag),
                None => config.problem(
                    quote(name),
                    &SettingSource::Flag,
                    "is no setting; `ctxbridge config show` lists them".to_owned(),
                ),
            }
        }
        config.load_fallback_environment(sources);
        config.check_combinations();
        config.check_globs();
        config
    }

    fn load_file(&mut self, source: &SettingSource, path: &Path) {
        let table = match read(path) {
            Ok(Some(text)) => text.parse::<Table>().map_err(|error| syntax(&text, &error)),
            Ok(None) => return,
            Err(error) => Err(error.to_string()),
        };
        let table = match table {
            Ok(table) => table,
            Err(why) => return self.problem(String::new(), source, format!("cannot be read and is passed over: {why}")),
        };
        let before = self.problems.len();
        for (section, values) in &table {
            match values {
                Value::Table(values) => values.iter().for_each(|(name, value)| self.file_key(source, section, name, value)),
                _ => self.problem(quote(section), source, "stands outside of a section, such as [autopilot]".to_owned()),
            }
        }
        if let Some(more) = self.problems.len().checked_sub(before + MAX_PROBLEMS_PER_FILE).filter(|more| *more > 0) {
            self.problems.truncate(before + MAX_PROBLEMS_PER_FILE);
            self.problem(String::new(), source, format!("has {more} more problems of this kind"));
        }
    }

    fn file_key(&mut self, source: &SettingSource, section: &str, name: &str, value: &Value) {
        let full = format!("{section}.{name}");
        match Key::named(&full) {
            None => self.problem(quote(&full), source, "is no setting; `ctxbridge config show` lists them".to_owned()),
            Some(key) if !key.project_may_set && matches!(source, SettingSource::Project(_)) => {
                let message = "is not for a project to set; put it into your own config.toml".to_owned();
                self.problem(full, source, message);
            }
            Some(key) => {
                let before = self.archive.clone();
                self.set(key, WrittenValue::Toml(value), source.clone());
                let raised = self.archive.enabled && !before.enabled
                    || self.archive.restore_budget > before.restore_budget
                    || self.archive.instruction_budget > before.instruction_budget;
                // What is restored costs the user's tokens, and what is archived is theirs.
                if raised && matches!(source, SettingSource::Project(_)) {
                    self.archive = before;
                    self.set_by.pop();
                    let message = format!("is not for a project to raise; it stays {}", (key.get)(self));
                    self.problem(full, source, message);
                }
            }
        }
    }

    fn load_environment(&mut self, key: &'static Key, sources: &ConfigSources) {
        // Our own name counts most, so it comes last.
        for also in key.also {
            if let Some(value) = sources.variable(also.variable) {
                let meant = also.value_aliases.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(value));
                self.set(key, WrittenValue::Text(meant.map_or(value, |(_, ours)| ours)), SettingSource::Variable(also.variable));
            }
        }
        if let Some(value) = sources.variable(key.variable) {
            self.set(key, WrittenValue::Text(value), SettingSource::Variable(key.variable));
        }
    }

    /// Reads other programs' variables for a server. They describe one server, so they are ignored where another is named. A
    /// password that is the only such variable is used even then.
    fn load_fallback_environment(&mut self, sources: &ConfigSources) {
        const PASSWORD_KEY: &str = "postgres.password";
        let is_named = self.postgres.is_named();
        let told = || KEYS.iter().filter(|key| key.name != PASSWORD_KEY).filter_map(|key| key.fallback_env);
        let is_alone = || told().all(|variable| sources.variable(variable).is_none());
        for key in KEYS.iter().filter(|key| !is_named || (key.name == PASSWORD_KEY && is_alone())) {
            if let Some(variable) = key.fallback_env
                && self.source(key.name) == SettingSource::Default
                && let Some(value) = sources.variable(variable)
            {
                self.set(key, WrittenValue::Text(value), SettingSource::Variable(variable));
            }
        }
    }

    fn set(&mut self, key: &'static Key, raw: WrittenValue<'_>, source: SettingSource) {
        match (key.set)(self, raw) {
            Ok(()) => self.set_by.push((key.name, source)),
            Err(why) => {
                let stands = (key.get)(self);
                let stands = if stands.is_null() { "is unset".to_owned() } else { format!("stays {stands}") };
                self.problem(key.name.to_owned(), &source, format!("{why}; it {stands}"));
            }
        }
    }

    /// Checks values that only make sense together.
    fn check_combinations(&mut self) {
        let (warn, optimize) = (self.autopilot.warn, self.autopilot.critical);
        if warn > optimize {
            let source = self.source("autopilot.warn");
            let message = format!("is {warn}, above autopilot.optimize, and counts as {optimize} like that");
            self.problem("autopilot.warn".to_owned(), &source, message);
            self.autopilot.warn = optimize;
        }
        for (key, patterns) in [("redact.patterns", &self.redact.patterns), ("redact.allow", &self.redact.allow)] {
            let source = self.source(key);
            let wrong = patterns.iter().filter_map(|pattern| compile_pattern(pattern).err());
            let problems: Vec<_> = wrong.map(|problem| (key, format!("has a pattern that is passed over: {problem}"))).collect();
            self.problems.extend(problems.into_iter().map(|(key, message)| Problem {
                key: key.to_owned(),
                source: source.clone(),
                message,
            }));
        }
    }

    /// Names globs of folders that name none.
    fn check_globs(&mut self) {
        let home = paths::home_dir();
        for (key, globs) in [("archive.exclude", &self.archive.exclude), ("recall.exclude", &self.recall.exclude)] {
            let source = self.source(key);
            let wrong = globs.iter().filter_map(|glob| Some((glob, compile_folder_glob(glob, home.as_deref()).err()?)));
            let problems: Vec<_> =
                wrong.map(|(glob, why)| format!("has `{}`, which leaves nothing out: {why}", quote(glob))).collect();
            problems.into_iter().for_each(|message| {
                self.problems.push(Problem { key: key.to_owned(), source: source.clone(), message });
            });
        }
    }

    fn problem(&mut self, key: String, source: &SettingSource, message: String) {
        self.problems.push(Problem { key, source: source.clone(), message });
    }
}

/// The nearest configuration file of a project.
fn project_file(cwd: &Path) -> Option<PathBuf> {
    // What a relative folder is relative to is not known here.
    let folders = cwd.ancestors().filter(|_| cwd.is_absolute());
    folders.map(|folder| folder.join(".ctxbridge/config.toml")).find(|path| path.symlink_metadata().is_ok())
}

/// The text of a file; `None` when there is none.
fn read(path: &Path) -> io::Result<Option<String>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    // Before it is opened: a pipe would wait for somebody to write into it.
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    files::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::other(format!("it is larger than {} KB", MAX_CONFIG_BYTES >> 10)));
    }
    Ok(Some(text))
}

fn syntax(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    format!("line {line}: {}", escape_controls(error.message()))
}
