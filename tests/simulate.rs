//! `ctxbridge prune preview` and `simulate`, from outside, on sessions in the client's format.

mod help;
mod pictures;
mod preview;
mod tables;
mod trouble;

use std::fs;

use ctxbridge_testkit::sandbox::{Ran, Sandbox};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

/// Generates a session into this file of the folder that commands run in.
fn session(sandbox: &Sandbox, name: &str, kind: Kind, messages: u64) {
    let made = generate(&Spec::new(kind, messages, 5), &sandbox.path("generated")).unwrap();
    fs::rename(&made.sessions[0].path, sandbox.path("work").join(name)).unwrap();
}

/// `ctxbridge prune …`
fn prune(sandbox: &Sandbox, args: &[&str]) -> Ran {
    prune_with(sandbox, args, &[])
}

/// The same with these variables, and settings that stay as they are where the defaults change.
fn prune_with(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = sandbox.command(&[&["prune"], args].concat());
    command.envs([
        ("CLAUDE_TEXT_PRUNE_POLICY", "fold"),
        ("CLAUDE_TEXT_PRUNE_KEEP", "2"),
        ("CLAUDE_TEXT_PRUNE_THRESHOLD", "20000"),
        ("CLAUDE_TEXT_PRUNE_MAX_CHARS", "80"),
        ("CLAUDE_TEXT_PRUNE_KEEP_TOKENS", "10000"),
    ]);
    command.envs(env.iter().copied()).output().unwrap().into()
}
