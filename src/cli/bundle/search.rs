//! `ctxbridge bundle search`

use serde_json::json;

use super::{as_json, bundles, opened, tell, tell_skipped};
use crate::cli::Answer;
use crate::cli::output::Output;
use ctxbridge_archive::search::query::Terms;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle search greylisting retry

The best come first; \"quotes\" and a star behind the begin of a word work as in `ctxbridge archive search`. Exit code 1 when nothing is found.")]
pub(super) struct SearchArgs {
    /// Words of prompts, files, commands
    #[arg(required = true)]
    words: Vec<String>,
    /// Hits at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

impl SearchArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let bundles = bundles()?;
        let index = opened(&bundles)?;
        tell_skipped(&index, &bundles, output)?;
        let query = self.words.join(" ");
        let terms = Terms::of(&query, index.tokenizer());
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
        Ok(if found.is_empty() { Answer::No } else { Answer::Yes })
    }
}
