//! Hooks leave a project alone; `bundle init` makes the folder that they fill.

use std::fs;
use std::path::PathBuf;

use ctxbridge_testkit::sandbox::{Ran, Sandbox};
use insta::assert_snapshot;

struct Project {
    sandbox: Sandbox,
}

impl Project {
    fn new() -> Self {
        let project = Self { sandbox: Sandbox::new() };
        project.git(&["init", "--quiet"]);
        project
    }

    fn root(&self) -> PathBuf {
        self.sandbox.path("work")
    }

    fn git(&self, args: &[&str]) -> String {
        self.sandbox.git(&self.root(), args)
    }

    fn install(&self) -> Ran {
        self.sandbox.run(&["hooks", "install", "--client-version", "2.1.330"])
    }
}

#[test]
fn hooks_come_and_go_without_a_trace_in_the_project() {
    let project = Project::new();
    assert_snapshot!(project.install(), @"
    exit code: 0
    installed: 9 hooks in ~/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    ");
    assert!(project.sandbox.run(&["hooks", "status"]).stdout.contains("bundles: none in this project"));
    project.sandbox.run(&["hooks", "uninstall"]);
    assert_eq!(project.git(&["status", "--porcelain", "--ignored"]), "");
}

#[test]
fn bundles_begin_when_they_are_wanted() {
    let project = Project::new();
    project.install();
    assert_snapshot!(project.sandbox.run(&["bundle", "init"]), @"
    exit code: 0
    created: [ROOT]/work/.ctxbridge
    `git add .ctxbridge` shares it with the repository
    ");
    assert_eq!(
        project.git(&["status", "--porcelain", "-uall"]),
        "?? .ctxbridge/.gitattributes\n?? .ctxbridge/.gitignore\n?? .ctxbridge/.npmignore\n"
    );
    assert!(project.sandbox.run(&["hooks", "status"]).stdout.contains("bundles: work is recorded in [ROOT]/work/.ctxbridge"));
    let doctor = project.sandbox.run(&["doctor"]).stdout;
    assert!(doctor.contains("work is recorded in [ROOT]/work"), "{doctor}");
    project.sandbox.run(&["hooks", "uninstall"]);
    assert!(project.root().join(".ctxbridge/bundles").is_dir(), "they are the project's");
}

#[test]
fn a_project_that_hides_the_folder_is_told() {
    let project = Project::new();
    fs::write(project.root().join(".gitignore"), ".*\n").unwrap();
    assert_snapshot!(project.sandbox.run(&["bundle", "init"]), @"
    exit code: 0
    created: [ROOT]/work/.ctxbridge
    `git add .ctxbridge` shares it with the repository
    --- stderr
    note: git ignores [ROOT]/work/.ctxbridge, by a rule of this project or of yours; `git check-ignore -v .ctxbridge/bundles/x.jsonl` names it
    ");
    assert_eq!(project.sandbox.run(&["bundle", "init", "--json"]).json()["ignored"], true);
}

#[cfg(unix)]
#[test]
fn bundles_need_a_project_of_ones_own() {
    let project = Project::new();
    fs::create_dir(project.sandbox.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(project.sandbox.path("elsewhere"), project.root().join(".ctxbridge")).unwrap();
    let said = project.sandbox.run(&["bundle", "init"]);
    assert!(said.code == Some(3) && said.stderr.contains("leads out of the project"), "{said}");
    let outside = Sandbox::new().run(&["bundle", "init"]);
    assert!(outside.code == Some(3) && outside.stderr.contains("is in no project"), "{outside}");
}
