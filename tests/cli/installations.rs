//! `ctxbridge patch list` on machines where the client was installed in all the ways there are.
//!
//! The executables here are only headers: what counts is which files are found, and what is said of those that are none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ctxbridge_testkit::sandbox::{Ran, Sandbox};
use insta::assert_snapshot;
use serde_json::Value;

/// The suffix of the platform packages for the machine that runs the tests.
const PLATFORM: &str = match (cfg!(target_os = "macos"), cfg!(target_arch = "aarch64")) {
    (true, true) => "darwin-arm64",
    (true, false) => "darwin-x64",
    (false, true) => "linux-arm64",
    (false, false) => "linux-x64",
};

/// Begins like an executable.
const EXECUTABLE: &[u8] = b"\x7fELF and nothing more";

/// Content in the place of npm's executable at first: in our own words.
const STUB: &[u8] = b"echo \"the executable is not there yet\" >&2\nexit 1\n";

fn write_executable(sandbox: &Sandbox, path: &str) -> PathBuf {
    sandbox.write(path, EXECUTABLE)
}

fn link(sandbox: &Sandbox, path: &str, to: &Path) {
    let path = sandbox.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(to, path).unwrap();
}

/// A package folder with its `package.json`.
fn package(sandbox: &Sandbox, folder: &str, name: &str, version: &str) {
    sandbox.write(&format!("{folder}/package.json"), format!("{{\"name\":\"{name}\",\"version\":\"{version}\"}}"));
}

/// The client's npm package in a `node_modules` folder, as it is unpacked: with the stub.
fn client_package(sandbox: &Sandbox, node_modules: &str) -> PathBuf {
    let folder = format!("{node_modules}/@anthropic-ai/claude-code");
    package(sandbox, &folder, "@anthropic-ai/claude-code", "2.1.200");
    sandbox.write(&format!("{folder}/install.cjs"), b"");
    sandbox.write(&format!("{folder}/cli-wrapper.cjs"), b"#!/usr/bin/env node\n");
    sandbox.write(&format!("{folder}/bin/claude.exe"), STUB)
}

/// The package with the executable for this machine.
fn platform_package(sandbox: &Sandbox, node_modules: &str) -> PathBuf {
    let name = format!("@anthropic-ai/claude-code-{PLATFORM}");
    package(sandbox, &format!("{node_modules}/{name}"), &name, "2.1.200");
    write_executable(sandbox, &format!("{node_modules}/{name}/claude"))
}

/// The list of this sandbox: the machine may have clients where they are installed for all users.
fn installations(sandbox: &Sandbox) -> Vec<Value> {
    let all = sandbox.run(&["patch", "list", "--json"]).json()["installations"].as_array().unwrap().clone();
    all.into_iter().filter(|found| found["path"].as_str().unwrap().starts_with("[ROOT]")).collect()
}

fn listed(sandbox: &Sandbox) -> Vec<String> {
    installations(sandbox).iter().map(|found| found["path"].as_str().unwrap().to_owned()).collect()
}

/// The list for people.
fn list(sandbox: &Sandbox) -> String {
    told(&sandbox.run(&["patch", "list"]))
}

/// The part of a list that is the same on every machine.
fn told(said: &Ran) -> String {
    let mut own = false;
    let lines = said.stdout.lines().filter(|line| {
        own = if line.starts_with("    ") { own } else { line.contains("[ROOT]") };
        own
    });
    // What exactly is no executable is not the point.
    let told = lines.map(|line| line.split(" the layout of").next().unwrap_or_default().replace(PLATFORM, "[PLATFORM]") + "\n");
    told.collect()
}

/// The executable that a path leads to, as the error about its layout names it.
#[track_caller]
fn leads_to(sandbox: &Sandbox, path: &str) -> String {
    let said = sandbox.run(&["patch", "locate", path]);
    let told = said.stderr.strip_prefix("error: ").and_then(|told| told.split_once(": ctxbridge does not know the layout of"));
    told.unwrap_or_else(|| panic!("{said}")).0.to_owned()
}

