//! Projects that hooks write bundles into.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Environment, HealthCheck, HealthStatus};
use crate::bundle::{Bundles, Project};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::store::sqlite::LockPolicy;

/// Maximum number of projects that are named.
const MAX_NAMED: usize = 5;

/// Names the projects that have bundles, of all that the archive knows and the current one; none if there are none.
pub fn bundles(at: &Environment) -> Option<HealthCheck> {
    let store = Location::of(&at.data, &at.config.archive).open_without_repair(LockPolicy::Interactive).ok().flatten();
    let known = store.and_then(|mut store| store.folders().ok()).unwrap_or_default();
    let folders = known.iter().map(|known| Path::new(&known.folder)).chain([at.current.as_path()]);
    let with_bundles: BTreeSet<PathBuf> = folders.filter_map(|folder| bundles_around(folder, at.home.as_deref())).collect();
    let count = with_bundles.len();
    if count == 0 {
        return None;
    }
    let is_on = if at.config.bundle.enabled { "" } else { ", but `bundle.enabled` is off" };
    let more = if count > MAX_NAMED { format!(" and {} more", count - MAX_NAMED) } else { String::new() };
    let names: Vec<String> = with_bundles.iter().take(MAX_NAMED).map(|root| root.display().to_string()).collect();
    let told = format!("work is recorded in {}{more}{is_on}", names.join(", "));
    Some(HealthCheck::new("bundles", HealthStatus::Ok, told, None))
}

fn bundles_around(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let bundles = Bundles::of(&Project::around(folder, home)?);
    bundles.exist().is_ok_and(|exist| exist).then(|| bundles.project().to_owned())
}
