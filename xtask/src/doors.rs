//! `cargo xtask doors`: does the client still ask plugins before it compacts, take the answer, and keep it over a resume?

use std::path::Path;

use anyhow::{Context, Result};
use ctxbridge::client::releases;
use ctxbridge::client_mod::proof::prove;
use ctxbridge::patch::install::Target;

use crate::tools;

/// Releases at which something changed, and one of each kind between.
const RELEASES: [&str; 4] = ["2.1.280", "2.1.295", "2.1.311", "2.1.330"];

#[derive(Debug, clap::Args)]
pub struct DoorsArgs {
    /// Check the newest published release instead of the list
    #[arg(long)]
    latest: bool,
}

pub fn run(args: &DoorsArgs) -> Result<bool> {
    let program = tools::built_program()?;
    let versions = if args.latest { vec![releases::newest()?] } else { RELEASES.map(str::to_owned).to_vec() };
    println!("| release | loaded | answered | summaries | tokens before | after | resumed | holds |");
    println!("| --- | --- | --- | --: | --: | --: | --: | --- |");
    let mut all_hold = true;
    for version in versions {
        let proof = proved(&version, &program)?;
        all_hold &= proof.holds();
        println!(
            "| {version} | {} | {} | {} | {} | {} | {} | {} |",
            proof.loaded,
            proof.answered,
            proof.summaries,
            proof.tokens_before,
            proof.tokens_after,
            proof.tokens_resumed,
            proof.holds()
        );
        proof.refused.iter().for_each(|refused| println!("refused: {refused}"));
    }
    Ok(all_hold)
}

fn proved(version: &str, program: &Path) -> Result<ctxbridge::client_mod::proof::ModProof> {
    let client = releases::fetch_client(version)?;
    let target = Target::at(&client).with_context(|| client.display().to_string())?;
    Ok(prove(&target, program)?)
}
