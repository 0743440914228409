//! `cargo xtask test`: everything that CI runs.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use anyhow::Result;
#[cfg(unix)]
use ctxbridge::team::postgres::{ConnectionSettings, PostgresStore, TlsMode};
use ctxbridge_testkit::is_full_run;
#[cfg(unix)]
use ctxbridge_testkit::postgres::{Server, TEMPLATE, TestDatabase, VARIABLE};
use tempfile::TempDir;

use crate::releases::fetch_tested;
use crate::steps::Steps;
use crate::tools::{actionlint, cargo, require_node, runs, shellcheck, target, typos};

/// Memory that the tests need: they keep some releases of the client there at once.
#[cfg(target_os = "linux")]
const SCRATCH_BYTES: u64 = 4 << 30;

#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// Run only the tests: no formatting, spelling, lints, documentation and licenses
    #[arg(long)]
    tests_only: bool,
}

pub fn run(args: &TestArgs) -> Result<bool> {
    require_node()?;
    let mut steps = Steps::default();
    let mut closing = Vec::new();
    let done = all(args, &mut steps, &mut closing);
    steps.print();
    // Whoever reads the end of a log looks for how the tests came out.
    eprintln!();
    closing.iter().for_each(|line| eprintln!("{line}"));
    done.map(|()| true)
}

fn all(args: &TestArgs, steps: &mut Steps, closing: &mut Vec<String>) -> Result<()> {
    steps.within("releases of the client", fetch_tested)?;
    if !args.tests_only {
        steps.within("picture of the crates", crate::crates::check)?;
        steps.run("formatting", cargo().args(["fmt", "--all", "--check"]), "Run `cargo fmt --all`.")?;
        let mut spelling = typos(steps)?;
        steps.run("spelling", &mut spelling, "typos.toml lists the words that are right here.")?;
        let mut scripts = shellcheck(steps)?;
        let mut workflows = actionlint(steps)?;
        // Scripts in workflows are shell, too.
        workflows.arg("-shellcheck").arg(scripts.get_program());
        steps.run("workflows", &mut workflows, "")?;
        steps.run(
            "shell scripts",
            scripts.args([".ci/run", "packaging/install.sh", "plugin/bin/ctxbridge"]),
            "Each remark has a page of its own.",
        )?;
        crate::book::check(steps)?;
        if !lints_while_compiling() {
            let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
            steps.run("lints", cargo().args(clippy), "Each warning says what to do.")?;
            let mut documentation = cargo();
            documentation.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
            steps.run("documentation", &mut documentation, "")?;
        }
        crate::licenses::check(steps)?;
    }
    if runs(cargo().args(["nextest", "--version"])) { with_nextest(steps, closing) } else { with_cargo(steps, closing) }
}

/// `true` where our crates are compiled by a compiler that lints them on the way, as in `.ci/run`. Lints and documentation as steps of their
/// own read all other crates once more, which takes two minutes.
fn lints_while_compiling() -> bool {
    let wrapper = std::env::var_os("RUSTC_WORKSPACE_WRAPPER");
    wrapper.is_some_and(|wrapper| Path::new(&wrapper).file_stem().is_some_and(|name| name == "clippy-driver"))
}

/// Runs the tests with cargo-nextest: in processes of their own, and with a report.
fn with_nextest(steps: &mut Steps, closing: &mut Vec<String>) -> Result<()> {
    steps.run("build of tests", cargo().args(["nextest", "run", "--workspace", "--no-run"]), "")?;
    let mut command = cargo();
    // What failed first is seldom all that fails, and a run takes long.
    command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    if is_full_run() {
        command.args(["--run-ignored", "all"]);
    }
    let ran = run_tests(steps, &mut command, &mut |line| {
        if !closing.is_empty() || line.trim_start().starts_with("Summary [") {
            closing.push(line.to_owned());
        }
    });
    if let Ok(report) = std::fs::read_to_string(target().join("nextest/default/junit.xml")) {
        steps.add_tests(&report);
    }
    ran
}

/// Runs the tests with cargo alone.
fn with_cargo(steps: &mut Steps, closing: &mut Vec<String>) -> Result<()> {
    let targets = ["--workspace", "--lib", "--bins", "--tests"];
    steps.run("build of tests", cargo().arg("test").args(targets).arg("--no-run"), "")?;
    let mut command = cargo();
    command.arg("test").args(targets).arg("--no-fail-fast");
    if is_full_run() {
        command.args(["--", "--include-ignored"]);
    }
    let ran = run_tests(steps, &mut command, &mut |_| {});
    closing.push(format!("test programs: {}", if ran.is_ok() { "all passed" } else { "some failed, see above" }));
    ran
}

fn run_tests(steps: &mut Steps, command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<()> {
    let scratch = scratch()?;
    if let Some(scratch) = &scratch {
        command.env("TMPDIR", scratch.path());
    }
    #[cfg(unix)]
    let _postgres = one_postgres(command, scratch.as_ref().map_or(&std::env::temp_dir(), TempDir::path))?;
    steps.run_with_lines("tests", command, "A test that fails alone, too, is a bug: please report it.", line)
}

/// A folder in memory for what the tests write, where the system has one with room: they wait for a disk most of the time. None
/// of them is about what survives a loss of power.
fn scratch() -> Result<Option<TempDir>> {
    let memory = Path::new("/dev/shm");
    if std::env::var_os("TMPDIR").is_some() || !has_room(memory) {
        return Ok(None);
    }
    let folder = tempfile::Builder::new().prefix("ctxbridge-tests-").tempdir_in(memory).context("cannot use /dev/shm")?;
    // Some tests act as another user.
    #[cfg(unix)]
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777))?;
    Ok(Some(folder))
}

#[cfg(target_os = "linux")]
fn has_room(folder: &Path) -> bool {
    let may_run = |found: &rustix::fs::StatVfs| !found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    rustix::fs::statvfs(folder).is_ok_and(|found| may_run(&found) && found.f_bavail * found.f_frsize >= SCRATCH_BYTES)
}

#[cfg(not(target_os = "linux"))]
fn has_room(_: &Path) -> bool {
    false
}

/// Starts one server for all tests that need one, unless one is named: each of them would start its own. A database with all tables is
/// there for them to copy, which takes the server a fifth of the work of making them. Each copy is hundreds of files, so
/// the server's folder is in `place`, where the tests write.
#[cfg(unix)]
fn one_postgres(tests: &mut Command, place: &Path) -> Result<Option<(TestDatabase, Server)>> {
    if std::env::var_os(VARIABLE).is_some_and(|url| !url.is_empty()) {
        return Ok(None);
    }
    let hint = "pip has to be able to fetch it once; or set CTXBRIDGE_TEST_PG to the URL of a superuser of another server";
    // Databases are gone before there is anything to vacuum.
    let server = Server::start_in(place, &ctxbridge::common::paths::cache_dir()?, &["autovacuum=off", "max_wal_size=128MB"])
        .with_context(|| format!("no PostgreSQL for the tests: {hint}"))?;
    let address = server.address();
    tests.env(VARIABLE, address.url("postgres", &address.superuser, &address.password));
    let template = TestDatabase::on(address)?;
    let settings = ConnectionSettings { ssl: TlsMode::Off, ..ConnectionSettings::from_url(&template.url())? };
    drop(PostgresStore::connect(settings)?);
    tests.env(TEMPLATE, &template.name);
    Ok(Some((template, server)))
}
