/*!
Launchers: package managers put a small script or program on the `PATH` that starts the client somewhere else.

npm on Unix uses a link; npm on Windows, pnpm, yarn and the client's own local installer write scripts for `sh`, `cmd` or
PowerShell. The path of the client is in the script, most often relative to the script. Scoop and Nix use programs, with the path or
the client next to them. Version managers (asdf, mise, volta) start a program that decides at run time; their launchers name no
client.
*/

use std::path::{Path, PathBuf};

use crate::container::ContainerKind;

/// Target of a launcher.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LauncherTarget {
    /// This file.
    ClientFile(PathBuf),
    /// It is a launcher, but does not name its target.
    Unknown {
        /// The command that prints the client's place.
        ask: &'static str,
    },
}

/// Maximum size of a launcher script in bytes.
const MAX_LAUNCHER_BYTES: usize = 8 << 10;

/// Programs of version managers to which links called `claude` lead, each with the command that prints the client's place.
const MANAGERS: &[(&str, &str)] = &[
    ("mise", "mise which claude"),
    ("rtx", "rtx which claude"),
    ("volta-shim", "volta which claude"),
    ("proto-shim", "proto bin claude"),
    ("aqua-proxy", "aqua which claude"),
];

/// Words that tell a version manager's script, each with the command that prints the client's place.
const SCRIPTS: &[(&str, &str)] = &[
    ("asdf exec", "asdf which claude"),
    ("mise exec", "mise which claude"),
    ("mise x ", "mise which claude"),
    ("volta run", "volta which claude"),
    ("nodenv", "nodenv which claude"),
];

/// The command that prints where npm installs, for all other scripts.
const ASK_NPM: &str = "npm root -g";

/// Names of a client's file in launchers.
const CLIENTS: &[&str] = &["cli.js", super::WRAPPER, "claude", "claude.exe", NIX];

/// Nix's name for the program that its launcher replaces.
const NIX: &str = ".claude-wrapped";

/// The target of the launcher at `path`; `None` if it is not a launcher.
pub(super) fn launcher_target(path: &Path, head: &[u8]) -> Option<LauncherTarget> {
    if let Some((_, ask)) = manager(path) {
        return Some(LauncherTarget::Unknown { ask });
    }
    if ContainerKind::of(head).is_native() {
        return program(path).map(LauncherTarget::ClientFile);
    }
    let text = std::str::from_utf8(head).ok().filter(|text| text.len() <= MAX_LAUNCHER_BYTES)?;
    let mut interpreter = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default().split_whitespace();
    let shell = interpreter.any(|word| ["sh", "bash", "zsh", "dash", "ash"].contains(&word.rsplit('/').next().unwrap_or(word)));
    let batch =
        path.extension().is_some_and(|extension| ["cmd", "bat", "ps1"].iter().any(|known| extension.eq_ignore_ascii_case(known)));
    if !shell && !batch {
        return None;
    }
    let folder = path.parent()?;
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(words);
    let target = words.map(|word| expand(&word, folder)).find(|target| is_client(target) && target != path && target.exists());
    let ask = || SCRIPTS.iter().find(|(mark, _)| text.contains(mark)).map_or(ASK_NPM, |(_, ask)| ask);
    Some(target.map_or_else(|| LauncherTarget::Unknown { ask: ask() }, LauncherTarget::ClientFile))
}

/// The path by which people know a launcher: the link, if it leads to a version manager's program.
pub(super) fn launcher_name(link: &Path, real: PathBuf) -> PathBuf {
    if manager(&real).is_none() { real } else { std::path::absolute(link).unwrap_or(real) }
}

fn manager(path: &Path) -> Option<&'static (&'static str, &'static str)> {
    let name = path.file_stem()?.to_str()?;
    MANAGERS.iter().find(|(program, _)| name.eq_ignore_ascii_case(program))
}

