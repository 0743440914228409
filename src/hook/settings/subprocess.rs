//! Running a hook as the client does: input on stdin, a time limit, output collected.

use std::io::{self, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long to sleep between looks at a process.
const TICK: Duration = Duration::from_millis(2);

/// What became of it.
#[derive(Debug)]
pub(super) struct Finished {
    /// Nothing when it was ended by a signal, ours when it took too long for one.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub elapsed: Duration,
    pub timed_out: bool,
    /// Whether something that it started still has its output, for which the client would wait.
    pub held_open: bool,
}

/// How long to wait for the end of the output of a process that has ended: what it left behind may hold it open.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs a command to its end, or until the limit.
pub(super) fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Finished> {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let input = input.to_owned();
    let stdin = child.stdin.take();
    // A process may end without reading all of it.
    thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let (stdout, stderr) = (all_of(child.stdout.take()), all_of(child.stderr.take()));
    let (code, timed_out) = wait(&mut child, begun, limit)?;
    let elapsed = begun.elapsed();
    let (stdout, stderr) = (stdout.recv_timeout(LAST_WORDS), stderr.recv_timeout(LAST_WORDS));
    let held_open = stdout.is_err() || stderr.is_err();
    Ok(Finished { code, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default(), elapsed, timed_out, held_open })
}

/// What is read from a pipe, when it ends.
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
