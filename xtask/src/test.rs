//! `cargo xtask test`: everything that CI runs.

use anyhow::Result;

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
    step("tests", cargo().args(tests), "A test that fails alone, too, is a bug: please report it.")?;
    Ok(true)
}
