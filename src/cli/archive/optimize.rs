//! `ctxbridge archive optimize`

use std::path::PathBuf;

use crate::archive::heal;
use crate::archive::import::import;
use crate::archive::reader::Comparison;
use crate::cli::Answer;
use crate::cli::output::{GOOD, Output, styled};
use crate::{hook, paths};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge archive optimize

The end of a session does it in the background.")]
pub(super) struct OptimizeArgs {
    /// Transcripts to compare with the archive, every byte
    paths: Vec<PathBuf>,
    /// Leave the terminal and step back, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

impl OptimizeArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        if self.background {
            hook::settle();
        }
        output.progress("comparing with the transcripts");
        let data = paths::data_dir()?;
        let compared = import(&data, &self.paths, Comparison::Whole, &|_| {})?;
        output.progress("looking for damage");
        let aside = heal::tidy(&data, jiff::Timestamp::now().as_millisecond())?;
        output.clear_progress();
        let aside = aside.or(compared.aside);
        if let Some(aside) = aside.as_ref().filter(|_| self.background) {
            hook::refill(&data, &std::env::current_exe()?, aside);
        }
        for (path, error) in &compared.failed {
            output.note(&format!("{}: {error}", path.display()));
        }
        if output.json {
            output.value(&serde_json::json!({
                "transcripts": compared.transcripts, "rewritten": compared.rewritten, "damaged": aside,
            }))?;
        } else if let Some(aside) = &aside {
            output.line(heal::told(aside))?;
        } else {
            output.line(styled(GOOD, "done: no damage found"))?;
        }
        Ok(if aside.is_none() { Answer::Yes } else { Answer::No })
    }
}
