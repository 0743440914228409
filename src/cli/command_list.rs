//! The list of commands in `ctxbridge --help`, in groups. Clap has none for commands.

use std::fmt::Write;

use clap::Command;
use clap::builder::StyledStr;

use super::output::BOLD;

/// The groups, in the order in which a user needs them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Everyday commands", &["sessions", "search", "show", "recall", "export", "diff", "pin", "forget", "stats", "dashboard"]),
    ("Claude Code", &["setup", "uninstall", "mod", "patch", "hooks", "prune", "autopilot", "statusline"]),
    ("Memory and team", &["archive", "bundle", "learnings", "model", "mcp"]),
    ("Maintenance", &["doctor", "config", "demo", "completions", "man", "help"]),
];

/// Lists the commands of `ctxbridge` in their groups, rather than in one list.
pub(super) fn grouped(mut command: Command) -> Command {
    command.build();
    let heading = *command.get_styles().get_header();
    let mut list = String::new();
    for (group, names) in GROUPS {
        writeln!(list, "{heading}{group}:{heading:#}").ok();
        for name in names {
            if let Some(found) = command.find_subcommand(name) {
                let about = found.get_about().map(StyledStr::to_string).unwrap_or_default();
                writeln!(list, "  {BOLD}{name:<11}{BOLD:#}  {about}").ok();
            }
        }
        list.push('\n');
    }
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |command| command.hide(true));
    }
    command
        .override_usage("ctxbridge [OPTIONS] [COMMAND]")
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{{all-args}}{{after-help}}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let times = listed.iter().filter(|name| **name == command.get_name()).count();
            assert_eq!(times, 1, "{}", command.get_name());
        }
        assert!(listed.iter().all(|name| command.find_subcommand(name).is_some()), "{listed:?}");
    }
}
