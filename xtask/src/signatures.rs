//! `cargo xtask signatures`: do the patterns still find every site, under the names that other tools found?

use std::time::Instant;

use anyhow::Result;
use ctxbridge::client::releases::{self, Release};
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::check::{CheckState, CheckedRelease, check};
use serde::Serialize;
use serde_json::json;

use crate::releases::{DiskBudget, fetch};
use crate::roundtrip;
use crate::tools::require_node;

#[derive(Debug, clap::Args)]
pub struct SignaturesArgs {
    /// Check the newest published release instead of the list
    #[arg(long, conflicts_with = "all")]
    latest: bool,
    /// Check all releases of the list; without this, of the executables only those that the tests use
    #[arg(long)]
    all: bool,
    /// Also patch a copy of each, run it where it can run, and put it back
    #[arg(long, conflicts_with = "latest")]
    apply: bool,
    #[command(flatten)]
    budget: DiskBudget,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SignatureRow {
    package: String,
    version: String,
    era: Option<String>,
    elapsed_ms: u64,
    sites: Vec<SiteRow>,
    problems: Vec<String>,
    /// Result of patching it.
    applied: Option<String>,
}

#[derive(Serialize)]
struct SiteRow {
    site: String,
    signature: String,
    names: std::collections::BTreeMap<String, String>,
}

pub fn run(args: &SignaturesArgs) -> Result<bool> {
    require_node()?;
    let catalog = Catalog::embedded()?;
    let mut rows = Vec::new();
    if args.latest {
        let version = releases::newest()?;
        let client = releases::fetch_client(&version)?;
        args.budget.keep_to(std::slice::from_ref(&client))?;
        let begun = Instant::now();
        let package = releases::native_package()?;
        rows.push(match check(&catalog, &client) {
            Ok(checked) => row(&package, &version, None, begun, &checked),
            Err(error) => failed(&package, &version, None, begun, error.to_string()),
        });
    } else {
        for release in releases::known().iter().filter(|release| args.all || release.tested || !release.is_native()) {
            let path = fetch(release)?;
            args.budget.keep_to(std::slice::from_ref(&path))?;
            let begun = Instant::now();
            let mut row = match check(&catalog, &path) {
                Ok(checked) => row(&release.package, &release.version.to_string(), Some(&release.era), begun, &checked),
                Err(error) => {
                    failed(&release.package, &release.version.to_string(), Some(&release.era), begun, error.to_string())
                }
            };
            compare(release, &mut row);
            if args.apply {
                match roundtrip::run(&path, &release.sha256) {
                    Ok(applied) => row.applied = Some(applied),
                    Err(error) => row.problems.push(format!("{error:#}")),
                }
            }
            if !args.json {
                tell(&row);
            }
            rows.push(row);
        }
    }
    let drifted = rows.iter().filter(|row| !row.problems.is_empty()).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json!({ "releases": rows, "drifted": drifted }))?);
    } else {
        if args.latest {
            rows.iter().for_each(tell);
        }
        let sites: usize = rows.iter().map(|row| row.sites.len()).sum();
        println!("{} releases, {sites} sites, {drifted} drifted", rows.len());
    }
    Ok(drifted == 0)
}

fn row(package: &str, version: &str, era: Option<&str>, begun: Instant, checked: &CheckedRelease) -> SignatureRow {
    let sites = checked.patches.iter().flat_map(|patch| &patch.sites);
    let drifted = checked.patches.iter().filter(|patch| patch.state == CheckState::Drift);
    let mut problems: Vec<String> =
        drifted.map(|patch| format!("{}: {}", patch.id, patch.reason.as_deref().unwrap_or("drift"))).collect();
    if checked.patches.iter().all(|patch| patch.state == CheckState::NotApplicable) {
        problems.push("no patch is for this release".to_owned());
    }
    SignatureRow {
        package: package.to_owned(),
        version: version.to_owned(),
        era: era.map(str::to_owned),
        elapsed_ms: begun.elapsed().as_millis() as u64,
        sites: sites
            .map(|site| SiteRow { site: site.site.clone(), signature: site.signature.clone(), names: site.names.clone() })
            .collect(),
        problems,
        applied: None,
    }
}

fn failed(package: &str, version: &str, era: Option<&str>, begun: Instant, problem: String) -> SignatureRow {
    let elapsed_ms = begun.elapsed().as_millis() as u64;
    let (package, version, era) = (package.to_owned(), version.to_owned(), era.map(str::to_owned));
    SignatureRow { package, version, era, elapsed_ms, sites: Vec::new(), problems: vec![problem], applied: None }
}

/// The names have to be those that other tools found.
fn compare(release: &Release, row: &mut SignatureRow) {
    for (site, expected) in &release.sites {
        let Some(found) = row.sites.iter().find(|found| found.site == *site) else {
            row.problems.push(format!("{site} was not found"));
            continue;
        };
        for (metavariable, expected) in expected {
            let found = found.names.get(metavariable);
            if found != Some(expected) {
                let found = found.map_or("nothing", String::as_str);
                row.problems.push(format!("{site}: {metavariable} is {found}, not {expected}"));
            }
        }
    }
}

fn tell(row: &SignatureRow) {
    let package = row.package.rsplit('/').next().unwrap_or_default();
    let sites: Vec<String> = row.sites.iter().map(|site| format!("{}[{}]", site.site, site.signature)).collect();
    let verdict = if row.problems.is_empty() { "ok" } else { "DRIFT" };
    let era = row.era.as_deref().unwrap_or("?");
    println!("{verdict:<6}{package:<27}{:<9}{era:<5}{:>5} ms  {}", row.version, row.elapsed_ms, sites.join(" "));
    if let Some(applied) = &row.applied {
        println!("      {applied}");
    }
    for problem in &row.problems {
        println!("      {problem}");
    }
}
