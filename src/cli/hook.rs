//! `ctxbridge hook`

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::archive::place;
use crate::config::{Config, Sources};
use crate::hook::{self, Event, Input, MAX_INPUT_BYTES, Printed, Reply, Scene};
use crate::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  echo '{\"session_id\":\"…\",\"transcript_path\":\"…\"}' | ctxbridge hook stop

Claude Code runs this, see `ctxbridge hooks install`. Exit code 0 whatever happens; 2 only from pre-compact, when it
means to block. Failures are in logs/hooks.log of the data folder.")]
pub(super) struct HookArgs {
    /// The event
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(Event::ALL.map(Event::slug)))]
    event: String,
}

impl HookArgs {
    /// Never fails: the client would show it.
    pub fn run(&self) -> ExitCode {
        // A process of milliseconds has no use for them, and pays for clearing 2 MB at a time.
        #[cfg(target_os = "linux")]
        rustix::thread::disable_transparent_huge_pages(true).ok();
        let printed = Event::from_slug(&self.event).map(printed).unwrap_or_default();
        // Whoever does not want to read it has gone.
        std::io::stdout().lock().write_all(printed.stdout.as_bytes()).ok();
        std::io::stderr().lock().write_all(printed.stderr.as_bytes()).ok();
        ExitCode::from(printed.exit)
    }
}

fn printed(event: Event) -> Printed {
    // Without a folder there is no archive and no log; the client is not to suffer from that. Nor is there a place to remember that
    // it was told: the start of a session has to do.
    let data = match paths::data_dir() {
        Ok(data) => data,
        Err(error) if event == Event::SessionStart => return Reply::notice(format!("ctxbridge: {error}")).print(event),
        Err(_) => return Printed::default(),
    };
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_INPUT_BYTES).read_to_end(&mut bytes);
    let input = read.map_err(|error| error.to_string()).and_then(|_| Input::parse(&bytes).map_err(|error| error.to_string()));
    let (input, problem) = match input {
        Ok(input) => (input, None),
        Err(error) => (Input::default(), Some(error)),
    };
    let config = Config::load(&Sources::of_process(input.cwd.as_deref()));
    let scene = Scene {
        data,
        client: place::client_folder(),
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ctxbridge")),
        compacts_at: std::env::var("CLAUDE_CODE_AUTO_COMPACT_WINDOW").ok().and_then(|tokens| tokens.parse().ok()),
        path_variable: std::env::var_os("PATH"),
        config,
        input,
        now_ms: jiff::Timestamp::now().as_millisecond(),
    };
    match problem {
        None => hook::run(event, &scene),
        Some(error) => {
            scene.told_of(event, &format!("the hook's input is not JSON: {error}"));
            Printed::default()
        }
    }
}