/// The client that a launcher starts which is a program itself.
fn program(path: &Path) -> Option<PathBuf> {
    let wrapped = path.with_file_name(NIX);
    if wrapped != path && wrapped.is_file() {
        return Some(wrapped);
    }
    // Scoop's launchers are all the same program, which reads this file.
    let shim = std::fs::read_to_string(path.with_extension("shim")).ok()?;
    let target = shim.lines().find_map(|line| line.trim().strip_prefix("path")?.trim_start().strip_prefix('='))?;
    let target = PathBuf::from(target.trim().trim_matches('"'));
    (target != path && target.exists()).then_some(target)
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

/// A word as a path, with variables for the script's own folder filled in.
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
        .and_then(|rest| Some(ctxbridge_common::paths::home_dir()?.join(rest)));
    // Batch files write backslashes, which are separators on Windows only.
    let rest = if cfg!(windows) { rest.to_owned() } else { rest.replace('\\', "/") };
    home.unwrap_or_else(|| folder.join(rest))
}

fn is_client(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| CLIENTS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lead(name: &str, script: &str) -> (tempfile::TempDir, Option<LauncherTarget>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let package = folder.path().join("node_modules/@anthropic-ai/claude-code");
        std::fs::create_dir_all(&package).expect("a folder");
        std::fs::write(package.join("cli.js"), "#!/usr/bin/env node\n").expect("writable");
        let path = folder.path().join(name);
        let script = script.replace("FOLDER", &folder.path().to_string_lossy());
        let lead = launcher_target(&path, script.as_bytes());
        (folder, lead)
    }

    fn assert_found(name: &str, script: &str) {
        let (folder, lead) = lead(name, script);
        let expected = folder.path().join("node_modules/@anthropic-ai/claude-code/cli.js");
        assert_eq!(lead, Some(LauncherTarget::ClientFile(expected)), "{script}");
    }

    #[test]
    fn follows_the_launchers_of_package_managers() {
        assert_found("claude", "#!/bin/bash\nexec \"FOLDER/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\n");
        assert_found(
            "claude",
            "#!/bin/sh\nbasedir=$(dirname \"$(echo \"$0\")\")\nif [ -x \"$basedir/node\" ]; then\n  exec \"$basedir/node\"  \"$basedir/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"\nfi\n",
        );
        assert_found(
            "claude.ps1",
            "#!/usr/bin/env pwsh\n$basedir=Split-Path $MyInvocation.MyCommand.Definition -Parent\n& \"$basedir/node_modules/@anthropic-ai/claude-code/cli.js\" $args\n",
        );
        assert_found(
            "claude.cmd",
            "@ECHO off\r\n\"%_prog%\"  \"%dp0%\\node_modules\\@anthropic-ai\\claude-code\\cli.js\" %*\r\n",
        );
    }

    #[test]
    fn a_launcher_that_says_nothing_is_known_as_one() {
        let unknown = |script| match lead("claude", script).1 {
            Some(LauncherTarget::Unknown { ask }) => ask,
            lead => panic!("{lead:?}"),
        };
        assert_eq!(unknown("#!/usr/bin/env bash\nexec asdf exec \"claude\" \"$@\"\n"), "asdf which claude");
        assert_eq!(unknown("#!/bin/sh -e\nexec somewhere/else\n"), "npm root -g");
        assert_eq!(
            launcher_target(Path::new("/usr/bin/mise"), b"\x7fELF"),
            Some(LauncherTarget::Unknown { ask: "mise which claude" })
        );
    }

    #[test]
    fn follows_launchers_that_are_programs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, text).expect("writable");
            path
        };
        let client = write("apps/claude.exe", "MZ");
        let launcher = write("shims/claude.exe", "MZ");
        assert_eq!(launcher_target(&launcher, b"MZ"), None);
        write("shims/claude.shim", &format!("path = \"{}\"\nargs = --flag\n", client.display()));
        assert_eq!(launcher_target(&launcher, b"MZ"), Some(LauncherTarget::ClientFile(client)));

        let launcher = write("nix/claude", "\u{7f}ELF");
        let wrapped = write("nix/.claude-wrapped", "\u{7f}ELF");
        assert_eq!(launcher_target(&launcher, b"\x7fELF"), Some(LauncherTarget::ClientFile(wrapped.clone())));
        assert_eq!(launcher_target(&wrapped, b"\x7fELF"), None);
    }

    #[test]
    fn the_client_is_no_launcher() {
        assert_eq!(lead("cli.js", "#!/usr/bin/env node\nimport 'x'\n").1, None);
        assert_eq!(lead("cli.js", "\u{0}\u{1}").1, None);
    }
}
