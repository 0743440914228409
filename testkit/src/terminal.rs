//! A terminal for programs that need one: keys in, and the screen as a person would see it.
// What cannot be made ends the test.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::files::source;
use crate::sandbox::wait_until;

/// A program in a terminal of its own. It is killed with this value.
pub struct Terminal {
    terminal: Child,
    /// Gone once the program is over.
    stdin: Option<ChildStdin>,
    output: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
}

/// Bytes that were printed, and the screen that they make.
struct Shown {
    bytes: Vec<u8>,
    parser: vt100::Parser,
}

/// End of a program in a terminal.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; if a signal ended it, minus that.
    pub code: i64,
    /// `true` if the modes of the terminal, its screen, cursor and pastes are as they were.
    pub is_restored: bool,
    /// The screen.
    pub screen: String,
    /// All that was printed.
    pub bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a command of a sandbox in a terminal of so many lines and columns.
    pub fn start(command: &Command, lines: u16, columns: u16) -> Self {
        let mut terminal = Command::new("python3");
        terminal.arg(source("testkit/src/terminal.py")).args([lines, columns].map(|number| number.to_string()));
        terminal.arg(command.get_program()).args(command.get_args()).env_clear();
        terminal.env("TERM", "xterm-256color").envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        terminal.current_dir(command.get_current_dir().unwrap());
        let mut terminal =
            terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("python3 is there");
        let [lines, columns] = [lines, columns].map(|number| NonZeroU16::new(number).unwrap());
        let output = Arc::new(Mutex::new(Shown { bytes: Vec::new(), parser: vt100::Parser::new(lines, columns, 0) }));
        let (stdin, mut stdout) = (terminal.stdin.take(), terminal.stdout.take().unwrap());
        let shared = output.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            while let Ok(read @ 1..) = stdout.read(&mut buffer) {
                let mut shown = shared.lock().unwrap();
                shown.bytes.extend(&buffer[..read]);
                shown.parser.process(&buffer[..read]);
            }
        });
        Self { terminal, stdin, output, reader: Some(reader) }
    }

    /// The screen as it is now.
    pub fn screen(&self) -> String {
        self.output.lock().unwrap().parser.screen().contents().to_string()
    }

    /// Waits until the screen is like that.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let mut last = String::new();
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(what, || {
                last = self.screen();
                is_so(&last)
            });
        }));
        let is_over = self.reader.as_ref().is_some_and(JoinHandle::is_finished);
        let state = if is_over { "is over" } else { "runs" };
        assert!(waited.is_ok(), "{what} was not seen, and the program {state}:\n{last}");
    }

    /// Waits until the screen has this text.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    fn send(&mut self, command: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    /// Types text, or keys as a terminal sends them.
    pub fn keys(&mut self, keys: &str) {
        self.send(&json!({ "keys": keys }));
    }

    /// Changes the size of the terminal.
    pub fn resize(&mut self, lines: u16, columns: u16) {
        let [rows, cols] = [lines, columns].map(|number| NonZeroU16::new(number).unwrap());
        self.output.lock().unwrap().parser.set_size(rows, cols);
        self.send(&json!({ "size": [lines, columns] }));
    }

    /// Sends a signal to the program.
    pub fn signal(&mut self, number: i32) {
        self.send(&json!({ "signal": number }));
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn finish(mut self) -> Ended {
        wait_until("the program ends", || self.terminal.try_wait().unwrap().is_some());
        self.reader.take().unwrap().join().unwrap();
        let mut stderr = String::new();
        self.terminal.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let ended: Value = serde_json::from_str(&stderr).unwrap_or_else(|_| panic!("{stderr}"));
        let shown = self.output.lock().unwrap();
        let screen = shown.parser.screen();
        let is_usual = !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste();
        Ended {
            code: ended["code"].as_i64().unwrap(),
            is_restored: is_usual && ended["is_restored"] == true,
            screen: screen.contents().to_string(),
            bytes: shown.bytes.clone(),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It kills the program when nobody can type any more.
        drop(self.stdin.take());
        self.terminal.wait().ok();
    }
}
