//! The client's own clean-up: it deletes transcripts that were not used for some time, and what is archived stays.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Environment, HealthCheck, HealthStatus};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::store::jsonl::JsonlStore;
use ctxbridge_archive::store::sqlite::SqliteStore;
use ctxbridge_archive::store::{CursorReader, StoreError, Transcript};
use ctxbridge_archive::transcript_paths::transcripts_below;
use ctxbridge_common::files;
use ctxbridge_config::StoreKind;

/// Days after which the client deletes a transcript, unless its settings say otherwise.
const DEFAULT_DAYS: u64 = 30;

/// Days ahead that are looked at.
const DAYS_AHEAD: u64 = 7;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Tells when the client deletes transcripts, and checks that those that go next are archived. `None` if it has none.
pub fn cleanup(at: &Environment) -> Option<HealthCheck> {
    let folder = at.client_config.clone().or_else(|| Some(at.home.as_ref()?.join(".claude")))?;
    let paths = transcripts_below(&folder.join("projects"), &mut |_, _| {});
    if paths.is_empty() {
        return None;
    }
    let days = days(at, &folder);
    let until =
        at.now_ms.saturating_sub(i64::try_from(days.saturating_sub(DAYS_AHEAD)).unwrap_or(i64::MAX).saturating_mul(DAY_MS));
    let due: Vec<&Path> = paths.iter().map(AsRef::as_ref).filter(|path| used_ms(path).is_some_and(|used| used < until)).collect();
    let (have, many) = (format!("the client deletes transcripts {days} days after their last use"), due.len());
    Some(match unarchived(at, &due) {
        Err(error) => HealthCheck::new("cleanup", HealthStatus::Warning, format!("{have}; {error}"), None),
        Ok(_) if many == 0 => {
            HealthCheck::new("cleanup", HealthStatus::Ok, format!("{have}; none goes within {DAYS_AHEAD} days"), None)
        }
        Ok(0) => {
            let told = format!("{have}; {many} within {DAYS_AHEAD} days, all archived");
            HealthCheck::new("cleanup", HealthStatus::Ok, told, None)
        }
        Ok(missing) => HealthCheck::new(
            "cleanup",
            HealthStatus::Warning,
            format!("{have}; of {many} within {DAYS_AHEAD} days, {missing} not archived in full"),
            Some("`ctxbridge archive import` archives them"),
        ),
    })
}

/// The client's setting: managed, then of this project, then the user's.
fn days(at: &Environment, folder: &Path) -> u64 {
    let project = at.current.join(".claude");
    let files = [
        Path::new("/etc/claude-code/managed-settings.json").to_owned(),
        project.join("settings.local.json"),
        project.join("settings.json"),
        folder.join("settings.json"),
    ];
    let set = |path: &std::path::PathBuf| -> Option<u64> {
        let settings: Value = serde_json::from_slice(&files::read(path).ok()?).ok()?;
        settings["cleanupPeriodDays"].as_u64()
    };
    files.iter().find_map(set).unwrap_or(DEFAULT_DAYS)
}

/// Time of a transcript's last use, in milliseconds since 1970.
fn used_ms(path: &Path) -> Option<i64> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Number of transcripts that the archive does not have in full.
fn unarchived(at: &Environment, paths: &[&Path]) -> Result<usize, StoreError> {
    let location = Location::of(&at.data, &at.config.archive);
    let mut store: Box<dyn CursorReader> = match location.kind() {
        StoreKind::Jsonl => match JsonlStore::open_read_only(location.folder())? {
            Some(store) => Box::new(store),
            None => return Ok(paths.len()),
        },
        StoreKind::Sqlite | StoreKind::Postgres => match SqliteStore::open_read_only(&at.data)? {
            Some(store) => Box::new(store),
            None => return Ok(paths.len()),
        },
    };
    let mut missing = 0;
    for path in paths {
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        let archived = store.cursor(&Transcript::at(path).path)?.map_or(0, |cursor| cursor.bytes);
        missing += usize::from(archived < length);
    }
    Ok(missing)
}
