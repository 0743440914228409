//! Output of commands: results to stdout, notes and progress to stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;
use serde_json::json;
use terminal_size::{Height, Width, terminal_size_of};

use super::pager;
use ctxbridge_archive::quote::printable;

pub(super) use super::format::*;

/// Columns of a terminal whose width is not known, and of a pipe.
const DEFAULT_COLUMNS: usize = 80;
/// Minimum columns for which output is laid out.
const MIN_COLUMNS: usize = 40;

/// Writes results to stdout and the rest to stderr.
pub(super) struct Output {
    /// `true` if stdout must carry one JSON value.
    pub json: bool,
    /// `true` to print more detail.
    pub verbose: bool,
    quiet: bool,
    may_page: bool,
    /// `true` while a progress line is on the terminal.
    in_progress: AtomicBool,
    /// `true` once something is on stdout.
    has_printed: bool,
    /// `true` for a command that does something, whose lines only report it.
    is_report: bool,
    /// Lines that wait for their end, to be shown page by page if there are many.
    page: Option<String>,
    /// The last note, which says why the answer is no.
    last_note: Mutex<String>,
}

/// Options of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputOptions {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
    pub may_page: bool,
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
    pub fn new(options: OutputOptions) -> Self {
        let OutputOptions { json, quiet, verbose, may_page } = options;
        Self {
            json,
            verbose,
            quiet,
            may_page,
            in_progress: AtomicBool::new(false),
            has_printed: false,
            is_report: false,
            page: None,
            last_note: Mutex::default(),
        }
    }

    /// Columns that a line may take. `-v` cuts nothing.
    pub fn columns(&self) -> usize {
        let columns = known_columns(terminal_size_of(io::stdout())).unwrap_or(DEFAULT_COLUMNS);
        if self.verbose { usize::MAX } else { columns }
    }

    /// Says that the lines of this command only report what it did: `--quiet` leaves them out.
    pub fn reports(&mut self) {
        self.is_report = true;
    }

    /// Shows the lines that follow page by page, if stdout is a terminal and they are more than it can show.
    pub fn pages(&mut self) {
        if self.may_page && !self.json && io::stdout().is_terminal() {
            self.page.get_or_insert_default();
        }
    }

    /// Prints one line of result.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        if self.is_report && self.quiet && !self.json {
            return Ok(());
        }
        self.has_printed = true;
        if let Some(page) = &mut self.page {
            page.push_str(text.as_ref());
            page.push('\n');
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        writeln!(stdout, "{}", text.as_ref())
    }

    /// Prints one row of a list, cut to the columns.
    pub fn row(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        let columns = self.columns();
        self.line(cut(text.as_ref(), columns))
    }

    /// Prints a sentence, wrapped between words where the width of the terminal is known. What goes on is indented as `hanging`
    /// says, or as the sentence itself.
    pub fn prose(&mut self, hanging: usize, text: impl AsRef<str>) -> io::Result<()> {
        match known_columns(terminal_size_of(io::stdout())) {
            Some(columns) => self.line(wrap(text.as_ref(), columns, hanging)),
            None => self.line(text),
        }
    }

    /// Prints a result unchanged.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.has_printed = true;
        let mut stdout = anstream::stdout().lock();
        stdout.write_all(text.as_ref())?;
        stdout.flush()
    }

    /// Shows the lines that waited, if any.
    pub fn finish(&mut self) -> io::Result<()> {
        self.page.take().map_or(Ok(()), |page| pager::show(&page))
    }

    /// Gives JSON a reason where the answer is no and nothing was printed.
    pub fn explain_no(&mut self) -> anyhow::Result<()> {
        if !self.json || self.has_printed {
            return Ok(());
        }
        let note = self.last_note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.value(&error_json(if note.is_empty() { "nothing found" } else { &note }))
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
        // Ids and paths of others are in it. Styles are ours.
        let text = &printable_styled(text);
        text.clone_into(&mut self.last_note.lock().unwrap_or_else(PoisonError::into_inner));
        if !self.quiet {
            // There is nobody to tell that stderr is gone.
            writeln!(anstream::stderr().lock(), "{}", wrapped_for_stderr(text)).ok();
        }
    }

    /// Prints how many there are and what to do next, on stderr, for a person who looks at a terminal.
    pub fn hint(&self, text: &str) {
        if !self.quiet && !self.json && io::stdout().is_terminal() && self.page.is_none() {
            let text = wrapped_for_stderr(&printable(text));
            writeln!(anstream::stderr().lock(), "{DIM}{text}{DIM:#}").ok();
        }
    }

    /// Prints an error with its causes on stderr; with `--json` also as JSON on stdout, unless a result is there already.
    pub fn error(&mut self, error: &anyhow::Error) {
        self.clear_progress();
        let mut told = String::new();
        for cause in error.chain().map(ToString::to_string) {
            // Many errors name their cause themselves.
            if !told.contains(&cause) {
                told += if told.is_empty() { "" } else { ": " };
                told += &cause;
            }
        }
        // What a server, a file or a tool said may be in it.
        let told = printable(&told);
        writeln!(anstream::stderr().lock(), "{}", wrapped_for_stderr(&format!("{BAD}error:{BAD:#} {told}"))).ok();
        if self.json && !self.has_printed {
            self.value(&error_json(&told)).ok();
        }
    }
}

/// Columns of the terminal, or what `COLUMNS` says; none for a pipe.
fn known_columns(terminal: Option<(Width, Height)>) -> Option<usize> {
    let typed = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.map(|(width, _)| usize::from(width.0)).or_else(typed).map(|columns: usize| columns.max(MIN_COLUMNS))
}

/// Wraps a text for a person who looks at stderr, where the width is known.
pub(super) fn wrapped_for_stderr(text: &str) -> String {
    let Some(columns) = known_columns(terminal_size_of(io::stderr())) else { return text.to_owned() };
    text.lines().map(|line| wrap(line, columns, 0)).collect::<Vec<_>>().join("\n")
}

/// Removes what a terminal would obey from a text, but for styles: colors, bold, dim.
fn printable_styled(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        shown += &printable(&rest[..at]);
        let sequence = &rest[at..];
        let digits = sequence[2..].bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        let is_style = sequence.as_bytes().get(2 + digits) == Some(&b'm');
        let end = if is_style { 2 + digits + 1 } else { 2 };
        if is_style {
            shown += &sequence[..end];
        }
        rest = &sequence[end..];
    }
    shown + &printable(rest)
}

/// Formats an error for `--json`: the cause, and the next step behind the first semicolon, if there is one.
pub(super) fn error_json(told: &str) -> serde_json::Value {
    let (error, hint) = told.split_once("; ").map_or((told, None), |(error, hint)| (error, Some(hint)));
    json!({ "error": error, "hint": hint })
}
