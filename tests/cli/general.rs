//! What holds for every command: help, exit codes, streams, colors, closed pipes.

use std::fs;
use std::process::Stdio;

use ctxbridge_testkit::sandbox::{Ran, Sandbox};

use super::text;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["patch"],
    &["patch", "list"],
    &["patch", "locate"],
    &["patch", "apply"],
    &["patch", "verify"],
    &["patch", "revert"],
    &["patch", "check"],
    &["patch", "backups"],
    &["prune"],
    &["prune", "preview"],
    &["prune", "simulate"],
    &["archive"],
    &["archive", "status"],
    &["archive", "import"],
    &["archive", "restore"],
    &["archive", "optimize"],
    &["sessions"],
    &["search"],
    &["show"],
    &["recall"],
    &["export"],
    &["diff"],
    &["pin"],
    &["stats"],
    &["setup"],
    &["uninstall"],
    &["hook"],
    &["hooks"],
    &["hooks", "install"],
    &["hooks", "uninstall"],
    &["hooks", "status"],
    &["hooks", "verify"],
    &["autopilot", "status"],
    &["config", "show"],
    &["doctor"],
    &["statusline"],
    &["demo"],
    &["completions"],
];

#[test]
fn every_command_has_help_with_an_example() {
    let sandbox = Sandbox::new();
    for command in COMMANDS.iter().copied() {
        for help in ["--help", "-h"] {
            let said = sandbox.run(&[command, &[help]].concat());
            assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{command:?}");
            let example = said.stdout.split_once("Example").map_or("", |(_, examples)| examples);
            assert!(example.contains(&format!("ctxbridge {}", command.join(" "))), "{command:?} {help}: {}", said.stdout);
        }
    }
}

#[test]
fn wrong_usage_is_2() {
    let sandbox = Sandbox::new();
    for args in [
        &["nonsense"][..],
        &["patch", "nonsense"],
        &["patch", "locate", "--nonsense"],
        &["patch", "locate", "one", "two"],
        &["patch", "verify", "--color", "sometimes"],
        &["patch", "verify", "-q", "-v"],
        &["completions", "nonsense"],
    ] {
        let said = sandbox.run(args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(said.stderr.contains("error:"), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn the_version_is_the_package_s() {
    let said = Sandbox::new().run(&["--version"]);
    assert_eq!(said.stdout, format!("ctxbridge {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_the_commands() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = sandbox.run(&["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(["verify", "--dry-run", "dry-run"].iter().filter(|word| said.stdout.contains(**word)).count() > 1, "{shell}");
    }
}

#[test]
fn the_manual_page_is_one() {
    let said = Sandbox::new().run(&["man"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(said.stdout.contains(".TH ctxbridge 1") && said.stdout.contains(".SH SUBCOMMANDS"), "{}", said.stdout);
}

/// `ctxbridge … | head -1`: whoever reads has seen enough, and that is no error.
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    for args in [
        &["completions", "bash"][..],
        &["man"],
        &["patch", "apply", "--dry-run", text(&client)],
        &["patch", "locate", "--json", text(&client)],
    ] {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything is written: no buffer can hide it.
        drop(child.stdout.take());
        let said = sandbox.masked(child.wait_with_output().unwrap());
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn colors_are_for_those_who_ask() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    let run = |args: &[&str], no_color: bool| {
        let mut command = sandbox.command(&[&["patch", "verify", text(&client)], args].concat());
        if !no_color {
            command.env_remove("NO_COLOR");
        }
        Ran::from(command.output().unwrap()).stdout.contains('\x1b')
    };
    assert!(!run(&[], true));
    assert!(!run(&[], false), "a pipe is no terminal");
    assert!(run(&["--color", "always"], false));
    assert!(run(&["--color", "always"], true), "a flag is stronger than the environment");
    assert!(!run(&["--color", "never"], false));
}

/// What a person should know meanwhile is on stderr, and gone with `-q`; the result stays.
#[test]
fn quiet_drops_the_notices_and_keeps_results_and_errors() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    let damage = || {
        sandbox.write("data/state.db", "this is no database, but long enough to be read as one");
    };
    damage();
    let told = sandbox.run(&["patch", "verify", text(&client)]);
    assert!(told.stderr.contains("is damaged") && !told.stdout.is_empty(), "{told}");
    for file in ["state.db-wal", "state.db-shm"] {
        fs::remove_file(sandbox.data().join(file)).ok();
    }
    damage();
    let quiet = sandbox.run(&["patch", "verify", "-q", text(&client)]);
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout, told.stdout);
    let error = sandbox.run(&["patch", "verify", "-q", "nowhere"]);
    assert!(error.code == Some(3) && error.stderr.starts_with("error: nowhere does not exist"), "{error}");
}
