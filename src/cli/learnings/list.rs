//! `ctxbridge learnings list` and `search`

use serde_json::json;

use super::{LearningFilterArgs, as_json, tell};
use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::Output;
use ctxbridge_archive::learn::{MAX_RANKED_LEARNINGS, sort_by_worth, taken_back_last};
use ctxbridge_archive::search::query::QueryTerms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::StoredLearning;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge learnings list --project . --since 'last week'
  ctxbridge learnings list --kind decision --session 5e551011 --all --newest

Those with a reason, and said to you rather than between two calls of tools, come first.

Exits 1 if there are none.")]
pub(super) struct LearningsListArgs {
    #[command(flatten)]
    which: LearningFilterArgs,
    /// Only this session (id or prefix)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// List the newest first
    #[arg(long)]
    newest: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge learnings search flaky test --kind solution

\"Quotes\" and a trailing * work as in `ctxbridge search`. Exits 1 if nothing is found.")]
pub(super) struct LearningsSearchArgs {
    /// Words in the sentence
    #[arg(required = true)]
    words: Vec<String>,
    #[command(flatten)]
    which: LearningFilterArgs,
}

impl LearningsListArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let mut wanted = self.which.to_query(&mut *store, output)?;
        if let Some(prefix) = &self.session {
            let Some(session) = archives::find(&mut *store, prefix)? else {
                archives::note_missing(prefix, output);
                return Ok(CommandOutcome::No);
            };
            wanted.session = Some(session.key);
        }
        let limit = wanted.limit;
        if !self.newest {
            // What is worth most may be older.
            wanted.limit = limit.max(MAX_RANKED_LEARNINGS);
        }
        let mut found = store.learnings(&wanted)?;
        if !self.newest {
            sort_by_worth(&mut found);
            found.truncate(limit);
        }
        if found.is_empty() && !output.json {
            output.note("nothing was learned yet that fits; `ctxbridge archive optimize` looks through what is archived");
        }
        tell_all(&found, output)
    }
}

impl LearningsSearchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let words = QueryTerms::of(&self.words.join(" "), &Tokenizer::default()).expression(&[]);
        let mut wanted = self.which.to_query(&mut *store, output)?;
        let mut found = match words {
            None => Vec::new(),
            words => {
                wanted.words = words;
                store.learnings(&wanted)?
            }
        };
        taken_back_last(&mut found);
        if found.is_empty() && !output.json {
            output.note("nothing found; `ctxbridge search` looks through all that was said");
        }
        tell_all(&found, output)
    }
}

fn tell_all(found: &[StoredLearning], output: &mut Output) -> anyhow::Result<CommandOutcome> {
    if output.json {
        output.value(&json!({ "learnings": found.iter().map(as_json).collect::<Vec<_>>() }))?;
    } else {
        for learning in found {
            tell(learning, output)?;
        }
    }
    Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}
