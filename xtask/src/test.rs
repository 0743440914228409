//! `cargo xtask test`: everything that CI runs.

#[cfg(unix)]
use anyhow::Context as _;
use anyhow::Result;
#[cfg(unix)]
use ctxbridge_testkit::postgres::{Server, VARIABLE};

use crate::releases::fetch_tested;
use crate::tools::{cargo, cargo_deny, require_node, runs, step};

#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// Only the tests, no formatting, lints and licences
    #[arg(long)]
    tests_only: bool,
}

pub fn run(args: &TestArgs) -> Result<bool> {
    require_node()?;
    fetch_tested()?;
    if !args.tests_only {
        step("formatting", cargo().args(["fmt", "--all", "--check"]), "`cargo fmt --all` mends it.")?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        step("lints", cargo().args(clippy), "Each warning says what to do.")?;
        step(
            "documentation",
            cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"),
            "",
        )?;
        // Advisories come from a database that not every machine can reach, and change without us: the nightly workflow asks them.
        let deny = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
        step("licences, duplicates, sources", cargo_deny()?.args(deny), "deny.toml says what is allowed.")?;
    }
    let nextest = runs(cargo().args(["nextest", "--version"]));
    let tests: &[&str] =
        if nextest { &["nextest", "run", "--workspace"] } else { &["test", "--workspace", "--lib", "--bins", "--tests"] };
    let mut command = cargo();
    // What failed first is seldom all that fails, and a run takes long.
    command.args(tests).arg("--no-fail-fast");
    #[cfg(unix)]
    let _server = one_postgres(&mut command)?;
    step("tests", &mut command, "A test that fails alone, too, is a bug: please report it.")?;
    Ok(true)
}

/// One server for all tests that need one, unless one is named: each of them would start its own.
#[cfg(unix)]
fn one_postgres(tests: &mut std::process::Command) -> Result<Option<Server>> {
    if std::env::var_os(VARIABLE).is_some_and(|url| !url.is_empty()) {
        return Ok(None);
    }
    let hint = "pip has to be able to fetch it once; or set CTXBRIDGE_TEST_PG to the URL of a superuser of another server";
    let server = Server::start_new(&ctxbridge::common::paths::cache_dir()?)
        .with_context(|| format!("no PostgreSQL for the tests: {hint}"))?;
    let address = server.address();
    tests.env(VARIABLE, address.url("postgres", &address.superuser, &address.password));
    Ok(Some(server))
}
