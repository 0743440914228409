//! The command of a hook: formatting ours, and recognizing it, whoever wrote it.
//!
//! Ours is `PROGRAM hook SLUG`, where the program's file name is `ctxbridge`, in any folder. A line that does anything else as well
//! (`… && notify-send done`) is the user's.
//!
//! There are two forms. In the shell's, `command` is a line that the client gives to a shell. In the exec form, `command` is a program
//! and `args` are its arguments; the client starts it without a shell. Here, an exec form is handled as the line that does the same.

use std::ffi::OsStr;
use std::path::Path;

use crate::hook::Event;

/// Parsed command of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookCommand<'a> {
    /// The program, without quotes.
    pub program: String,
    /// Event of the hook that it runs.
    pub event: Event,
    /// Arguments that a user added, unchanged.
    pub rest: &'a str,
}

/// Formats the command that runs the hook of an event.
pub(super) fn of(program: &str, event: Event, windows: bool) -> String {
    format!("{} hook {}", quoted(program, windows), event.slug())
}

/// The line that does the same as a program with arguments.
pub(super) fn line(program: &str, arguments: &[String]) -> String {
    std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .map(|word| quoted(word, false))
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn quoted(program: &str, windows: bool) -> String {
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c));
    if windows && program.contains(['\\', '/']) {
        let program = program.replace('\\', "/");
        // Git Bash, cmd.exe and PowerShell all take slashes. In quotes, PowerShell takes a program for a text, so only where they have to be.
        if is_plain(&program) { program } else { format!("\"{program}\"") }
    } else if is_plain(program) && !program.is_empty() {
        program.to_owned()
    } else {
        format!("'{}'", program.replace('\'', r"'\''"))
    }
}

/// The words of a line. `None` if it is more than words.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut rest) = (Vec::new(), line);
    while !rest.trim().is_empty() {
        let (word, behind) = word(rest, true)?;
        words.push(word);
        rest = behind;
    }
    Some(words)
}

/// Parses a command; `None` if it is not ours.
pub(super) fn parse(command: &str) -> Option<HookCommand<'_>> {
    // A path of Windows may have been written without quotes, for a shell that knows no other backslash.
    parse_with(command, true).or_else(|| parse_with(command, false))
}

fn parse_with(command: &str, escapes: bool) -> Option<HookCommand<'_>> {
    let (program, rest) = word(command, escapes)?;
    let (_, rest) = word(rest, escapes).filter(|(verb, _)| is_own(&program) && verb == "hook")?;
    let (slug, rest) = word(rest, escapes)?;
    let event = Event::from_slug(&slug)?;
    let mut arguments = rest;
    while !arguments.trim().is_empty() {
        arguments = word(arguments, escapes)?.1;
    }
    Some(HookCommand { program, event, rest })
}

/// `true` for a program of our name, in any folder. Windows does not care about the case of letters.
fn is_own(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let extension = name.len().checked_sub(4).and_then(|at| name.split_at_checked(at));
    match extension {
        Some((stem, extension)) if extension.eq_ignore_ascii_case(".exe") => stem.eq_ignore_ascii_case("ctxbridge"),
        _ => name == "ctxbridge",
    }
}

/// `true` for a command that runs our status line, with any arguments, and does nothing else.
pub(super) fn is_statusline(command: &str) -> bool {
    let runs_it = |escapes: bool| {
        let (program, rest) = word(command, escapes)?;
        let (verb, mut rest) = word(rest, escapes)?;
        while !rest.trim().is_empty() {
            rest = word(rest, escapes)?.1;
        }
        Some(is_own(&program) && verb == "statusline")
    };
    runs_it(true) == Some(true) || runs_it(false) == Some(true)
}

