/*!
Checks the signatures against files of the client, for CI and the catalog's maintainer after each release.
*/

use std::path::{Path, PathBuf};

use semver::Version;
use serde::Serialize;

use super::catalog::{Catalog, Patch};
use super::container::{Container, ContainerKind};
use super::inspect::as_published;
use super::install::Target;
use super::locate::{Excerpts, Located, locate};
use super::signature::TextForm;
use super::syntax::with_deep_stack;

/// One file, checked against the catalog.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedRelease {
    /// The file.
    pub path: PathBuf,
    /// The client's version.
    pub version: Option<Version>,
    /// Kind of the file.
    pub kind: ContainerKind,
    /// Result for each patch.
    pub patches: Vec<CheckedPatch>,
}

/// Result of checking one patch.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedPatch {
    /// The patch.
    pub id: String,
    /// Result for the patch.
    pub state: CheckState,
    /// The sites that were found, with the signature that found them and the names there.
    pub sites: Vec<CheckedSite>,
    /// The reason why it would not fit.
    pub reason: Option<String>,
}

/// A site that was found.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedSite {
    /// Its name.
    pub site: String,
    /// The signature.
    pub signature: String,
    /// Values of the metavariables.
    pub names: std::collections::BTreeMap<String, String>,
}

/// Possible results for a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Every required site is found once.
    Match,
    /// A required site is not found once.
    Drift,
    /// The patch is not for this release.
    NotApplicable,
}

impl CheckedRelease {
    /// Number of patches that drifted.
    pub fn drifted(&self) -> usize {
        self.patches.iter().filter(|patch| patch.state == CheckState::Drift).count()
    }
}

/// Looks for the sites of all patches in a file.
///
/// # Errors
/// If there is no client at `path`, or it cannot be read, or it is not JavaScript.
pub fn check(catalog: &Catalog, path: &Path) -> Result<CheckedRelease, Box<dyn std::error::Error + Send + Sync>> {
    let target = Target::at(path)?;
    let container = as_published(target.open()?);
    let version = target.version.as_ref();
    let applicable: Vec<&Patch> = catalog.patches().iter().filter(|patch| patch.applies_to(version)).collect();
    let located = with_deep_stack(|| locate(&container, &applicable, version, TextForm::Original));
    let located = located.map_err(|cause| format!("{}: {cause}", target.path.display()))?;
    let patches = catalog.patches().iter().map(|patch| checked(patch, version, &located, &container));
    Ok(CheckedRelease {
        path: path.to_owned(),
        version: target.version.clone(),
        kind: container.kind(),
        patches: patches.collect(),
    })
}

fn checked(patch: &Patch, version: Option<&Version>, located: &Located, container: &Container) -> CheckedPatch {
    if !patch.applies_to(version) {
        let reason = format!("for releases {}", patch.supported());
        return CheckedPatch { id: patch.id.clone(), state: CheckState::NotApplicable, sites: Vec::new(), reason: Some(reason) };
    }
    let excerpts = Excerpts::of(container);
    let reasons: Vec<String> =
        located.missing_required(&patch.id).map(|missing| format!("{}: {}", missing.site, excerpts.reason(missing))).collect();
    let sites = located.sites.iter().filter(|site| site.patch == patch.id).map(|site| CheckedSite {
        site: site.site.clone(),
        signature: site.signature.clone(),
        names: site.names(),
    });
    CheckedPatch {
        id: patch.id.clone(),
        state: if reasons.is_empty() { CheckState::Match } else { CheckState::Drift },
        sites: sites.collect(),
        reason: if reasons.is_empty() { None } else { Some(reasons.join("\n")) },
    }
}
