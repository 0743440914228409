//! Output of commands: results to stdout, notes and progress to stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use ctxbridge_archive::quote::printable;

/// Writes results to stdout and the rest to stderr.
pub(super) struct Output {
    /// `true` if stdout must carry one JSON value.
    pub json: bool,
    /// `true` to print more detail.
    pub verbose: bool,
    quiet: bool,
    /// `true` while a progress line is on the terminal.
    in_progress: AtomicBool,
}

/// Style of success.
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Style of failures and warnings.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of less important text.
pub(super) const DIM: Style = Style::new().dimmed();
/// Style of more important text.
pub(super) const BOLD: Style = Style::new().bold();

impl Output {
    pub fn new(json: bool, quiet: bool, verbose: bool) -> Self {
        Self { json, verbose, quiet, in_progress: AtomicBool::new(false) }
    }

    /// Prints one line of result.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())
    }

    /// Prints a result unchanged.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_ref())?;
        stdout.flush()
    }

    /// Prints a result as JSON.
    pub fn value(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        Ok(self.line(serde_json::to_string_pretty(value)?)?)
    }

    /// Shows the current step of long work. Only on a terminal; removed when the result comes.
    pub fn progress(&self, step: &str) {
        if !self.quiet && io::stderr().is_terminal() {
            self.clear_progress();
            let mut stderr = anstream::stderr().lock();
            write!(stderr, "{DIM}{step} …{DIM:#}").and_then(|()| stderr.flush()).ok();
            self.in_progress.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the progress line.
    pub fn clear_progress(&self) {
        const BACK_AND_ERASE: &str = "\r\u{1b}[2K";
        if self.in_progress.swap(false, Ordering::Relaxed) {
            write!(io::stderr(), "{BACK_AND_ERASE}").ok();
        }
    }

    /// Prints a note for people on stderr, unless quiet.
    pub fn note(&self, text: &str) {
        self.clear_progress();
        if !self.quiet {
            // There is nobody to tell that stderr is gone.
            writeln!(anstream::stderr().lock(), "{text}").ok();
        }
    }

    /// Prints an error with its causes on stderr.
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

/// Formats `text` in a style.
pub(super) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Formats a number of things, for people.
pub(super) fn count(number: impl Into<u64>, name: &str) -> String {
    let number = number.into();
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// Formats a size for people.
pub(super) fn size(bytes: i64) -> String {
    match bytes.unsigned_abs() {
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1_024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// Formats a duration for people.
pub(super) fn duration(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}

/// Formats a number of entries, for people.
pub(super) fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

/// Formats local time to the minute.
pub(super) fn time(ms: Option<i64>) -> String {
    let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Formats a time for JSON.
pub(super) fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}
/// Formats a path for people, with `~` for the home directory.
pub fn short(path: &std::path::Path) -> String {
    let home = ctxbridge_common::paths::home_dir();
    match home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~{}{}", std::path::MAIN_SEPARATOR, rest.display()),
        None => path.display().to_string(),
    }
}
