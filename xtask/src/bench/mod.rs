//! `cargo xtask bench`: whole processes, measured in turn with a reference, printed as ratios.
//!
//! The machine's speed drifts, so absolute times say little; each run of a command is paired with a run of its reference right
//! before it, and the median of the pairs' ratios is what counts.

mod archive;
#[cfg(unix)]
mod beside;
mod hooks;
mod jsonl;
mod learn;
mod measure;
mod patch;
#[cfg(unix)]
mod postgres;
mod prune;
mod real;
mod recall;
mod redact;
mod reference;
mod retrieval;
mod scratch;
mod search;
mod tiers;
mod vectors;

use anyhow::Result;
use clap::Subcommand;

use crate::steps::Steps;
use crate::tools::cargo;

pub use reference::{ReferenceFile, copy, hash, json, parse};

#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// `patch apply`, `verify` and `locate` against bare work on the same `cli.js`: a parse, a hash
    Patch {
        /// The release
        #[arg(long, default_value = "2.1.112")]
        release: String,
        /// Pairs of runs for each command
        #[arg(long, default_value_t = 15)]
        runs: usize,
    },
    /// The same for an executable, against a copy and a hash; and how long the patched client takes to start
    Native {
        /// The release
        #[arg(long, default_value = "2.1.330")]
        release: String,
        /// Pairs of runs for each command
        #[arg(long, default_value_t = 9)]
        runs: usize,
    },
    /// The hooks that archive and restore, and an import, on made-up sessions
    Archive(archive::BenchArchiveArgs),
    /// Real transcripts through the archive: what comes back, what is understood, and how long it takes
    Real(real::RealArgs),
    /// Cost and losses of pruning on real transcripts, simulated; nothing is timed
    Prune(prune::BenchPruneArgs),
    /// The hooks that a user waits for at each prompt and tool, in a large archive with many bundles
    Hooks(hooks::BenchHooksArgs),
    /// Opening an archive in JSON Lines, and adding to it
    Jsonl(jsonl::JsonlArgs),
    /// Extracting learnings, in answers and in an archived session; or how precise that is on real transcripts
    Learn(learn::LearnArgs),
    /// A search in a large archive, as a process and in a server
    Search(search::BenchSearchArgs),
    /// Sending an archive to a PostgreSQL server, and searching one there
    #[cfg(unix)]
    Postgres(postgres::PostgresArgs),
    /// Compressing old sessions again, and moving them between tiers
    Tiers(tiers::TiersArgs),
    /// Recall of answers to questions, by words, by meaning and by both; nothing is timed
    Retrieval(retrieval::RetrievalArgs),
    /// Redaction: time of ordinary and of hostile texts; with a file of labeled texts, secrets that leak
    Redact(redact::RedactArgs),
    /// Usefulness of the turns that are added to prompts unasked; nothing is timed
    Recall(recall::BenchRecallArgs),
    /// The file of the nearest vectors against comparing all of them, on vectors of real texts
    Vectors(vectors::VectorsArgs),
}

pub fn run(args: &BenchArgs) -> Result<bool> {
    #[cfg(unix)]
    if let Bench::Postgres(args) = &args.what {
        // Nothing of it is in another process but the server.
        return postgres::run(args);
    }
    let needs_release = match &args.what {
        Bench::Learn(args) => args.corpus.is_none(),
        what => !matches!(
            what,
            Bench::Jsonl(_)
                | Bench::Real(_)
                | Bench::Prune(_)
                | Bench::Redact(_)
                | Bench::Retrieval(_)
                | Bench::Recall(_)
                | Bench::Vectors(_)
        ),
    };
    if needs_release {
        Steps::default().run("building in release mode", cargo().args(["build", "--release", "--workspace"]), "")?;
    }
    match &args.what {
        Bench::Patch { release, runs } => patch::run(release, *runs, false),
        Bench::Native { release, runs } => patch::run(release, *runs, true),
        Bench::Archive(args) => archive::run(args),
        Bench::Hooks(args) => hooks::run(args),
        Bench::Jsonl(args) => jsonl::run(args),
        Bench::Real(args) => real::run(args),
        Bench::Prune(args) => prune::run(args),
        Bench::Learn(args) => learn::run(args),
        Bench::Search(args) => search::run(args),
        #[cfg(unix)]
        Bench::Postgres(args) => postgres::run(args),
        Bench::Tiers(args) => tiers::run(args),
        Bench::Retrieval(args) => retrieval::run(args),
        Bench::Recall(args) => recall::run(args),
        Bench::Redact(args) => redact::run(args),
        Bench::Vectors(args) => vectors::run(args),
    }
}
