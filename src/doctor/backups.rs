//! Backups of clients: what they take, and what of it nothing needs.

use std::path::Path;

use super::{HealthCheck, HealthStatus};
use ctxbridge_patch::journal::Journal;
use ctxbridge_picker::text::count;

/// Bytes from which on backups that nothing needs are worth a word: less than one client.
const WORTH_BYTES: u64 = 100_000_000;

/// Checks the backups. `None` if there are none.
pub fn backups(data: &Path) -> Option<HealthCheck> {
    let known = Journal::open_read_only(data)?.backups().ok().filter(|known| !known.is_empty())?;
    let bytes = |sizes: &mut dyn Iterator<Item = u64>| sizes.sum::<u64>();
    let all = bytes(&mut known.iter().map(|known| known.record.size));
    let idle = bytes(&mut known.iter().filter(|known| known.clients().next().is_none()).map(|known| known.record.size));
    let mb = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    let told = format!("{}, {}", count(known.len() as u64, "original"), mb(all));
    Some(if idle >= WORTH_BYTES {
        let told = format!("{told}, of which no client needs {}", mb(idle));
        HealthCheck::new("backups", HealthStatus::Warning, told, Some("`ctxbridge patch backups --prune` removes them"))
    } else {
        HealthCheck::new("backups", HealthStatus::Ok, told, None)
    })
}