/// The error that a path leads to.
#[track_caller]
fn fails(sandbox: &Sandbox, path: &str) -> String {
    let said = sandbox.run(&["patch", "locate", path]);
    assert_eq!(said.code, Some(3), "{said}");
    said.stderr.replace(PLATFORM, "[PLATFORM]")
}

#[test]
fn every_installer_s_executables_are_found() {
    let sandbox = Sandbox::new();
    let current = write_executable(&sandbox, "home/.local/share/claude/versions/2.1.330");
    write_executable(&sandbox, "home/.local/share/claude/versions/2.1.113");
    sandbox.write("home/.local/share/claude/versions/staging", b"no client");
    link(&sandbox, "home/.local/bin/claude", &current);
    link(&sandbox, "bin/claude", Path::new("../home/.local/bin/claude"));
    write_executable(&sandbox, "home/.local/share/mise/installs/claude/2.1.289/claude");
    link(&sandbox, "home/.local/share/mise/installs/claude/latest", Path::new("2.1.289"));
    let editor = |editor: &str, version: &str| format!("home/{editor}/extensions/anthropic.claude-code-{version}/resources");
    write_executable(&sandbox, &format!("{}/native-binary/claude", editor(".vscode", "2.1.267")));
    write_executable(&sandbox, &format!("{}/native-binary/claude", editor(".vscode-server", "2.1.280")));
    sandbox.install("e1b", &format!("{}/claude-code", editor(".cursor", "2.0.42")));
    write_executable(&sandbox, "home/.config/Claude/claude-code/2.1.296/claude");
    write_executable(&sandbox, "home/.local/share/uv/tools/agent/lib/python3.13/site-packages/claude_agent_sdk/_bundled/claude");
    write_executable(&sandbox, "work/.venv/lib/python3.12/site-packages/claude_agent_sdk/_bundled/claude");
    assert_snapshot!("list_native", list(&sandbox));
    let installations = installations(&sandbox);
    assert_eq!(installations[0]["on_path"], true);
    assert!(installations[1..].iter().all(|found| found["on_path"] == false));
    assert_eq!((&installations[0]["kind"], &installations[0]["version"]), (&"bun_elf".into(), &"2.1.330".into()));
}

#[test]
fn folders_that_variables_name_are_looked_into() {
    let sandbox = Sandbox::new();
    write_executable(&sandbox, "data [1]/claude/versions/2.1.200");
    client_package(&sandbox, "nvm/versions/node/v24.1.0/lib/node_modules");
    let mut command = sandbox.command(&["patch", "list"]);
    command.env("XDG_DATA_HOME", sandbox.path("data [1]")).env("NVM_DIR", sandbox.path("nvm"));
    let said = sandbox.masked(command.output().unwrap());
    assert!(said.stdout.contains("[ROOT]/data [1]/claude/versions/2.1.200 (Linux executable)"), "{said}");
    assert!(
        said.stdout.contains("/nvm/versions/node/v24.1.0/lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"),
        "{said}"
    );
}

/// npm hard-links the executable of the platform package into the client's.
#[test]
fn npm_s_executable_is_one_installation() {
    let sandbox = Sandbox::new();
    let (client, executable) =
        (client_package(&sandbox, "prefix/lib/node_modules"), platform_package(&sandbox, "prefix/lib/node_modules"));
    link(&sandbox, "prefix/bin/claude", Path::new("../lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe"));
    link(&sandbox, "bin/claude", &sandbox.path("prefix/bin/claude"));
    let run = || {
        let path = std::env::join_paths([sandbox.path("bin"), sandbox.path("prefix/bin")]).unwrap();
        told(&sandbox.masked(sandbox.command(&["patch", "list"]).env("PATH", path).output().unwrap()))
    };
    assert_snapshot!("list_npm_stub", run());
    fs::remove_file(&client).unwrap();
    fs::hard_link(&executable, &client).unwrap();
    assert_snapshot!("list_npm_linked", run());
    // A patched one is a file of its own.
    fs::remove_file(&client).unwrap();
    fs::copy(&executable, &client).unwrap();
    assert_snapshot!("list_npm_copied", run());
}

