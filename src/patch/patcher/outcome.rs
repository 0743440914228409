//! Results of operations.

use std::path::PathBuf;

use serde::Serialize;

use crate::container::Container;
use crate::locate::Site;
use crate::plan::{PatchPlan, PlannedChange};

/// Result of `apply`.
#[derive(Debug, Clone, Serialize)]
pub struct Applied {
    /// The patched file.
    pub target: PathBuf,
    /// The client's version.
    pub version: Option<String>,
    /// State of the target: already as wanted, or changed now.
    pub state: AppliedState,
    /// The patches it now has.
    pub patches: Vec<String>,
    /// The edited sites; empty if there was nothing to do.
    pub sites: Vec<EditedSite>,
    /// The hash of the unpatched file.
    pub original_sha256: String,
    /// The hash of the file now.
    pub patched_sha256: String,
    /// Path of the original's backup.
    pub backup: PathBuf,
    /// Difference to the length of the original, in bytes.
    pub grew_by_bytes: i64,
    /// The smoke run.
    pub smoke: Smoke,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
}

/// A place that was edited.
#[derive(Debug, Clone, Serialize)]
pub struct EditedSite {
    /// The patch.
    pub patch: String,
    /// The site.
    pub site: String,
    /// The module it is in.
    pub module: String,
    /// The function around it.
    pub function: Option<String>,
    /// 1-based line in the unpatched module.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
}

impl EditedSite {
    /// The sites of a plan that it edits.
    pub(super) fn of(plan: &PatchPlan) -> Vec<Self> {
        let edited = |site: &&Site| {
            plan.changes.iter().any(|change| change.patch == site.patch && change.site.as_deref() == Some(&site.site))
        };
        let describe = |site: &Site| Self {
            patch: site.patch.clone(),
            site: site.site.clone(),
            module: site.module_name.clone(),
            function: site.function.clone(),
            line: site.line,
            column: site.column,
        };
        plan.located.sites.iter().filter(edited).map(describe).collect()
    }
}

/// Effect of `apply` on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliedState {
    /// It was patched.
    Patched,
    /// It had these patches already.
    AlreadyPatched,
}

/// A smoke run, made or not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Smoke {
    /// `true` if the patched client was run.
    pub ran: bool,
    /// Its output, or the reason why it was not run.
    pub output: String,
}

/// Result of `revert`.
#[derive(Debug, Clone, Serialize)]
pub struct Reverted {
    /// The file.
    pub target: PathBuf,
    /// State of the target: already as wanted, or changed now.
    pub state: RevertedState,
    /// The hash of the file now.
    pub restored_sha256: String,
    /// The name that the file has now which another tool had changed; `None` if it was as we wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// Effect of `revert` on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertedState {
    /// The original is back.
    Reverted,
    /// It was not patched.
    NotPatched,
}

/// Result of a dry run of `apply`.
#[derive(Debug)]
pub struct DryRun {
    /// The unpatched client.
    pub container: Container,
    /// The planned changes.
    pub changes: Vec<PlannedChange>,
}
