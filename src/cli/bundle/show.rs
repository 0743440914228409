//! `ctxbridge bundle show`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{as_json, bundles, opened, tell, tell_skipped};
use crate::cli::output::Output;
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::search::time;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge bundle show --since 'last week'
  ctxbridge bundle show --session 5e551011 --json

Exits 1 if there are no entries.")]
pub(super) struct BundleShowArgs {
    /// Only this session (id or prefix)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only entries from this time on: a day, or words such as `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

impl BundleShowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let since =
            self.since.as_deref().map(|text| time::parse_moment(text, Timestamp::now(), &TimeZone::system()).map_err(UsageError));
        let since = since.transpose()?.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let bundles = bundles()?;
        let index = opened(&bundles)?;
        tell_skipped(&index, &bundles, output)?;
        let episodes = index.episodes(self.session.as_deref().unwrap_or_default(), since)?;
        if output.json {
            output.value(&json!({ "folder": bundles.folder(), "episodes": episodes.iter().map(as_json).collect::<Vec<_>>() }))?;
        } else {
            for episode in &episodes {
                tell(episode, output)?;
            }
            if episodes.is_empty() {
                let exist = bundles.exist()?;
                output.note(if exist {
                    "no entries yet: hooks record them (`ctxbridge hooks status`)"
                } else {
                    "this project has no bundles; `ctxbridge bundle init` starts them"
                });
            }
        }
        Ok(if episodes.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}
