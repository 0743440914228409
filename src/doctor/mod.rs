/*!
Is everything as it should be: one look at all that ctxbridge consists of, each by the code that the command for it has.

Nothing is repaired: each check says what to do next.
*/

mod checks;
#[cfg(feature = "team")]
mod server;

use std::path::PathBuf;

use serde::Serialize;

use ctxbridge_common::paths;
use ctxbridge_config::{Config, Sources};

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Works, but something is missing or worth a look.
    Warning,
    /// Does not work.
    Failed,
}

/// A thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, which is stable.
    pub id: &'static str,
    /// How it is.
    pub status: Status,
    /// What was seen, on one line without control characters.
    pub detail: String,
    /// What to do, where something is to be done.
    pub next: Option<String>,
}

/// Where to look. Everything outside comes in here, so that a test can say what the world is like.
#[derive(Debug)]
pub struct Surroundings {
    /// Our data folder.
    pub data: PathBuf,
    /// The settings.
    pub config: Config,
    /// The folder that the command runs in.
    pub current: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`
    pub client_config: Option<PathBuf>,
    /// Where the user's shell looks for programs.
    pub path_variable: Option<std::ffi::OsString>,
    /// Milliseconds since 1970.
    pub now_ms: i64,
}

impl Surroundings {
    /// Those of this process, which runs in a folder, and of our data folder.
    pub fn of_process(data: PathBuf, current: PathBuf) -> Self {
        Self {
            data,
            config: Config::load(&Sources::of_process(Some(&current))),
            current,
            home: paths::home_dir(),
            client_config: std::env::var_os("CLAUDE_CONFIG_DIR").map(Into::into),
            path_variable: std::env::var_os("PATH"),
            now_ms: jiff::Timestamp::now().as_millisecond(),
        }
    }
}

/// Looks at everything; `progress` hears what comes next.
pub fn examine(at: &Surroundings, progress: &dyn Fn(&str)) -> Vec<Check> {
    let mut found = vec![checks::data_folder(&at.data)];
    found.extend(checks::disk(&at.data));
    found.push(checks::configuration(&at.config));
    progress("looking for clients");
    found.extend(checks::clients(at, progress));
    found.push(checks::hooks(at));
    progress("reading the archive");
    found.extend(checks::archive(&at.data, &at.config));
    progress("reading the model");
    #[cfg(feature = "team")]
    found.extend(server::look(&at.data, &at.config));
    found.push(checks::model(&at.data));
    found.push(checks::hooks_log(&at.data, at.now_ms));
    found.extend(checks::spool(&at.data));
    found
}

impl Check {
    fn new(id: &'static str, status: Status, detail: impl Into<String>, next: Option<&str>) -> Self {
        // Paths and messages have names of files in them.
        Self { id, status, detail: ctxbridge_config::plain(&detail.into()), next: next.map(str::to_owned) }
    }
}
