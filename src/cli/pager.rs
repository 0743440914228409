//! Long output on a terminal, shown page by page as git does: by `$CTXBRIDGE_PAGER`, `$PAGER`, or `less`.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// Options of `less` unless the user says otherwise: quit if it fits, keep colors, leave the text on the screen.
const LESS: &str = "FRX";

/// Shows a text on the terminal, by the pager if it has more lines than that.
pub(super) fn show(text: &str) -> io::Result<()> {
    let Some((terminal_size::Width(width), terminal_size::Height(height))) = terminal_size::terminal_size_of(io::stdout()) else {
        return print(text);
    };
    // One line is the prompt's.
    if rows(text, usize::from(width)) < usize::from(height) {
        return print(text);
    }
    // Ctrl-C is for the pager, which goes on; without us, it and the shell would read the same terminal.
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        signal_hook::flag::register(signal, std::sync::Arc::default()).ok();
    }
    let Some(mut pager) = start() else { return print(text) };
    if let Some(mut input) = pager.stdin.take() {
        let is_colored = anstream::stdout().current_choice() != anstream::ColorChoice::Never;
        let shown = if is_colored { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() };
        // Who quits before the end has seen enough.
        input.write_all(shown.as_bytes()).ok();
    }
    pager.wait()?;
    Ok(())
}

/// Rows that a text takes on a terminal of this width.
fn rows(text: &str, width: usize) -> usize {
    use unicode_width::UnicodeWidthStr;
    let of_line = |line: &str| anstream::adapter::strip_str(line).to_string().width().div_ceil(width.max(1)).max(1);
    text.lines().map(of_line).sum()
}

fn print(text: &str) -> io::Result<()> {
    anstream::stdout().lock().write_all(text.as_bytes())
}

/// Starts the pager; none if the user wants none, or it is not there.
fn start() -> Option<Child> {
    let named = ["CTXBRIDGE_PAGER", "PAGER"].into_iter().find_map(|name| std::env::var(name).ok());
    let named = named.unwrap_or_else(|| if cfg!(windows) { "more" } else { "less" }.to_owned());
    // Words, and no shell: a setting of a program has no quotes, as a rule.
    let mut words = named.split_whitespace();
    let program = words.next().filter(|program| *program != "cat")?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    for (name, value) in [("LESS", LESS), ("LESSCHARSET", "utf-8"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.spawn().ok()
}
