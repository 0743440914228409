//! Commands: started, waited for, and what they said.

use std::borrow::BorrowMut;
use std::fmt;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The time that a test waits for something that has to happen. No assertion hangs on how long it took.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// All that it printed.
    pub stdout: String,
    /// Its errors and notices.
    pub stderr: String,
}

impl Ran {
    /// Exit code 0.
    #[track_caller]
    pub fn done(self) -> Self {
        self.with_code(0)
    }

    /// Exit code 1: its answer is no.
    #[track_caller]
    pub fn says_no(self) -> Self {
        self.with_code(1)
    }

    /// It refused; stderr has each of `words`, one of which should be the cause and one the next step.
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> Self {
        let ran = self.with_code(3);
        let is_error = || ran.json()["error"].is_string();
        assert!(ran.stdout.is_empty() || is_error(), "a failure has no result: {}", ran.stdout);
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
        }
        ran
    }

    /// This exit code.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Exit code 0, and nothing on stderr.
    #[track_caller]
    pub fn calm(self) -> Self {
        let ran = self.done();
        assert_eq!(ran.stderr, "");
        ran
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Text that a hook tells the user.
    #[track_caller]
    pub fn notice(&self) -> Option<String> {
        self.told("/systemMessage")
    }

    /// Text that a hook gives the model to read.
    #[track_caller]
    pub fn context(&self) -> Option<String> {
        self.told("/hookSpecificOutput/additionalContext")
    }

    #[track_caller]
    fn told(&self, place: &str) -> Option<String> {
        if self.stdout.is_empty() {
            return None;
        }
        self.json().pointer(place)?.as_str().map(str::to_owned)
    }
}

/// Exit code, stdout and stderr, the way a person sees them.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or_else(|| "signal".to_owned(), |code| code.to_string());
        write!(f, "exit code: {code}\n{}", self.stdout)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "--- stderr\n{}", self.stderr) }
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        for text in [&stdout, &stderr] {
            assert!(!text.contains("panicked") && !text.contains("a bug in ctxbridge"), "{text}");
        }
        Self { code: output.status.code(), stdout, stderr }
    }
}

/// Starts a command and hands it its input, which it need not read.
pub fn start(mut command: impl BorrowMut<Command>, stdin: &[u8]) -> Child {
    let command = command.borrow_mut();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut pipe, stdin) = (child.stdin.take().unwrap(), stdin.to_vec());
    std::thread::spawn(move || pipe.write_all(&stdin).ok());
    child
}

/// Waits for its end; one that hangs is killed, and the test fails.
#[track_caller]
pub fn finish(child: Child) -> Ran {
    #[cfg(unix)]
    let process = rustix::process::Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        #[cfg(unix)]
        rustix::process::kill_process(process, rustix::process::Signal::KILL).ok();
        panic!("it hangs");
    };
    Ran::from(output.unwrap())
}

/// Runs a command with this input.
#[track_caller]
pub fn run(command: impl BorrowMut<Command>, stdin: &[u8]) -> Ran {
    finish(start(command, stdin))
}

/// The same command behind one of the shell, such as a `ulimit`.
pub fn behind(shell: &str, command: &Command) -> Command {
    let mut behind = Command::new("sh");
    behind.arg("-c").arg(format!("{shell}; exec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
    behind.current_dir(command.get_current_dir().unwrap()).env_clear();
    behind.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    behind
}

/// Waits until it is so.
#[track_caller]
pub fn wait_until(what: &str, mut it: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !it() {
        assert!(begun.elapsed() < PATIENCE, "it never came to pass: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
