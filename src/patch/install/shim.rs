/*!
Launcher scripts: package managers put a small script on the `PATH` that starts the client somewhere else.

npm on Unix uses a link; npm on Windows, pnpm, yarn and the client's own local installer write scripts for `sh` or `cmd`. What
they start is written in them, most often relative to themselves. Version managers (asdf, mise, volta) start a program that
decides at run time; from their scripts nothing can be told.
*/

use std::path::{Path, PathBuf};

/// What a launcher script leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// This file.
    To(PathBuf),
    /// It is a launcher, but the script does not say of what.
    Unknown,
}

/// Longer files are no launchers.
const LONGEST: usize = 8 << 10;

/// Where the script at `path` leads; nothing when it is no launcher.
pub(super) fn leads_to(path: &Path, head: &[u8]) -> Option<Lead> {
    let text = std::str::from_utf8(head).ok().filter(|text| text.len() <= LONGEST)?;
    let first = text.lines().next().unwrap_or_default();
    let shell = first.starts_with("#!") && ["sh", "bash", "zsh", "dash"].iter().any(|shell| first.trim_end().ends_with(shell));
    let batch =
        path.extension().is_some_and(|extension| ["cmd", "bat", "ps1"].iter().any(|known| extension.eq_ignore_ascii_case(known)));
    if !shell && !batch {
        return None;
    }
    let folder = path.parent()?;
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(words);
    let target = words.map(|word| expand(&word, folder)).find(|target| is_client(target) && target != path && target.exists());
    Some(target.map_or(Lead::Unknown, Lead::To))
}

/// The words of a line, quotes removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() || c == ';' => words.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// A word as a path, with the variables that stand for the script's own folder filled in.
fn expand(word: &str, folder: &Path) -> PathBuf {
    let mut rest = word;
    for own in ["$basedir", "${basedir}", "%~dp0", "%dp0%", "$PSScriptRoot", "$(dirname $0)", "$(dirname \"$0\")"] {
        if let Some(relative) = word.strip_prefix(own) {
            rest = relative.trim_start_matches(['/', '\\']);
            break;
        }
    }
    let home = rest
        .strip_prefix("$HOME/")
        .or_else(|| rest.strip_prefix("~/"))
        .and_then(|rest| Some(crate::paths::home_dir()?.join(rest)));
    // Batch files write backslashes, which are separators on Windows only.
    let rest = if cfg!(windows) { rest.to_owned() } else { rest.replace('\\', "/") };
    home.unwrap_or_else(|| folder.join(rest))
}

fn is_client(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| ["cli.js", "claude", "claude.exe"].contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(name: &str, script: &str) -> (tempfile::TempDir, Option<Lead>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let package = folder.path().join("node_modules/@anthropic-ai/claude-code");
        std::fs::create_dir_all(&package).expect("a folder");
        std::fs::write(package.join("cli.js"), "#!/usr/bin/env node\n").expect("writable");
        let path = folder.path().join(name);
        let script = script.replace("FOLDER", &folder.path().to_string_lossy());
        let lead = leads_to(&path, script.as_bytes());
        (folder, lead)
    }

    fn assert_found(name: &str, script: &str) {
        let (folder, lead) = lead(name, script);
        let expected = folder.path().join("node_modules/@anthropic-ai/claude-code/cli.js");
        assert_eq!(lead, Some(Lead::To(expected)), "{script}");
    }

    #[test]
    fn follows_the_launchers_of_package_managers() {
        assert_found("claude", "#!/bin/bash\nexec \"FOLDER/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\n");
        assert_found(
            "claude",
            "#!/bin/sh\nbasedir=$(dirname \"$(echo \"$0\")\")\nif [ -x \"$basedir/node\" ]; then\n  exec \"$basedir/node\"  \"$basedir/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\nfi\n",
        );
        assert_found(
            "claude.cmd",
            "@ECHO off\r\n\"%_prog%\"  \"%dp0%\\node_modules\\@anthropic-ai\\claude-code\\cli.js\" %*\r\n",
        );
    }

    #[test]
    fn a_launcher_that_says_nothing_is_known_as_one() {
        assert_eq!(lead("claude", "#!/usr/bin/env bash\nexec asdf exec \"claude\" \"$@\"\n").1, Some(Lead::Unknown));
    }

    #[test]
    fn the_client_is_no_launcher() {
        assert_eq!(lead("cli.js", "#!/usr/bin/env node\nimport 'x'\n").1, None);
        assert_eq!(lead("cli.js", "\u{0}\u{1}").1, None);
    }
}