#[test]
fn pnpm_s_store_is_looked_into() {
    let sandbox = Sandbox::new();
    let global = "home/.local/share/pnpm/global/5/node_modules";
    let store = |name: &str, version: &str| format!("{global}/.pnpm/@anthropic-ai+{name}@{version}/node_modules");
    let own = store("claude-code", "2.1.200");
    let client = client_package(&sandbox, &own);
    let executable = platform_package(&sandbox, &store(&format!("claude-code-{PLATFORM}"), "2.1.200"));
    link(&sandbox, &format!("{own}/@anthropic-ai/claude-code-{PLATFORM}"), executable.parent().unwrap());
    link(&sandbox, &format!("{global}/@anthropic-ai/claude-code"), client.ancestors().nth(2).unwrap());
    let problem = fails(&sandbox, &format!("{}/{global}/@anthropic-ai/claude-code", sandbox.root().display()));
    assert!(problem.contains("claude-code-[PLATFORM]/claude: run `node \"[ROOT]/home/"), "{problem}");

    fs::remove_file(&client).unwrap();
    fs::hard_link(&executable, &client).unwrap();
    let installations = installations(&sandbox);
    assert_eq!(installations.len(), 1, "{installations:?}");
    assert!(installations[0]["path"].as_str().unwrap().ends_with("/claude-code/bin/claude.exe"));
    assert!(installations[0]["same_file"][0].as_str().unwrap().ends_with(&format!("/claude-code-{PLATFORM}/claude")));
}

#[test]
fn the_agent_sdk_s_executable_is_found_wherever_it_is_installed() {
    let sandbox = Sandbox::new();
    let sdk = "@anthropic-ai/claude-agent-sdk";
    package(&sandbox, &format!("work/node_modules/{sdk}"), sdk, "0.3.200");
    let missing = fails(&sandbox, "node_modules/@anthropic-ai/claude-agent-sdk");
    assert!(missing.contains("claude-agent-sdk-[PLATFORM]"), "{missing}");
    assert_eq!(
        installations(&sandbox)[0]["path"],
        format!("[ROOT]/work/node_modules/{sdk}"),
        "an SDK without a client is listed"
    );

    let executable = format!("work/node_modules/{sdk}-{PLATFORM}/claude");
    package(&sandbox, &format!("work/node_modules/{sdk}-{PLATFORM}"), &format!("{sdk}-{PLATFORM}"), "0.3.200");
    write_executable(&sandbox, &executable);
    assert_eq!(leads_to(&sandbox, "node_modules/@anthropic-ai/claude-agent-sdk"), format!("[ROOT]/{executable}"));
    assert_eq!(leads_to(&sandbox, "."), format!("[ROOT]/{executable}"));
    let nested = format!("work/node_modules/agent/node_modules/{sdk}-{PLATFORM}/claude");
    write_executable(&sandbox, &nested);
    assert_eq!(listed(&sandbox), [format!("[ROOT]/{executable}"), format!("[ROOT]/{nested}")]);
}

