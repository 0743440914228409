//! `ctxbridge hook`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::object_input::read_object;
use crate::autopilot;
use crate::hook::settings::plugin;
use crate::hook::settings::scope::SettingsPaths;
use crate::hook::{self, Event, EventLog, HookContext, HookInput, HookReply, MAX_INPUT_BYTES, Printed};
use ctxbridge_archive::transcript_paths;
use ctxbridge_common::{lock_deadline, paths};
use ctxbridge_config::{Config, ConfigSources};
use ctxbridge_redact::Redactor;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  echo '{\"session_id\":\"…\",\"transcript_path\":\"…\"}' | ctxbridge hook stop

Claude Code runs this command; see `ctxbridge hooks install`. It always exits 0, except that pre-compact exits 2 to block a \
compaction. Failures are logged in logs/errors.log of the data folder.

With --debug, or if hooks.event_log is on, the input is logged in logs/events, without secrets. `ctxbridge doctor --events` shows it.")]
pub(super) struct HookArgs {
    /// Log the input in logs/events of the data folder
    #[arg(long)]
    debug: bool,
    /// Hook event to handle
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Event::ALL.map(Event::slug)))]
    event: String,
}

/// Time that a hook waits for locks, all together: what cannot be written by then is left to the next hook.
const LOCK_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Time that a hook waits for its input: a client that keeps the pipe open is not waited for.
const INPUT_TIMEOUT: Duration = Duration::from_secs(2);

impl HookArgs {
    /// Handles the event. Never fails: the client would show it.
    pub fn run(&self) -> ExitCode {
        // A process of milliseconds has no use for them, and pays for clearing 2 MB at a time.
        #[cfg(target_os = "linux")]
        rustix::thread::disable_transparent_huge_pages(true).ok();
        let printed = Event::from_slug(&self.event).map(|event| printed(event, self.debug)).unwrap_or_default();
        // Whoever does not want to read it has gone.
        std::io::stdout().lock().write_all(printed.stdout.as_bytes()).ok();
        std::io::stderr().lock().write_all(printed.stderr.as_bytes()).ok();
        ExitCode::from(printed.exit)
    }
}

fn printed(event: Event, is_debug: bool) -> Printed {
    // Without a folder there is no archive and no log; the client is not to suffer from that. Nor is there a place to remember that
    // it was told: the start of a session has to do.
    let data = match paths::data_dir() {
        Ok(data) => data,
        Err(error) if event == Event::SessionStart => return HookReply::notice(format!("ctxbridge: {error}")).print(event),
        Err(_) => return Printed::default(),
    };
    lock_deadline::set(LOCK_TIMEOUT);
    let bytes = read_object(std::io::stdin(), MAX_INPUT_BYTES, INPUT_TIMEOUT);
    let input = HookInput::parse(&bytes).map_err(|error| error.to_string());
    let (input, problem) = match input {
        Ok(input) => (input, None),
        Err(error) => (HookInput::default(), Some(error)),
    };
    if let Some(root) = std::env::var_os(plugin::ROOT_VARIABLE).filter(|root| !root.is_empty())
        && is_run_by_settings(event, Path::new(&root), input.cwd.as_deref())
    {
        return Printed::default();
    }
    let context = context(data, input);
    if let Some(reason) = context.left_out() {
        return hook::left_out(event, &context, &reason);
    }
    if is_debug || context.config.hooks.event_log {
        record(event, &context, &bytes);
    }
    match problem {
        None => hook::run(event, &context),
        Some(error) => {
            context.log_failure(event, &format!("the hook's input is not JSON: {error}"));
            Printed::default()
        }
    }
}

/// Context of what the client runs, with this input.
pub(super) fn context(data: PathBuf, input: HookInput) -> HookContext {
    // The client's folder may change in a session, its project does not.
    let project = started_in();
    let config = Config::load(&ConfigSources::of_process(project.as_deref().or(input.cwd.as_deref())));
    HookContext {
        data,
        client: transcript_paths::client_folder(),
        home: paths::home_dir(),
        project,
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ctxbridge")),
        compact_window_tokens: autopilot::compact_window_tokens(),
        path_variable: std::env::var_os("PATH"),
        config,
        input,
        now_ms: jiff::Timestamp::now().as_millisecond(),
        measured: Default::default(),
    }
}

/// Logs the client's input. Logging must not cause a failure of its own: a log that cannot be written is only noted in the failure
/// log, and only when a session starts.
fn record(event: Event, context: &HookContext, input: &[u8]) {
    let log = EventLog::in_dir(&context.data);
    let session = context.input.session.as_deref();
    let work = || {
        let (redactor, _) = Redactor::of(&context.config.redact);
        log.append(event, session, input, context.now_ms, &redactor)?;
        if event == Event::SessionStart { log.remove_old(std::time::SystemTime::now()) } else { Ok(()) }
    };
    let problem = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a bug in ctxbridge; please report it".to_owned(),
    };
    if event == Event::SessionStart {
        let error = format!("the event log in {} cannot be written: {problem}", log.folder().display());
        context.log().note(event, session, &error, context.now_ms).ok();
    }
}

/// Folder that the client was started in, if it tells us.
fn started_in() -> Option<PathBuf> {
    let folder = std::env::var_os("CLAUDE_PROJECT_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from)?;
    let from_git_bash = || folder.to_str().and_then(of_git_bash).map(PathBuf::from);
    Some(if cfg!(windows) { from_git_bash().unwrap_or(folder) } else { folder })
}

/// A path of Windows for one as Git Bash writes it: `/c/Users/ann` is `C:/Users/ann`.
fn of_git_bash(path: &str) -> Option<String> {
    let path = path.strip_prefix('/')?;
    let (drive, rest) = path.split_once('/').unwrap_or((path, ""));
    let is_drive = drive.len() == 1 && drive.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_drive.then(|| format!("{}:/{rest}", drive.to_ascii_uppercase()))
}

/// `true` if the client also runs the same hook from its settings. The plugin in `root` started this process.
fn is_run_by_settings(event: Event, root: &Path, cwd: Option<&Path>) -> bool {
    let Some(folder) = started_in().or_else(|| cwd.map(Path::to_owned)) else { return false };
    let config_dir = std::env::var_os("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let places = SettingsPaths::new(paths::home_dir(), config_dir, &folder);
    plugin::is_wired_in_settings(event, root, &places, std::env::var_os("PATH").as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_git_bash_have_a_drive() {
        assert_eq!(of_git_bash("/c/Users/ann").as_deref(), Some("C:/Users/ann"));
        assert_eq!(of_git_bash("/d").as_deref(), Some("D:/"));
        assert_eq!((of_git_bash("/home/ann"), of_git_bash("C:/x"), of_git_bash("/")), (None, None, None));
    }
}