/// Splits off the first word of a line. Returns `None` if there is none, or the line contains more than words.
fn word(line: &str, escapes: bool) -> Option<(String, &str)> {
    let line = line.trim_start_matches([' ', '\t']);
    let mut word = String::new();
    let mut quote = None;
    let mut characters = line.char_indices().peekable();
    let mut begun = false;
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (None, ' ' | '\t') => return begun.then(|| (word, &line[at..])),
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '\n' | '\r') | (None | Some('"'), '`') => return None,
            (None | Some('"'), '$') if characters.peek().is_some_and(|(_, next)| *next == '(') => return None,
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '\\') if escapes => word.push(characters.next()?.1),
            (Some('"'), '\\') if escapes && characters.peek().is_some_and(|(_, next)| "\"\\$`".contains(*next)) => {
                word.push(characters.next()?.1);
            }
            _ => word.push(character),
        }
        begun = true;
    }
    (begun && quote.is_none()).then_some((word, ""))
}

/// `true` if a shell would find the program; `None` if only a shell can tell.
pub(super) fn runs(program: &str, path: Option<&OsStr>) -> Option<bool> {
    if program.contains('$') || program.starts_with('~') {
        return None;
    }
    if program.contains(['/', '\\']) {
        return Some(is_executable(Path::new(program)));
    }
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let names = [program.to_owned(), format!("{program}{}", std::env::consts::EXE_SUFFIX)];
    Some(folders.iter().any(|folder| names.iter().any(|name| is_executable(&folder.join(name)))))
}

fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    metadata.is_file() && may_run
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ours_is_recognized_however_it_was_written() {
        for command in [
            "ctxbridge hook stop",
            "  /usr/local/bin/ctxbridge   hook\tstop ",
            "'/home/a b/ctxbridge' hook stop",
            "/home/a\\ b/ctxbridge hook stop",
            "\"$HOME/.cargo/bin/ctxbridge\" hook stop",
            r"C:\Users\a\ctxbridge.exe hook stop",
            "\"C:/Program Files/CtxBridge.EXE\" hook stop",
            "ctxbridge hook stop --verbose",
        ] {
            assert_eq!(parse(command).map(|ours| ours.event), Some(Event::Stop), "{command}");
        }
    }

    #[test]
    fn what_is_more_or_other_than_ours_is_the_user_s() {
        for command in [
            "",
            "ctxbridge",
            "ctxbridge hook",
            "ctxbridge hook nonsense",
            "ctxbridge archive status",
            "ctxbridge hook stop && notify-send done",
            "ctxbridge hook stop; true",
            "ctxbridge hook stop > log",
            "ctxbridge hook stop\nrm x",
            "$(which ctxbridge) hook stop",
            "time ctxbridge hook stop",
            "my-ctxbridge hook stop",
            "/opt/ctxbridge/run hook stop",
            "ctxbridge.sh hook stop",
            "'ctxbridge hook stop",
            "echo ctxbridge hook stop",
        ] {
            assert_eq!(parse(command), None, "{command}");
        }
    }

    proptest! {
        /// Round trip of a command with any folder; sh reads it the same way.
        #[test]
        fn any_path_comes_back(folder in "/[^\0/]{1,12}", index in 0..Event::ALL.len()) {
            let program = format!("{folder}/ctxbridge");
            let command = of(&program, Event::ALL[index], false);
            let ours = parse_with(&command, true).expect("ours");
            prop_assert_eq!((ours.program, ours.event, ours.rest), (program, Event::ALL[index], ""));
        }

        #[test]
        fn any_path_of_windows_comes_back(folder in "[A-Z]:(\\\\[a-zA-Z0-9 .'&()-]{1,8}){0,3}", index in 0..Event::ALL.len()) {
            let program = format!("{folder}\\ctxbridge.exe");
            let ours = of(&program, Event::ALL[index], true);
            let ours = parse(&ours).expect("ours");
            prop_assert_eq!((ours.program, ours.event), (program.replace('\\', "/"), Event::ALL[index]));
        }

        #[test]
        fn any_line_is_read_without_panic(line in "\\PC*") {
            parse(&line);
        }
    }
}
