//! Parsing of shell commands, as far as needed to know which programs they run.

/// Our own programs, in whatever folder they are.
const OWN: [&str; 2] = ["ctxbridge", "ctxbridge.exe"];

/// Programs that run the program behind them.
const WRAPPERS: [&str; 14] =
    ["sudo", "exec", "time", "env", "command", "nohup", "nice", "timeout", "xargs", "npx", "if", "then", "do", "!"];

/// Shells, which run the script behind `-c`.
const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "dash"];

/// Programs without an effect that is worth recording.
const TRIVIAL: [&str; 20] = [
    "cd", "pushd", "popd", "export", "set", "unset", "source", ".", "echo", "printf", "true", "false", "sleep", ":", "fi",
    "done", "else", "clear", "which", "",
];

/// `true` if a command does nothing but run ctxbridge. Looking something up is not work to record.
pub fn is_own(command: &str) -> bool {
    let pipelines = pipelines(command);
    let runs_us = |pipeline: &Vec<Vec<String>>| pipeline.iter().any(|words| is_us(words));
    let is_trivial = |pipeline: &Vec<Vec<String>>| pipeline.iter().all(|words| TRIVIAL.contains(&program(words).0));
    pipelines.iter().any(runs_us) && pipelines.iter().all(|pipeline| runs_us(pipeline) || is_trivial(pipeline))
}

fn is_us(words: &[String]) -> bool {
    let (program, arguments) = program(words);
    let is_script = || {
        let script = arguments
            .iter()
            .position(|argument| argument.starts_with('-') && argument.ends_with('c'))
            .and_then(|at| arguments.get(at + 1));
        script.is_some_and(|script| is_own(script))
    };
    OWN.contains(&program) || (SHELLS.contains(&program) && is_script())
}

/// The name of the program, without its folder, and its arguments.
fn program(words: &[String]) -> (&str, &[String]) {
    let mut is_wrapped = false;
    for (at, word) in words.iter().enumerate() {
        let is_option = is_wrapped && word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let is_assignment =
            word.split_once('=').is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        let is_wrapper = WRAPPERS.contains(&word.as_str());
        is_wrapped |= is_wrapper;
        if !(is_option || is_assignment || is_wrapper) {
            return (word.rsplit(['/', '\\']).next().unwrap_or_default(), &words[at + 1..]);
        }
    }
    ("", &[])
}

/// The words of each program of each pipeline. Variables and commands are not expanded.
fn pipelines(command: &str) -> Vec<Vec<Vec<String>>> {
    let mut pipelines = vec![vec![Vec::new()]];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars().peekable();
    let end_word = |pipelines: &mut Vec<Vec<Vec<String>>>, word: &mut Option<String>| {
        if let (Some(word), Some(words)) = (word.take(), pipelines.last_mut().and_then(|pipeline| pipeline.last_mut())) {
            words.push(word);
        }
    };
    while let Some(character) = characters.next() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('\\', None | Some('"'))
                if characters.peek().is_some_and(|next| matches!(next, '"' | '\'' | '\\' | ' ' | '$' | '\n')) =>
            {
                word.get_or_insert_default().extend(characters.next().filter(|next| *next != '\n'));
            }
            (_, Some(_)) => word.get_or_insert_default().push(character),
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            ('|', None) if characters.peek() != Some(&'|') => {
                end_word(&mut pipelines, &mut word);
                if let Some(pipeline) = pipelines.last_mut() {
                    pipeline.push(Vec::new());
                }
            }
            // Of `2>&1`, the sign is no end.
            ('&', None) if word.as_ref().is_some_and(|word| word.ends_with(['>', '<'])) => word.get_or_insert_default().push('&'),
            ('\n' | ';' | '&' | '(' | ')' | '{' | '}' | '|', None) => {
                end_word(&mut pipelines, &mut word);
                if character == '|' {
                    characters.next();
                }
                pipelines.push(vec![Vec::new()]);
            }
            (' ' | '\t' | '\r', None) => end_word(&mut pipelines, &mut word),
            (_, None) => word.get_or_insert_default().push(character),
        }
    }
    end_word(&mut pipelines, &mut word);
    pipelines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn our_own_commands_are_known() {
        for command in [
            "ctxbridge recall x",
            "cd a && /usr/bin/ctxbridge status",
            "X=1 ctxbridge hook stop 2>&1 | head -5",
            "echo a | ctxbridge.exe hook stop",
            "timeout 5 ctxbridge recall 'a; b'",
            "bash -lc x; sh -c 'cd a; ctxbridge status'; ctxbridge doctor",
            "\"/opt/my tools/ctxbridge\" status",
            "export A=1; ctxbridge search \"it fails\" || true",
        ] {
            assert_eq!(is_own(command), !command.starts_with("bash -lc"), "{command}");
        }
        for command in [
            "cargo test -p ctxbridge",
            "ls ctxbridge",
            "grep ctxbridge README.md",
            "git commit -m 'ctxbridge: fix'",
            "git commit -m \"Fix it\n\nctxbridge forgot\"",
            "cargo test && ctxbridge status",
            "echo 'a; ctxbridge status'",
            "",
        ] {
            assert!(!is_own(command), "{command}");
        }
    }

    proptest! {
        #[test]
        fn any_command_is_read(command in "\\PC{0,60}|[a-c \n'\"|&;(){}=\\\\-]{0,40}|(ctxbridge|sh -c|cd a|;|&&| |'){0,8}") {
            is_own(&command);
        }
    }
}
