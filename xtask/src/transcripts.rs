//! `cargo xtask transcripts`: made-up sessions, for tests, benchmarks and simulations.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Subcommand, builder::PossibleValuesParser};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

#[derive(Debug, clap::Args)]
pub struct TranscriptsArgs {
    #[command(subcommand)]
    what: Transcripts,
}

#[derive(Debug, Subcommand)]
enum Transcripts {
    /// Write a session, in the line format of the newest client
    ///
    /// Example: cargo xtask transcripts generate --kind chat --messages 50000 --seed 1 --out /tmp/sessions
    Generate {
        /// The kind of session
        #[arg(long, value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)))]
        kind: String,
        /// Lines of type user and assistant, those of sub-agents and copies not counted
        #[arg(long)]
        messages: u64,
        /// The same seed gives the same bytes
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Size of the session's own file: bytes, or with K, M or G
        #[arg(long, value_name = "SIZE", value_parser = size)]
        bytes: Option<u64>,
        /// The folder for it
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Say what was made in JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: &TranscriptsArgs) -> Result<bool> {
    let Transcripts::Generate { kind, messages, seed, bytes, out, json } = &args.what;
    let kind = Kind::from_name(kind).context("no such kind")?;
    let spec = Spec { kind, messages: *messages, seed: *seed, bytes: *bytes };
    let made = generate(&spec, out).with_context(|| format!("cannot write to {}", out.display()))?;
    if *json {
        println!("{}", serde_json::to_string(&made)?);
        return Ok(true);
    }
    for session in &made.sessions {
        println!(
            "{}: {} messages, {} human turns, {} answers, {} tool calls, {} compactions, {} sub-agents, {:.1} MB",
            session.path.display(),
            session.messages,
            session.human_turns,
            session.answers,
            session.tool_calls,
            session.compactions,
            session.agents,
            (session.bytes + session.agent_bytes) as f64 / 1e6
        );
    }
    Ok(true)
}

/// `90M` as bytes; thousands, not 1024s.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.trim_end_matches(['K', 'M', 'G']).len());
    let unit = match unit {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(format!("{unit} is no unit; use K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{digits} is no whole number"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text} is too much"))
}
