//! `ctxbridge bundle search`

use serde_json::json;

use super::{as_json, bundles, opened, tell, tell_skipped};
use crate::cli::CommandOutcome;
use crate::cli::output::Output;
use ctxbridge_archive::search::query::QueryTerms;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle search greylisting retry

Sorted by relevance. \"Quotes\" and a trailing * work as in `ctxbridge search`. Exits 1 if nothing is found.")]
pub(super) struct BundleSearchArgs {
    /// Words in prompts, files or commands
    #[arg(required = true)]
    words: Vec<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

impl BundleSearchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let bundles = bundles()?;
        let index = opened(&bundles)?;
        tell_skipped(&index, &bundles, output)?;
        let query = self.words.join(" ");
        let terms = QueryTerms::of(&query, index.tokenizer());
        let found = index.search(&terms, self.limit as usize)?;
        if output.json {
            let hit = |(episode, score): &(_, f64)| {
                let mut value = as_json(episode);
                value["score"] = json!(score);
                value
            };
            output.value(&json!({ "query": query, "results": found.iter().map(hit).collect::<Vec<_>>() }))?;
        } else {
            for (episode, _) in &found {
                tell(episode, output)?;
            }
            if found.is_empty() {
                output.note("nothing found");
            }
        }
        Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}
