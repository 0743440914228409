//! The folder that the hooks fill in a project in git.

use std::fs;
use std::path::PathBuf;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};
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

    fn install(&self, more: &[&str]) -> Ran {
        self.sandbox.run(&[&["hooks", "install", "--client-version", "2.1.330"], more].concat())
    }

    fn uninstall(&self) -> Ran {
        self.sandbox.run(&["hooks", "uninstall"])
    }
}

#[test]
fn the_folder_comes_with_the_hooks_and_goes_with_them() {
    let project = Project::new();
    assert_snapshot!(project.install(&[]), @"
    exit code: 0
    installed: 9 hooks in ~/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    prepared: [ROOT]/work/.ctxbridge, for what is asked and done here; `git add .ctxbridge` shares it with the repository
    ");
    assert_eq!(
        project.git(&["status", "--porcelain", "-uall"]),
        "?? .ctxbridge/.gitattributes\n?? .ctxbridge/.gitignore\n?? .ctxbridge/.npmignore\n"
    );
    assert!(!project.install(&[]).stdout.contains("prepared"));
    assert_eq!(project.install(&["--json"]).json()["bundles"]["ignored"], false);
    assert_snapshot!(project.uninstall(), @"
    exit code: 0
    uninstalled: ~/.claude/settings.json, which the install had made, is gone
    [ROOT]/work/.ctxbridge, which held nothing, is gone
    ");
    assert_eq!(project.git(&["status", "--porcelain", "--ignored"]), "");
}

#[test]
fn what_somebody_else_relies_on_stays() {
    for kept in ["bundles/MON_00_a.jsonl", "config.toml", "notes"] {
        let project = Project::new();
        project.install(&[]);
        fs::write(project.root().join(".ctxbridge").join(kept), "").unwrap();
        assert!(!project.uninstall().stdout.contains("is gone\n[ROOT]"), "{kept}");
        for file in [kept, ".gitignore", ".gitattributes"] {
            assert!(project.root().join(".ctxbridge").join(file).is_file(), "{file} for {kept}");
        }
    }
    let project = Project::new();
    project.install(&[]);
    fs::write(project.root().join(".ctxbridge/.gitignore"), "# mine\n").unwrap();
    project.uninstall();
    assert!(project.root().join(".ctxbridge/.gitignore").is_file(), "what a user made of it");

    let project = Project::new();
    project.install(&[]);
    project.git(&["add", "."]);
    project.git(&["commit", "--quiet", "-m", "a"]);
    project.uninstall();
    assert_eq!(project.git(&["status", "--porcelain"]), "", "what is committed is everybody's");
}

#[test]
fn a_project_that_hides_the_folder_is_told() {
    let project = Project::new();
    fs::write(project.root().join(".gitignore"), ".*\n").unwrap();
    assert_snapshot!(project.install(&[]), @"
    exit code: 0
    installed: 9 hooks in ~/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    prepared: [ROOT]/work/.ctxbridge, for what is asked and done here; `git add .ctxbridge` shares it with the repository
    --- stderr
    note: git ignores [ROOT]/work/.ctxbridge, by a rule of this project or of yours (`git check-ignore -v .ctxbridge/bundles/x.jsonl` names it), so that a clone knows nothing of what is done here
    ");
    assert_eq!(project.install(&["--json"]).json()["bundles"]["ignored"], true);
}

#[test]
fn nothing_is_made_where_it_is_not_wanted_or_cannot_be() {
    let project = Project::new();
    let install = |project: &Project| {
        let mut command = project.sandbox.command(&["hooks", "install", "--json", "--client-version", "2.1.330"]);
        run(command.env("CTXBRIDGE_BUNDLE_ENABLED", "false"), b"").json()
    };
    assert_eq!(install(&project)["bundles"], serde_json::Value::Null);
    assert!(!project.root().join(".ctxbridge").exists());

    fs::create_dir(project.sandbox.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(project.sandbox.path("elsewhere"), project.root().join(".ctxbridge")).unwrap();
    let said = project.install(&[]);
    assert!(said.code == Some(0) && said.stderr.contains("leads out of the project"), "{said}");
    project.uninstall();
    assert!(project.root().join(".ctxbridge").symlink_metadata().is_ok());

    let sandbox = Sandbox::new();
    let said = sandbox.run(&["hooks", "install", "--json", "--client-version", "2.1.330"]).json();
    assert_eq!(said["bundles"], serde_json::Value::Null, "it is no repository");
}
