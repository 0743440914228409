//! A running client: its process, and the threads that keep its pipes from filling up.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ClientError;

/// Maximum time to wait for the last output of a client that has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause between two checks for the end of the process.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A client process. Dropping it kills the process, and no other.
pub(super) struct ClientProcess {
    name: String,
    child: Child,
    /// Lines to write; `None` once the input is closed.
    input: Option<Sender<String>>,
    output: Receiver<OutputLine>,
    tail: Tail,
}

/// A line of the client's stdout.
pub(super) enum OutputLine {
    Json(Value),
    Text(String),
}

impl OutputLine {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Json(value) => value.to_string(),
            Self::Text(text) => text,
        }
    }
}

impl ClientProcess {
    /// Starts `command`; error messages use `name` for it.
    pub(super) fn start(mut command: Command, name: &str) -> Result<Self, ClientError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ClientError::Start { program, source })?;

        // The threads end with the pipes. They are not joined: a grandchild that outlives the
        // client can hold a pipe open for as long as it likes.
        let (input, prompts) = mpsc::channel();
        let (lines, output) = mpsc::channel();
        let tail = Tail::default();
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write_lines(stdin, &prompts));
        }
        if let Some(stdout) = child.stdout.take() {
            let (lines, tail) = (lines.clone(), tail.clone());
            thread::spawn(move || read_lines(stdout, &lines, &tail));
        }
        if let Some(stderr) = child.stderr.take() {
            let tail = tail.clone();
            thread::spawn(move || {
                keep_tail(stderr, &tail);
                // Held until now so that the end of `output` is the end of both pipes.
                drop(lines);
            });
        }
        Ok(Self { name: name.to_owned(), child, input: Some(input), output, tail })
    }

    /// Writes a line to the client, in the background: a client that has stopped reading must not
    /// block us. If the line never arrives, no result comes, which is noticed then.
    pub(super) fn send(&self, line: &str) {
        if let Some(input) = &self.input {
            drop(input.send(format!("{line}\n")));
        }
    }

    /// Closes the client's input.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// The next line of output; `None` at its end.
    pub(super) fn next_line(&mut self, deadline: &Deadline) -> Result<Option<OutputLine>, ClientError> {
        match self.output.recv_timeout(deadline.left()) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(self.timeout(deadline)),
        }
    }

    /// Waits for the process to exit.
    pub(super) fn wait(&mut self, deadline: &Deadline) -> Result<ExitStatus, ClientError> {
        loop {
            let status = self.child.try_wait().map_err(|source| ClientError::Watch { program: self.name.clone(), source })?;
            if let Some(status) = status {
                return Ok(status);
            }
            if deadline.left().is_zero() {
                return Err(self.timeout(deadline));
            }
            thread::sleep(EXIT_POLL_INTERVAL.min(deadline.left()));
        }
    }

    /// The end of the output of a client that has exited, without its JSON.
    pub(super) fn diagnostics(&mut self) -> String {
        let gone = Deadline::new(Instant::now(), DRAIN_TIMEOUT, "fall silent");
        while self.output.recv_timeout(gone.left()).is_ok() {}
        self.tail.text()
    }

    /// The error for a client that exited before the step of `deadline` was finished.
    pub(super) fn ended(&mut self, status: ExitStatus, deadline: &Deadline) -> ClientError {
        ClientError::Ended {
            program: self.name.clone(),
            step: deadline.step.clone(),
            status,
            diagnostics: or_nothing(self.diagnostics()),
        }
    }

    fn timeout(&self, deadline: &Deadline) -> ClientError {
        ClientError::Timeout {
            program: self.name.clone(),
            step: deadline.step.clone(),
            limit: deadline.limit,
            diagnostics: or_nothing(self.tail.text()),
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // Both only fail when the process is gone already, which is what we want.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A time limit for one step.
#[derive(Clone, Debug)]
pub(super) struct Deadline {
    from: Instant,
    limit: Duration,
    step: String,
}

impl Deadline {
    /// A deadline for `step`: `limit` after `from`.
    pub(super) fn new(from: Instant, limit: Duration, step: &str) -> Self {
        Self { from, limit, step: step.to_owned() }
    }

    pub(super) fn or_earlier(self, other: Self) -> Self {
        if other.left() < self.left() { other } else { self }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.from.elapsed())
    }
}

/// The text, or the word "nothing" if it is empty: for error messages.
fn or_nothing(text: String) -> String {
    if text.is_empty() { "nothing".into() } else { text }
}

fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            // The client is gone or has closed its input; its exit tells why.
            return;
        }
    }
}

fn read_lines(stdout: impl Read, lines: &Sender<OutputLine>, tail: &Tail) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let parsed = match serde_json::from_slice::<Value>(&line) {
            Ok(value) if value.is_object() => OutputLine::Json(value),
            _ => {
                tail.add(&line);
                OutputLine::Text(String::from_utf8_lossy(&line).trim_end().to_owned())
            }
        };
        if lines.send(parsed).is_err() {
            return;
        }
        line.clear();
    }
}

fn keep_tail(mut stderr: impl Read, tail: &Tail) {
    let mut chunk = [0; 4096];
    while let Ok(read) = stderr.read(&mut chunk)
        && read > 0
    {
        tail.add(&chunk[..read]);
    }
}

/// The last few thousand bytes of a client's error output.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    const MAX_TAIL_BYTES: usize = 4096;

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(Self::MAX_TAIL_BYTES);
        kept.drain(..surplus);
    }

    fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}
