//! Events to install, with their commands.
//!
//! Only events that every installed release supports are installed. Before 2.1.101, one unknown name makes the client ignore the
//! whole file.

use std::path::Path;

use semver::Version;
use serde::Serialize;

use super::clients::ClientVersion;
use super::command;
use crate::hook::Event;

/// Event to install, with its matcher and timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wiring {
    /// The event.
    pub event: Event,
    /// Tools that it is restricted to, in the client's form: whole names separated by `|`. Names that a release does not know do no
    /// harm.
    pub matcher: Option<&'static str>,
    /// Timeout of the client, in seconds.
    pub timeout: u32,
}

/// Events to install, in the order of a session. A new one is a new line.
///
/// The client's own limit is 60 s, during which a hook that hangs blocks it. Ours take milliseconds. These limits are for a slow
/// disk, and for another process in the database, for which a hook waits a few seconds.
pub const WIRED: &[Wiring] = &[
    // Restores turns: one query.
    Wiring { event: Event::SessionStart, matcher: None, timeout: 10 },
    // The user waits for it at every prompt.
    Wiring { event: Event::UserPromptSubmit, matcher: None, timeout: 5 },
    // What writes files, and sub-agents: the client renamed that tool; either name is the same to it.
    Wiring { event: Event::PreToolUse, matcher: Some("Write|Edit|MultiEdit|NotebookEdit|Task|Agent"), timeout: 5 },
    // Only what is noted down: a hook costs a process for each call.
    Wiring { event: Event::PostToolUse, matcher: Some("Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent"), timeout: 5 },
    // May archive a whole session that was never archived before, and what it misses is lost to the summary.
    Wiring { event: Event::PreCompact, matcher: None, timeout: 30 },
    Wiring { event: Event::PostCompact, matcher: None, timeout: 15 },
    Wiring { event: Event::Stop, matcher: None, timeout: 15 },
    Wiring { event: Event::SubagentStop, matcher: None, timeout: 15 },
    // Newer clients end it earlier when they exit; what is left is archived at the next start.
    Wiring { event: Event::SessionEnd, matcher: None, timeout: 15 },
];

/// Returns the wiring of an event; every event has one.
pub fn wiring(event: Event) -> Option<&'static Wiring> {
    WIRED.iter().find(|wiring| wiring.event == event)
}

/// Hook in the form that is written to the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The event it is for.
    pub event: Event,
    /// Matcher of its group.
    pub matcher: Option<&'static str>,
    /// The command, as a shell reads it, also where it is written in the exec form.
    pub command: String,
    /// The program, where it is to be started without a shell.
    pub program: Option<String>,
    /// Timeout of the client, in seconds.
    pub timeout: u32,
}

/// Event that is left out, because a client that reads the settings does not support it and would ignore all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsupportedEvent {
    /// The event.
    pub event: Event,
    /// The client, as a path and version, or the version that was named.
    pub because_of: String,
}

/// Splits [`WIRED`] into the events that all of these clients support, and those that one of them does not.
///
/// Without a client, all are supported.
pub fn events_for(clients: &[ClientVersion], known: &dyn Fn(&Version) -> Vec<Event>) -> (Vec<Event>, Vec<UnsupportedEvent>) {
    let mut wanted = Vec::new();
    let mut left_out = Vec::new();
    for &Wiring { event, .. } in WIRED {
        match clients.iter().find(|client| !known(&client.version).contains(&event)) {
            None => wanted.push(event),
            Some(client) => left_out.push(UnsupportedEvent { event, because_of: client.to_string() }),
        }
    }
    (wanted, left_out)
}

/// The form in which a client starts a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookForm {
    /// As a line for a shell. On Windows without Git Bash that is PowerShell, to which a program in quotes is a text.
    Shell,
    /// As a program with arguments: no shell is started, and nothing has to be quoted.
    Exec,
}

impl HookForm {
    /// The first release that is known to start a program with arguments. Those before are given a line.
    const EXEC_SINCE: Version = Version::new(2, 1, 145);

    /// The form that all of these clients know, none of which may be of an unknown version.
    pub fn for_all(clients: &[ClientVersion], are_all_known: bool) -> Self {
        let is_new = |client: &ClientVersion| client.version >= Self::EXEC_SINCE;
        if are_all_known && !clients.is_empty() && clients.iter().all(is_new) { Self::Exec } else { Self::Shell }
    }
}

/// Returns the hooks for these events that run `program`, which is a bare name or an absolute path. A bare name is for a shell to find:
/// what npm installs on Windows is found by nothing else.
pub fn hooks(events: &[Event], program: &str, form: HookForm) -> Vec<Hook> {
    let is_exec = form == HookForm::Exec && Path::new(program).is_absolute();
    let wired = WIRED.iter().filter(|wiring| events.contains(&wiring.event));
    wired
        .map(|&Wiring { event, matcher, timeout }| {
            let command = command::of(program, event, cfg!(windows) && !is_exec);
            Hook { event, matcher, command, program: is_exec.then(|| program.to_owned()), timeout }
        })
        .collect()
}

/// Program name in settings that are shared with colleagues: each has it in another folder.
pub const PROGRAM_NAME: &str = "ctxbridge";

#[cfg(test)]
mod tests {
    use super::*;

    fn known(version: &Version) -> Vec<Event> {
        Event::ALL.into_iter().filter(|event| *event != Event::PostCompact || version.minor > 0).collect()
    }

    #[test]
    fn an_event_that_one_client_does_not_know_is_left_out() {
        let client = |minor| ClientVersion { path: None, version: Version::new(2, minor, 0) };
        let (wanted, left_out) = events_for(&[client(1), client(0)], &known);
        assert!(wanted.len() + 1 == WIRED.len() && !wanted.contains(&Event::PostCompact));
        assert_eq!(left_out, [UnsupportedEvent { event: Event::PostCompact, because_of: "2.0.0".to_owned() }]);
        assert_eq!(events_for(&[client(1)], &known).1, []);
    }
}
