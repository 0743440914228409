//! `ctxbridge bundle show`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{as_json, bundles, opened, tell, tell_skipped};
use crate::cli::output::Output;
use crate::cli::{Answer, Usage};
use ctxbridge_archive::search::time;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge bundle show --since 'last week'
  ctxbridge bundle show --session 5e551011 --json

Exit code 1 when there is nothing.")]
pub(super) struct ShowArgs {
    /// Only this session; the begin of its id is enough
    #[arg(long, value_name = "ID", default_value = "")]
    session: String,
    /// Only what was done then or later: a day, or as in `last week`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

impl ShowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let since = self.since.as_deref().map(|text| time::moment(text, Timestamp::now(), &TimeZone::system()).map_err(Usage));
        let since = since.transpose()?.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let bundles = bundles()?;
        let index = opened(&bundles)?;
        tell_skipped(&index, &bundles, output)?;
        let episodes = index.episodes(&self.session, since)?;
        if output.json {
            output.value(&json!({ "folder": bundles.folder(), "episodes": episodes.iter().map(as_json).collect::<Vec<_>>() }))?;
        } else {
            for episode in &episodes {
                tell(episode, output)?;
            }
            if episodes.is_empty() {
                output.note("nothing was noted down; `ctxbridge hooks install` wires what does it");
            }
        }
        Ok(if episodes.is_empty() { Answer::No } else { Answer::Yes })
    }
}
