//! Time of the `patch` commands, against bare work on the same file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use ctxbridge::client::releases;
use ctxbridge::demo;
use ctxbridge::patch::install::Target;

use super::measure::{Pairs, Sample, measure, program};

/// The table for a release: `native` for an executable.
pub fn run(release: &str, runs: usize, native: bool) -> Result<bool> {
    let client = Target::at(&releases::fetch_client(release)?)?;
    ensure!(client.kind.is_native() == native, "{release} is a {}: use the other benchmark", client.kind);
    let scratch = tempfile::tempdir()?;
    let copy = demo::copy_client(&client, &scratch.path().join("client"))?;
    let bench = PatchStep { client: copy, data: scratch.path().join("data"), runs };
    let size = fs::metadata(&bench.client)?.len() as f64 / 1e6;
    println!("\n{release} ({size:.0} MB), {runs} pairs of runs, medians [lowest – highest]\n");
    println!("| command | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    if native {
        bench.native()?
    } else {
        bench.script()?
    }
    Ok(true)
}

struct PatchStep {
    client: PathBuf,
    data: PathBuf,
    runs: usize,
}

/// One line of the table.
struct PatchRow<'a> {
    name: &'a str,
    command: &'a [&'a str],
    reference: &'a str,
    goal: &'a str,
}

impl PatchStep {
    fn script(&self) -> Result<()> {
        let nothing = || Ok(());
        let apply: &[&str] = &["patch", "apply", "--no-smoke"];
        let row = |name, command, reference, goal| PatchRow { name, command, reference, goal };
        self.row(&row("patch apply --no-smoke", apply, "parse", "≤ 2.0"), &nothing, &|| self.revert())?;
        self.row(&row("patch locate", &["patch", "locate"], "parse", "≤ 1.5"), &nothing, &nothing)?;
        self.ctxbridge(apply)?;
        self.row(&row("patch verify", &["patch", "verify"], "hash", "≤ 3.0"), &|| self.touch(), &nothing)
    }

    fn native(&self) -> Result<()> {
        let nothing = || Ok(());
        let apply: &[&str] = &["patch", "apply", "--no-smoke"];
        let row = |name, command, reference, goal| PatchRow { name, command, reference, goal };
        self.row(&row("patch apply --no-smoke", apply, "copy", "≤ 2.0"), &nothing, &|| self.revert())?;
        self.row(&row("patch locate", &["patch", "locate"], "hash", "≤ 0.5 s"), &nothing, &nothing)?;
        let original = self.client.with_extension("original");
        fs::copy(&self.client, &original)?;
        self.ctxbridge(apply)?;
        self.row(&row("patch verify", &["patch", "verify"], "hash", "≤ 1.2"), &|| self.touch(), &nothing)?;
        // Whoever verifies a file that was written just now reads it again.
        std::thread::sleep(Duration::from_secs(3));
        self.ctxbridge(&["patch", "verify"])?;
        self.row(&row("patch verify, unchanged", &["patch", "verify"], "hash", "< 20 ms"), &nothing, &nothing)?;
        let home = tempfile::tempdir()?;
        let help = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("--help").env_clear().env("HOME", home.path()).env("DISABLE_AUTOUPDATER", "1");
            measure(command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"))
        };
        self.pairs("claude --help, patched", "claude --help", "≤ 1.10", &|| help(&original), &|| help(&self.client), &nothing)
    }

    fn row(&self, row: &PatchRow<'_>, before: &dyn Fn() -> Result<()>, after: &dyn Fn() -> Result<()>) -> Result<()> {
        let reference = format!("{} of the file", row.reference);
        let own = || {
            before()?;
            self.ctxbridge(row.command)
        };
        self.pairs(row.name, &reference, row.goal, &|| self.reference(row.reference), &own, after)
    }

    fn pairs(
        &self,
        name: &str,
        reference: &str,
        goal: &str,
        base: &dyn Fn() -> Result<Sample>,
        own: &dyn Fn() -> Result<Sample>,
        after: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut pairs = Pairs::default();
        // The first pair warms the file cache and is not counted.
        for run in 0..=self.runs {
            let base = base()?;
            let own = own()?;
            after()?;
            if run > 0 {
                pairs.push(own, base);
            }
        }
        pairs.print(&format!("`{name}`"), reference, goal);
        Ok(())
    }

    /// Makes the file look changed, so that it is read again.
    fn touch(&self) -> Result<()> {
        Ok(fs::File::open(&self.client)?.set_modified(SystemTime::now())?)
    }

    fn reference(&self, what: &str) -> Result<Sample> {
        measure(Command::new(program("xtask")).arg(format!("reference-{what}")).arg(&self.client))
    }

    fn ctxbridge(&self, arguments: &[&str]) -> Result<Sample> {
        measure(Command::new(program("ctxbridge")).args(arguments).arg(&self.client).env("CTXBRIDGE_DATA_DIR", &self.data))
    }

    fn revert(&self) -> Result<()> {
        self.ctxbridge(&["patch", "revert"]).map(drop)
    }
}
