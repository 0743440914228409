use super::*;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::super::npm::write;

/// Packages of a release, and a folder that they are installed into.
struct Packages {
    root: TempDir,
}

impl Packages {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("npm ").tempdir().unwrap();
        let release = Release::packed(&TARGETS);
        write(&Archives::read(release.path(), false).unwrap(), &root.path().join("packages")).unwrap();
        for name in ["home", "project"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    fn package(&self, name: &str) -> PathBuf {
        self.root.path().join("packages").join(name)
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn of_host(&self) -> PathBuf {
        self.package(&format!("ctxbridge-{}-{}", host().npm_os, host().npm_cpu))
    }

    fn npm(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("npm");
        command.args(arguments).args(["--offline", "--no-audit", "--no-fund", "--no-update-notifier"]);
        command.current_dir(self.project()).env("HOME", self.root.path().join("home"));
        // Under a test run by npm, it would take its settings from there.
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().to_lowercase().starts_with("npm_")) {
            command.env_remove(key);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Packs and installs packages as npm does it with those of a registry.
    fn install(&self, folders: &[PathBuf]) {
        let pack = |folder: &PathBuf| self.npm(&["pack", "--silent", folder.to_str().unwrap()]).trim().to_owned();
        let tarballs: Vec<String> = folders.iter().map(|folder| format!("./{}", pack(folder))).collect();
        fs::write(self.project().join("package.json"), "{}").unwrap();
        let tarballs: Vec<&str> = tarballs.iter().map(String::as_str).collect();
        self.npm(&[&["install"], tarballs.as_slice()].concat());
    }

    fn installed(&self) -> Command {
        let mut command = Command::new(self.project().join("node_modules/.bin/ctxbridge"));
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.installed().args(arguments).output().unwrap()
    }
}

#[test]
fn packages_name_their_system_and_run_nothing() {
    let packages = Packages::new();
    let read = |folder: &Path| -> Value { serde_json::from_slice(&fs::read(folder.join("package.json")).unwrap()).unwrap() };
    let main = read(&packages.package("ctxbridge"));
    assert_eq!(main["optionalDependencies"].as_object().unwrap().len(), TARGETS.len());
    for target in &TARGETS {
        let package = read(&packages.package(&format!("ctxbridge-{}-{}", target.npm_os, target.npm_cpu)));
        assert_eq!(package["os"], serde_json::json!([target.npm_os]));
        assert_eq!(package["cpu"], serde_json::json!([target.npm_cpu]));
        // An exact version: a launcher and a binary of two releases have never been tried together.
        assert_eq!(main["optionalDependencies"][package["name"].as_str().unwrap()], VERSION);
        assert!(package.get("scripts").is_none() && package.get("libc").is_none() && package["version"] == VERSION);
    }
    assert!(main.get("scripts").is_none() && main["version"] == VERSION);
}

#[test]
fn an_installed_package_runs_and_passes_on_arguments_and_exit_codes() {
    let packages = Packages::new();
    packages.install(&[packages.package("ctxbridge"), packages.of_host()]);
    let said = packages.run(&["say", "a b", "", "*", "--version"]);
    assert_eq!(String::from_utf8_lossy(&said.stdout), "[a b][][*][--version]", "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(packages.run(&["exit", "0"]).status.code(), Some(0));
    assert_eq!(packages.run(&["exit", "3"]).status.code(), Some(3));
}

#[test]
fn signals_reach_the_program_and_its_end_is_passed_on() {
    let packages = Packages::new();
    packages.install(&[packages.package("ctxbridge"), packages.of_host()]);
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("KILL", 9)] {
        assert_eq!(packages.run(&["die", name]).status.signal(), Some(number), "{name}");
    }
    for name in ["INT", "TERM", "HUP"] {
        let ready = packages.root.path().join(name);
        let mut child = packages.installed().arg("wait").arg(&ready).spawn().unwrap();
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was ready");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(42), "{name}");
    }
}

#[test]
fn a_missing_binary_is_said_in_two_lines() {
    let packages = Packages::new();
    packages.install(&[packages.package("ctxbridge")]);
    let output = packages.run(&["--version"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.lines().count() == 2 && said.contains(&host().npm_package()) && said.contains("--include=optional"), "{said}");

    // A system that no release is for.
    let preload = packages.root.path().join("preload.js");
    fs::write(&preload, "Object.defineProperty(process, 'arch', { value: 's390x' });").unwrap();
    let output = Command::new("node")
        .arg("--require")
        .arg(preload)
        .arg(packages.package("ctxbridge").join("bin/ctxbridge.js"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.lines().count() == 2 && said.contains("s390x") && said.contains("linux-x64, linux-arm64"), "{said}");
}
