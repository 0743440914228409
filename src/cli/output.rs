//! Where a command's words go.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use ctxbridge_archive::quote::printable;

/// Results to stdout, the rest to stderr.
pub(super) struct Output {
    /// Whether stdout is to carry one JSON value.
    pub json: bool,
    /// Whether to say more.
    pub verbose: bool,
    quiet: bool,
    /// Whether a line of progress is on the terminal.
    in_progress: AtomicBool,
}

/// Something went well.
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something did not, or needs a look.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Less important.
pub(super) const DIM: Style = Style::new().dimmed();
/// More important.
pub(super) const BOLD: Style = Style::new().bold();

impl Output {
    pub fn new(json: bool, quiet: bool, verbose: bool) -> Self {
        Self { json, verbose, quiet, in_progress: AtomicBool::new(false) }
    }

    /// One line of result.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())
    }

    /// Text of a result, as it is.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_ref())?;
        stdout.flush()
    }

    /// The result as JSON.
    pub fn value(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.line(serde_json::to_string_pretty(value)?)?)
    }

    /// Which step of something long begins; on a terminal only, and gone when the result comes.
    pub fn progress(&self, step: &str) {
        if !self.quiet && io::stderr().is_terminal() {
            self.clear_progress();
            let mut stderr = anstream::stderr().lock();
            write!(stderr, "{DIM}{step} …{DIM:#}").and_then(|()| stderr.flush()).ok();
            self.in_progress.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the line of progress away.
    pub fn clear_progress(&self) {
        const BACK_AND_ERASE: &str = "\r\u{1b}[2K";
        if self.in_progress.swap(false, Ordering::Relaxed) {
            write!(io::stderr(), "{BACK_AND_ERASE}").ok();
        }
    }

    /// What a person should know meanwhile.
    pub fn note(&self, text: &str) {
        self.clear_progress();
        if !self.quiet {
            // There is nobody to tell that stderr is gone.
            writeln!(anstream::stderr().lock(), "{text}").ok();
        }
    }

    /// Why it could not be done.
    pub fn error(&self, error: &anyhow::Error) {
        let mut told = String::new();
        for cause in error.chain().map(ToString::to_string) {
            // Many errors name their cause themselves.
            if !told.contains(&cause) {
                told += if told.is_empty() { "" } else { ": " };
                told += &cause;
            }
        }
        // What a server, a file or a tool said may be in it.
        writeln!(anstream::stderr().lock(), "{BAD}error:{BAD:#} {}", printable(&told)).ok();
    }
}

/// `text` in a style.
pub(super) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How many there are of something, for people.
pub(super) fn count(number: impl Into<u64>, name: &str) -> String {
    let number = number.into();
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// A size for people.
pub(super) fn size(bytes: i64) -> String {
    match bytes.unsigned_abs() {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// A duration for people.
pub(super) fn duration(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}
