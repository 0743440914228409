//! Redaction: its time per megabyte, for ordinary texts and for those that somebody wrote to keep it busy; and what it leaks.

mod hostile;
mod leaks;
mod times;

use std::path::PathBuf;

use anyhow::Result;

/// Seconds a megabyte that no text may take.
const MAX_SECONDS: f64 = 0.2;

#[derive(Debug, clap::Args)]
pub struct RedactArgs {
    /// Labeled texts, a list in JSON: `kind`, `class`, `text`, and in `secret` what must be gone; innocent texts have none
    file: Option<PathBuf>,
    /// Print the texts of leaks, and all hostile texts
    #[arg(short, long)]
    verbose: bool,
    /// Only hostile texts whose piece has this in it
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub fn run(args: &RedactArgs) -> Result<bool> {
    if let Some(file) = &args.file {
        leaks::print(file, args.verbose)?;
        println!();
    }
    if cfg!(debug_assertions) {
        eprintln!("as built for tests; `cargo run --release -p xtask -- bench redact` measures what users have");
    }
    times::print(args.only.as_deref(), args.verbose)
}
