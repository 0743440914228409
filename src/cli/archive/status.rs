//! `ctxbridge archive status`

use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{DIM, Output, count, size, styled};
use ctxbridge_archive::tier::Tier;
use ctxbridge_config::StoreKind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge archive status --json")]
pub(super) struct ArchiveStatusArgs {}

impl ArchiveStatusArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let totals = store.totals()?;
        let (tiers, folders) = (store.tiers()?, store.cold_folders()?);
        let location = archives::location(&archives::settings())?;
        let waiting = location.folder_to_merge().filter(|_| store.kind() == StoreKind::Sqlite);
        let merged = location.merged();
        if output.json {
            output.value(&json!({
                "waiting_to_be_merged": waiting, "merged_folders": merged,
                "store": store.kind().name(), "path": store.location(), "sessions": totals.sessions, "transcripts": totals.transcripts,
                "turns": totals.turns, "entries": totals.entries,
                "hot": totals.entries - totals.pruned, "pruned": totals.pruned, "compactions": totals.compactions,
                "bytes_raw": totals.bytes_raw, "bytes_segments": totals.bytes_segments, "bytes_stored": totals.bytes_stored,
                "bad_lines": totals.bad_lines,
                "tiers": tiers.iter().map(|tier| json!({
                    "tier": tier.tier.word(), "sessions": tier.sessions, "segments": tier.segments,
                    "bytes_raw": tier.bytes_raw, "bytes_stored": tier.bytes_stored,
                })).collect::<Vec<_>>(),
                "cold_folders": folders.iter().map(|cold| json!({
                    "folder": cold.folder, "files": cold.files, "bytes": cold.bytes,
                })).collect::<Vec<_>>(),
            }))?;
            return Ok(CommandOutcome::Yes);
        }
        if let Some(folder) = waiting {
            output.note(&format!(
                "{} has what was archived without the database; `ctxbridge archive optimize` merges it",
                folder.display()
            ));
        }
        for folder in &merged {
            output.note(&format!("{} was merged into the database, and may be removed", folder.display()));
        }
        if totals.transcripts == 0 && store.kind() == StoreKind::Postgres {
            output.prose(2, format!("nothing of yours is in {} yet", store.location()))?;
            output.prose(
                2,
                styled(
                    DIM,
                    "`ctxbridge archive sync` sends what is archived here, `ctxbridge sessions` lists what others have shown you",
                ),
            )?;
            return Ok(CommandOutcome::Yes);
        }
        if totals.transcripts == 0 {
            output.prose(2, "the archive is empty")?;
            output.prose(
                2,
                styled(DIM, "`ctxbridge archive import` takes in what the client has, `ctxbridge hooks install` what comes"),
            )?;
            return Ok(CommandOutcome::Yes);
        }
        output.prose(
            2,
            format!(
                "{}, {} and {}",
                count(totals.turns, "turn"),
                count(totals.sessions, "session"),
                count(totals.transcripts, "transcript")
            ),
        )?;
        let share = 100.0 * totals.bytes_stored as f64 / totals.bytes_raw.max(1) as f64;
        let (raw, stored) = (size(totals.bytes_raw.cast_signed()), size(totals.bytes_stored.cast_signed()));
        output.prose(2, format!("{raw} of transcripts in {stored} ({share:.0} %)"))?;
        if tiers.iter().any(|tier| tier.tier != Tier::Hot && tier.segments > 0) {
            for tier in tiers.iter().filter(|tier| tier.segments > 0 || tier.sessions > 0) {
                let [raw, stored] = [tier.bytes_raw, tier.bytes_stored].map(|bytes| size(bytes.cast_signed()));
                output.prose(
                    2,
                    format!("{:<4}  {:>14}  {raw:>9} in {stored}", tier.tier.word(), count(tier.sessions, "session")),
                )?;
            }
        }
        for cold in &folders {
            let (files, bytes) = (count(cold.files, "file"), size(cold.bytes.cast_signed()));
            output.prose(2, format!("{files} of {bytes} in {}", ctxbridge_archive::quote::line(&cold.folder)))?;
        }
        if totals.pruned > 0 {
            let hot = count(totals.entries - totals.pruned, "entry");
            output.prose(2, format!("{hot} hot, {} pruned, which are found by their handles", totals.pruned))?;
        }
        if totals.compactions > 0 {
            output.prose(2, count(totals.compactions, "compaction") + " with the client's summary")?;
        }
        if totals.bad_lines > 0 {
            output.prose(2, count(totals.bad_lines, "bad line") + ", kept as they are")?;
        }
        let place = match store.kind() {
            StoreKind::Sqlite => store.location(),
            StoreKind::Jsonl => format!("JSON Lines in {}", store.location()),
            StoreKind::Postgres => format!("PostgreSQL at {}", store.location()),
        };
        output.prose(2, styled(DIM, place))?;
        Ok(CommandOutcome::Yes)
    }
}
