//! Running a hook as the client does: input on stdin, a time limit, output collected.

use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a process is polled.
const TICK: Duration = Duration::from_millis(2);

/// Result of a finished process.
#[derive(Debug)]
pub(crate) struct FinishedProcess {
    /// Exit code; `None` if it was ended by a signal, also by ours after the time limit.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub elapsed: Duration,
    pub timed_out: bool,
    /// `true` if a child process still holds its output open, for which the client would wait.
    pub held_open: bool,
}

/// Time to wait for the end of the output of a process that has ended: its children may hold it open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command to its end, or until the limit.
pub(crate) fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<FinishedProcess> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let input = input.to_owned();
    let stdin = child.stdin.take();
    // A process may end without reading all of it.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let (stdout, stderr) = (all_of(child.stdout.take()), all_of(child.stderr.take()));
    let (code, timed_out) = wait(&mut child, begun, limit)?;
    let elapsed = begun.elapsed();
    let (stdout, stderr) = (stdout.recv_timeout(OUTPUT_TIMEOUT), stderr.recv_timeout(OUTPUT_TIMEOUT));
    let held_open = stdout.is_err() || stderr.is_err();
    Ok(FinishedProcess {
        code,
        stdout: stdout.unwrap_or_default(),
        stderr: stderr.unwrap_or_default(),
        elapsed,
        timed_out,
        held_open,
    })
}

/// Reads a pipe to its end in a thread.
fn all_of(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth a look.
        from.map(|mut from| from.read_to_end(&mut bytes).ok());
        // Nobody waits any more when this fails.
        sender.send(bytes).ok();
    });
    receiver
}

fn wait(child: &mut Child, begun: Instant, limit: Duration) -> io::Result<(Option<i32>, bool)> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status.code(), false));
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok((None, true));
        }
        thread::sleep(TICK);
    }
}
