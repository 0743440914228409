//! The command that resumes a session in the client.

use std::path::Path;

/// Returns the command for a shell; it changes the folder first if the session worked in another one than `here`, since the client
/// finds only the sessions of its folder. `None` if the id is none that a client gives: it would mean something to a shell.
pub(crate) fn resume_command(session: &str, folder: Option<&str>, here: Option<&Path>) -> Option<String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    if !session.starts_with(|first: char| first.is_ascii_alphanumeric()) || !session.chars().all(is_plain) {
        return None;
    }
    let resume = format!("claude --resume {session}");
    let is_usable = |folder: &&str| Path::new(folder).is_absolute() && !folder.contains(char::is_control);
    match folder.filter(|folder| Some(Path::new(folder)) != here).filter(is_usable) {
        Some(folder) => Some(format!("cd {} && {resume}", quoted(folder))),
        None => Some(resume),
    }
}

/// Quotes a path for a POSIX shell, if it needs that.
fn quoted(path: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@%".contains(character);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_it_means_something_to_a_shell() {
        let here = Some(Path::new("/work/a"));
        assert_eq!(resume_command("0b9e-1", Some("/work/a"), here).as_deref(), Some("claude --resume 0b9e-1"));
        assert_eq!(resume_command("0b9e-1", None, here).as_deref(), Some("claude --resume 0b9e-1"));
        let elsewhere = resume_command("0b9e", Some("/work/b c's;$(x)"), here);
        assert_eq!(elsewhere.as_deref(), Some(r"cd '/work/b c'\''s;$(x)' && claude --resume 0b9e"));
        assert_eq!(resume_command("0b9e", Some("/work/a\nrm x"), here).as_deref(), Some("claude --resume 0b9e"));
        assert_eq!(resume_command("0b9e; rm x", None, here), None);
        assert_eq!(resume_command("--help", None, here), None);
        assert_eq!(resume_command("", None, here), None);
    }
}
