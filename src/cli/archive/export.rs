//! `ctxbridge export`

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::archives;
use crate::cli::config::load;
use crate::cli::output::{Output, count};
use crate::cli::{CommandOutcome, UsageError};
use crate::export::conversation::ExportedConversation;
use crate::export::session_ref::{self, RevisionError, SessionRef};
use crate::export::{self, ExportFormat};
use ctxbridge_archive::store::Store;
use ctxbridge_common::files;
use ctxbridge_redact::Redactor;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge export 0b9e --format html -o session.html
  ctxbridge export 0b9e@2              before its second compaction
  ctxbridge export 0b9e@yesterday      its state at that time
  ctxbridge export 0b9e --redact --format json | jq .turns

HTML output is a single page without scripts or network access. The JSON schema is in docs/export.md.")]
pub(in crate::cli) struct ExportArgs {
    /// Session id or prefix; add @N for its state before compaction N, or @TIME for its state at that time
    session: String,
    /// Output format [default: by the file extension, else markdown]
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<ExportFormat>,
    /// Write to this file instead of stdout; only you can read it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Replace keys, tokens and passwords with [redacted:RULE]
    #[arg(long)]
    redact: bool,
    /// Include the model's thinking
    #[arg(long)]
    thinking: bool,
}

impl ExportArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let mut conversation = match read(&mut *store, &self.session, self.thinking, true) {
            Ok(conversation) => conversation,
            Err(error) if is_missing(&error) => {
                output.note(&error.to_string());
                return Ok(CommandOutcome::No);
            }
            Err(error) => return Err(error),
        };
        if conversation.state.is_none()
            && let Some(session) = store.session(&conversation.session)?
        {
            archives::note_fuller(&mut *store, &session, output)?;
        }
        if self.redact {
            // What is wrong with a pattern is said when the settings are read.
            let (redactor, _) = Redactor::of(&load(output).redact);
            let found = conversation.redact(&redactor);
            let all = found.values().sum::<usize>() as u64;
            let by_rule: Vec<_> = found.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
            let more = if by_rule.is_empty() { String::new() } else { format!(": {}", by_rule.join(", ")) };
            output.note(&format!("redacted {}{more}", count(all, "secret")));
        }
        let format = self.format(output.json);
        match &self.output {
            None => {
                // Not through what takes colors out: the text has none, and there is much of it.
                let mut stdout = BufWriter::new(std::io::stdout().lock());
                export::write(&conversation, format, &mut stdout)?;
                stdout.flush()?;
            }
            Some(path) => {
                self.to_file(path, &conversation, format)?;
                output.note(&format!("{} in {}", count(conversation.turns.len() as u64, "turn"), path.display()));
            }
        }
        Ok(CommandOutcome::Yes)
    }

    fn format(&self, json: bool) -> ExportFormat {
        let by_name = || match self.output.as_ref()?.extension()?.to_str()? {
            "html" | "htm" => Some(ExportFormat::Html),
            "json" => Some(ExportFormat::Json),
            _ => None,
        };
        let json = json.then_some(ExportFormat::Json);
        json.or(self.format).or_else(by_name).unwrap_or(ExportFormat::Markdown)
    }

    /// Writes the file atomically: until it is complete, the old one stays.
    fn to_file(&self, path: &Path, conversation: &ExportedConversation, format: ExportFormat) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", path.display());
        anyhow::ensure!(self.force || !path.try_exists().with_context(failed)?, "{} exists; --force replaces it", path.display());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // 0600, as temporary files are.
        let mut file = tempfile::Builder::new().prefix(".ctxbridge-").tempfile_in(folder).with_context(failed)?;
        let mut buffered = BufWriter::new(file.as_file_mut());
        export::write(conversation, format, &mut buffered).with_context(failed)?;
        buffered.flush().with_context(failed)?;
        drop(buffered);
        file.as_file().sync_all().with_context(failed)?;
        let placed: io::Result<File> = match self.force {
            true => files::persist(file, path),
            false => file.persist_noclobber(path).map_err(|failed| failed.error),
        };
        placed.with_context(failed)?;
        Ok(())
    }
}

/// Error for a session that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("no session begins with {0}; `ctxbridge sessions` lists them")]
struct NoSession(String);

/// `true` if the session or state does not exist in the archive, as opposed to a failure.
pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    error.is::<NoSession>()
        || matches!(error.downcast_ref(), Some(RevisionError::NoCompaction { .. } | RevisionError::BeforeStart { .. }))
}

/// Reads the conversation that the user named.
pub(super) fn read(
    store: &mut dyn Store,
    typed: &str,
    thinking: bool,
    with_rewound: bool,
) -> anyhow::Result<ExportedConversation> {
    let which = SessionRef::parse(typed, Timestamp::now(), &TimeZone::system()).map_err(|error| UsageError(error.to_string()))?;
    let Some(session) = archives::find(store, &which.session)? else { return Err(NoSession(which.session).into()) };
    Ok(session_ref::read(store, &session, &which.revision, thinking, with_rewound)?)
}
