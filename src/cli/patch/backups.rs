//! `ctxbridge patch backups`

use serde_json::json;

use super::{CommandOutcome, Output};
use crate::cli::output::{DIM, GOOD, cell, count, short, size, styled};
use ctxbridge_common::paths;
use ctxbridge_patch::backup::Backups;
use ctxbridge_patch::journal::{BackupRecord, Journal};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge patch backups
  ctxbridge patch backups --prune

A patched client needs the backup of its original; `ctxbridge patch revert` puts it back. One that nothing needs any more is removed an \
hour later, when a client is patched. Exits 1 if there is none, or nothing to remove.")]
pub(super) struct BackupsArgs {
    /// Remove those that no client needs
    #[arg(long)]
    prune: bool,
}

impl BackupsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let data = paths::data_path()?;
        let notice = |text: &str| output.note(text);
        let journal = data.join("state.db").exists().then(|| Journal::open(&data, &notice)).transpose()?;
        let Some(journal) = journal else { return nothing(output, "no backups: no client was patched yet") };
        let backups = Backups::in_dir(&data);
        if self.prune {
            let removed = backups.collect(&journal, jiff::Timestamp::now().as_second(), true)?;
            if output.json {
                output.value(&json!({ "removed": removed.iter().map(as_json).collect::<Vec<_>>() }))?;
            } else if !removed.is_empty() {
                output.reports();
                let bytes: u64 = removed.iter().map(|record| record.size).sum();
                let what = count(removed.len() as u64, "backup");
                output.prose(2, format!("{} {what}, {}", styled(GOOD, "removed:"), size(bytes.cast_signed())))?;
            }
            return match removed.is_empty() {
                true => nothing(output, "nothing to remove: each backup is needed by a client, or there is none"),
                false => Ok(CommandOutcome::Yes),
            };
        }
        let known = journal.backups()?;
        if output.json {
            let known = known.iter().map(|known| {
                let needed_by: Vec<_> = known.clients().collect();
                json!({ "backup": as_json(&known.record), "path": backups.path(&known.record.sha256), "needed_by": needed_by })
            });
            output.value(&known.collect::<Vec<_>>())?;
        }
        if known.is_empty() {
            return nothing(output, "no backups: no client is patched");
        }
        if !output.json {
            let mut left = 0;
            for backup in &known {
                let clients: Vec<String> = backup.clients().map(|client| short(client)).collect();
                left += usize::from(clients.is_empty());
                let clients = if clients.is_empty() { styled(DIM, "not needed") } else { clients.join(", ") };
                let BackupRecord { version, size: bytes, .. } = &backup.record;
                let version = version.as_deref().unwrap_or("unknown");
                output.row(format!("{}  {:>9}  {clients}", cell(version, 10), size(bytes.cast_signed())))?;
            }
            let bytes: u64 = known.iter().map(|known| known.record.size).sum();
            let all = format!("{}, {}", count(known.len() as u64, "backup"), size(bytes.cast_signed()));
            let prune = if left > 0 { format!("; `ctxbridge patch backups --prune` removes {left}") } else { String::new() };
            output.prose(2, styled(DIM, format!("{all}{prune}")))?;
        }
        Ok(CommandOutcome::Yes)
    }
}

fn as_json(record: &BackupRecord) -> serde_json::Value {
    json!({ "version": record.version, "sha256": record.sha256, "bytes": record.size })
}

fn nothing(output: &Output, text: &str) -> anyhow::Result<CommandOutcome> {
    output.note(text);
    Ok(CommandOutcome::No)
}