#[test]
fn folders_and_scripts_lead_to_the_executable() {
    let sandbox = Sandbox::new();
    let versions = "home/.local/share/claude/versions";
    write_executable(&sandbox, &format!("{versions}/2.1.113"));
    let root = sandbox.root().display().to_string();
    let leads_to = |path: &str| leads_to(&sandbox, &format!("{root}/{path}"));
    for folder in [versions, "home/.local/share/claude"] {
        assert_eq!(leads_to(folder), format!("[ROOT]/{versions}/2.1.113"));
    }
    write_executable(&sandbox, "brew/Caskroom/claude-code/2.1.231/claude");
    assert_eq!(leads_to("brew/Caskroom/claude-code"), "[ROOT]/brew/Caskroom/claude-code/2.1.231/claude");
    write_executable(&sandbox, "extension/resources/native-binary/claude");
    assert_eq!(leads_to("extension"), "[ROOT]/extension/resources/native-binary/claude");

    let executable = platform_package(&sandbox, "npm/node_modules");
    let client = client_package(&sandbox, "npm/node_modules");
    let named = format!("[ROOT]/npm/node_modules/@anthropic-ai/claude-code-{PLATFORM}/claude");
    assert_eq!(leads_to(&format!("npm/node_modules/@anthropic-ai/claude-code-{PLATFORM}")), named);
    assert_eq!(
        leads_to("npm/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs"),
        named,
        "the script starts it without the stub"
    );
    fs::copy(&executable, &client).unwrap();
    let client = "npm/node_modules/@anthropic-ai/claude-code/bin/claude.exe";
    assert_eq!(leads_to("npm"), format!("[ROOT]/{client}"));

    // What npm writes on Windows, for three shells.
    let path = "node_modules/@anthropic-ai/claude-code/bin/claude.exe";
    sandbox.write("npm/claude", format!("#!/bin/sh\nbasedir=$(dirname \"$0\")\nexec \"$basedir/{path}\"   \"$@\"\n"));
    sandbox.write("npm/CLAUDE.CMD", format!("@ECHO off\r\n\"%dp0%\\{}\"   %*\r\n", path.replace('/', "\\")));
    sandbox.write("npm/claude.ps1", format!("#!/usr/bin/env pwsh\n& \"$basedir/{path}\"   $args\n"));
    for launcher in ["claude", "CLAUDE.CMD", "claude.ps1"] {
        assert_eq!(leads_to(&format!("npm/{launcher}")), format!("[ROOT]/{client}"));
    }
}

#[test]
fn what_leads_to_no_executable_says_what_to_do() {
    let sandbox = Sandbox::new();
    let root = sandbox.root().display().to_string();
    let fails = |path: &str| fails(&sandbox, &format!("{root}/{path}"));
    for version in ["2.1.9", "2.1.113"] {
        write_executable(&sandbox, &format!("home/.local/share/claude/versions/{version}"));
    }
    assert_snapshot!("target_several", fails("home/.local/share/claude/versions"));
    let package = "npm/node_modules/@anthropic-ai/claude-code";
    client_package(&sandbox, "npm/node_modules");
    assert_snapshot!("target_placeholder", fails(package));
    assert_snapshot!("target_wrapper", fails(&format!("{package}/cli-wrapper.cjs")));
    platform_package(&sandbox, "npm/node_modules");
    assert_snapshot!("target_placeholder_beside", fails(&format!("{package}/bin/claude.exe")));
    platform_package(&sandbox, &format!("{package}/node_modules"));
    assert_snapshot!("target_placeholder_twice", fails(package));
    link(&sandbox, "shims/claude", &write_executable(&sandbox, "programs/mise"));
    assert_snapshot!("target_mise", fails("shims/claude"));
}

/// The shell's `claude` is listed whatever it is, or nobody would learn why it cannot be patched.
#[test]
fn what_the_shell_runs_is_listed_with_its_problem() {
    let sandbox = Sandbox::new();
    sandbox.write("bin/claude", b"#!/bin/sh\nexec asdf exec claude \"$@\"\n");
    let listed = |sandbox: &Sandbox| {
        let [found] = &installations(sandbox)[..] else { panic!("{}", list(sandbox)) };
        assert_eq!((&found["on_path"], &found["kind"], &found["state"]), (&true.into(), &Value::Null, &Value::Null));
        found["problem"].as_str().unwrap().to_owned()
    };
    assert_snapshot!("list_launcher", listed(&sandbox));
    fs::remove_file(sandbox.path("bin/claude")).unwrap();
    link(&sandbox, "bin/claude", Path::new("../gone"));
    assert_snapshot!("list_dangling", listed(&sandbox));
}
