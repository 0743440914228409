/*!
`apply`, `verify` and `revert`: the operations on one target, and their common parts.

Each takes the lock of its target, finishes or undoes the work of a killed command (`settle`), inspects the target, and
only then does its work. After any failure the target is as it was.
*/

mod error;
mod outcome;
mod revert;
mod target_session;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use error::PatchError;
pub use outcome::{Applied, AppliedState, DryRun, EditedSite, Reverted, RevertedState, Smoke};

use super::backup::Backups;
use super::catalog::{Catalog, Patch};
use super::container::{Container, ContainerKind, FileBytes};
use super::inspect::{Inspection, TargetState, inspect, marked_modules};
use super::install::Target;
use super::journal::{Action, Intent, seconds_now};
use super::locate::{Excerpts, Located, locate};
use super::lock::LockError;
use super::plan::{PatchPlan, PlanError, check, plan_unchecked};
use super::seal::{Assembled, assemble};
use super::signature::TextForm;
use super::smoke::SmokeError;
use super::swap::{self, Ownership, step, temporary_name};
use super::syntax::with_deep_stack;
use super::{smoke, structure};
use ctxbridge_common::parallel::join;
use target_session::{HashSource, TargetSession};

/// Runs the operations.
pub struct Patcher<'n> {
    data_dir: PathBuf,
    catalog: Catalog,
    backups: Backups,
    notice: &'n dyn Fn(&str),
    progress: &'n dyn Fn(&str),
    /// `true` if every site must be found, and the patched client must run.
    is_without_exceptions: bool,
}

impl<'n> Patcher<'n> {
    /// Creates a patcher with the backups and the journal in `data_dir`; `notice` receives messages for people.
    pub fn new(data_dir: &Path, catalog: Catalog, notice: &'n dyn Fn(&str)) -> Self {
        Self {
            backups: Backups::in_dir(data_dir),
            data_dir: data_dir.to_owned(),
            catalog,
            notice,
            progress: &|_| {},
            is_without_exceptions: false,
        }
    }

    /// Sets a callback that receives the name of each step at its start.
    pub fn with_progress(self, progress: &'n dyn Fn(&str)) -> Self {
        Self { progress, ..self }
    }

    /// Refuses a client with a site missing that could be done without, or that cannot be run here: nobody is there to judge.
    pub fn without_exceptions(self) -> Self {
        Self { is_without_exceptions: true, ..self }
    }

    /// The patches it knows.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Patches a target with the named patches, or with the default ones if none is named.
    ///
    /// # Errors
    /// If it cannot be done; the target is as it was.
    pub fn apply(&self, target: &Target, patches: &[String], smoke: bool) -> Result<Applied, PatchError> {
        let begun = Instant::now();
        if let Some(bundle) = app_bundle(&target.path) {
            return Err(PatchError::InAppBundle { path: target.path.clone(), bundle });
        }
        let selected = self.catalog.select(patches)?;
        let ids: Vec<String> = selected.iter().map(|patch| patch.id.clone()).collect();
        let found = |target: &Target, source: &FileBytes| self.find(target, source, &selected);
        let (mut turn, found) = self.lock_target_with(target, HashSource::Recomputed, found)?;
        let target = &turn.target.clone();
        let version = target.version.as_ref().map(ToString::to_string);
        if turn.inspection.state == TargetState::Patched && turn.inspection.patches == ids && self.is_current(&turn, &selected) {
            let original_sha256 = turn.inspection.original_sha256.clone().unwrap_or_default();
            let backup = self.backups.path(&original_sha256);
            if !backup.is_file() {
                (self.notice)(&format!(
                    "the backup of the original is gone: {}; reinstall the client to be able to undo this",
                    backup.display()
                ));
            }
            let length = turn.journal.backup_size(&original_sha256)?.unwrap_or(turn.source.len() as u64);
            return Ok(Applied {
                target: target.path.clone(),
                version,
                state: AppliedState::AlreadyPatched,
                patches: ids,
                sites: Vec::new(),
                backup,
                original_sha256,
                patched_sha256: turn.inspection.current_sha256.clone(),
                grew_by_bytes: turn.source.len() as i64 - length as i64,
                smoke: Smoke { ran: false, output: "already patched".to_owned() },
                elapsed_ms: begun.elapsed().as_millis() as u64,
            });
        }
        let attributes = turn.stat.attributes();
        if target.kind == ContainerKind::BunPe && turn.inspection.state != TargetState::Patched {
            (self.notice)(
                "the patched executable is not signed: where Smart App Control, WDAC or AppLocker ask for that, it does not start",
            );
        }
        let (original_sha256, original) = self.original(&turn)?;
        let original_length = original.len();
        if self.is_without_exceptions
            && let Some(reason) = smoke::cannot_run(target.kind, &original)
        {
            return Err(SmokeError::NotMade(reason).into());
        }
        let (container, plan) = self.plan(&turn, original, found, &selected, &original_sha256)?;
        let sites = EditedSite::of(&plan);
        let fail = |cause| PatchError::Assemble { path: target.path.clone(), cause };
        let pieces = container.rewrite(&plan.modules).map_err(|cause| fail(cause.into()))?;
        let patched_length = pieces.len();
        let is_patched = turn.inspection.state == TargetState::Patched;
        let intent = Intent {
            action: Action::Apply,
            temporary: temporary_name(&target.path),
            from_sha256: turn.inspection.current_sha256.clone(),
            // It is hashed while it is written.
            to_sha256: String::new(),
            original_sha256: original_sha256.clone(),
            patches: ids.clone(),
            version: version.clone(),
            original: turn.original_attributes(&original_sha256),
        };
        let mut patched_sha256 = String::new();
        let mut ran = Smoke { ran: false, output: "--no-smoke".to_owned() };
        self.replace_target(&mut turn, intent, |intent, journal, id| {
            (self.progress)("writing the patched client, and checking it");
            let source = container.source();
            swap::write_with(&intent.temporary, Ownership::Like(&attributes), source, |file| {
                // To write takes less time than to hash: whoever writes brings it to the disk as well, and checks.
                let write = || {
                    swap::fill(file, &pieces, source).map_err(step("write", &intent.temporary))?;
                    // An error is told once: who syncs later would not hear of it.
                    file.sync_data().map_err(step("sync", &intent.temporary))?;
                    self.check(target, &container, &selected, &plan)
                };
                let (assembled, checked) = join(|| assemble(&container, pieces.clone()), write);
                checked?;
                let Assembled { pieces, sha256 } = assembled.map_err(fail)?;
                patched_sha256 = sha256;
                Ok::<_, PatchError>(swap::amend(file, &pieces).map_err(step("write", &intent.temporary))?)
            })?;
            intent.to_sha256.clone_from(&patched_sha256);
            journal.amend_intent(id, intent)?;
            // Not before it is known that a new file can be made: an original may have hundreds of megabytes.
            if !is_patched {
                self.backups.ensure_backup(&target.path, source, &attributes, &original_sha256, version.clone(), journal)?;
            }
            if let Some(reason) = smoke::cannot_run(container.kind(), source) {
                (self.progress)("comparing the patched client with the original");
                let structure = structure::verify(&container, &plan.modules, &intent.temporary);
                let compared = structure.map_err(|cause| PatchError::Structure { path: target.path.clone(), cause })?;
                ran = Smoke { ran: false, output: format!("{reason}; read back instead: {compared}") };
            } else if smoke {
                (self.progress)("running the patched client");
                let output = smoke::run(container.kind(), &intent.temporary, &target.path, target.version.as_ref())?;
                ran = Smoke { ran: true, output };
            }
            // Some systems replace no file that is mapped.
            drop(container);
            Ok(())
        })?;
        // Old backups are collected when there is something to do anyway; that it fails must not undo what was done.
        if let Err(error) = self.backups.collect(&turn.journal, seconds_now(), false) {
            (self.notice)(&format!("an old backup could not be removed: {error}"));
        }
        Ok(Applied {
            target: target.path.clone(),
            version,
            state: AppliedState::Patched,
            patches: ids,
            sites,
            backup: self.backups.path(&original_sha256),
            original_sha256,
            patched_sha256,
            grew_by_bytes: patched_length as i64 - original_length as i64,
            smoke: ran,
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// Returns the changes that `apply` would make.
    ///
    /// # Errors
    /// If `apply` would fail.
    pub fn dry_run(&self, target: &Target, patches: &[String]) -> Result<DryRun, PatchError> {
        let selected = self.catalog.select(patches)?;
        let found = |target: &Target, source: &FileBytes| self.find(target, source, &selected);
        let (turn, found) = self.lock_target_with(target, HashSource::Recomputed, found)?;
        let (original_sha256, original) = self.original(&turn)?;
        let (container, plan) = self.plan(&turn, original, found, &selected, &original_sha256)?;
        self.check(&turn.target, &container, &selected, &plan)?;
        Ok(DryRun { container, changes: plan.changes })
    }

    /// Inspects a target.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn verify(&self, target: &Target) -> Result<Inspection, PatchError> {
        match self.lock_target(target, HashSource::Journal) {
            // Who may not write where the journal is still may look: what was written carries all that it takes.
            Err(error @ (PatchError::Lock(LockError::Io(_)) | PatchError::Journal(_))) => {
                (self.notice)(&format!("looking at the file alone: {error}"));
                let read = || {
                    let source = FileBytes::of(fs::File::open(&target.path)?)?;
                    source.sha256().map(|sha256| (source, sha256))
                };
                let (source, sha256) = read().map_err(step("read", &target.path))?;
                Ok(inspect(target, &source, sha256, None)?)
            }
            turn => Ok(turn?.inspection),
        }
    }

    /// The unpatched client: the target itself, or its backup if it is patched.
    fn original(&self, turn: &TargetSession) -> Result<(String, FileBytes), PatchError> {
        match turn.inspection.state {
            TargetState::Foreign | TargetState::Modified => Err(self.changed(turn)),
            TargetState::Unpatched | TargetState::Upgraded => Ok((turn.inspection.current_sha256.clone(), turn.source.clone())),
            TargetState::Patched => {
                let sha256 = turn.inspection.original_sha256.clone().unwrap_or_default();
                let source = self.backups.open(&sha256)?;
                Ok((sha256, source))
            }
        }
    }

    /// Looks for the sites in a target whose state is not known yet. Most often it is unpatched, and these are the right sites. If
    /// they cannot be found, [`Self::plan`] reports the reason.
    fn find(&self, target: &Target, source: &FileBytes, patches: &[&Patch]) -> Option<(Container, Located)> {
        (self.progress)("reading the client and finding the sites");
        let version = target.version.as_ref();
        if patches.iter().any(|patch| !patch.applies_to(version)) {
            return None;
        }
        let container = target.container(source.clone()).ok()?;
        let located = with_deep_stack(|| locate(&container, patches, version, TextForm::Original)).ok()?;
        Some((container, located))
    }

    /// Plans the patched client; the plan is not checked. `found` is of the target itself, `original` may be its backup.
    fn plan(
        &self,
        turn: &TargetSession,
        original: FileBytes,
        found: Option<(Container, Located)>,
        patches: &[&Patch],
        sha256: &str,
    ) -> Result<(Container, PatchPlan), PatchError> {
        let (container, located) = match found.filter(|_| turn.inspection.state != TargetState::Patched) {
            Some((container, located)) => (container, Some(located)),
            None => (turn.target.container(original)?, None),
        };
        let target = &turn.target;
        let plan = with_deep_stack(|| plan_unchecked(&container, patches, target.version.as_ref(), sha256, located));
        let fail = |cause| PatchError::Plan { path: target.path.clone(), cause: Box::new(cause) };
        let plan = plan.map_err(fail)?;
        if let Some(missing) = plan.located.missing.first().filter(|_| self.is_without_exceptions) {
            let reason = Excerpts::of(&container).reason(missing);
            return Err(fail(PlanError::Drift { patch: missing.patch.clone(), site: missing.site.clone(), reason }));
        }
        Ok((container, plan))
    }

    /// Checks a planned client.
    fn check(&self, target: &Target, container: &Container, patches: &[&Patch], plan: &PatchPlan) -> Result<(), PatchError> {
        let checked = with_deep_stack(|| check(container, patches, target.version.as_ref(), plan));
        checked.map_err(|cause| PatchError::Plan { path: target.path.clone(), cause: Box::new(cause) })
    }

    /// `true` if a patched file has exactly these patches, as this version would write them; anything older is replaced.
    fn is_current(&self, turn: &TargetSession, patches: &[&Patch]) -> bool {
        let Ok(container) = turn.target.container(turn.source.clone()) else { return false };
        marked_modules(&container).iter().all(|(module, found)| {
            let text = container.module(*module).map_or("", |module| module.text);
            found.iter().all(|found| {
                let Some(marker) = found.marker.as_ref().filter(|marker| marker.version == env!("CARGO_PKG_VERSION")) else {
                    return false;
                };
                let Some(patch) = patches.iter().find(|patch| patch.id == marker.patch) else { return false };
                let runtime = patch.runtime_of(turn.target.version.as_ref()).map(|runtime| runtime.source).unwrap_or_default();
                let behind = &text[found.comment.hi as usize..];
                marker.runtime.1 as usize == runtime.len() && behind.starts_with(&runtime)
            })
        })
    }
}

/// The application of macOS that a file is part of: `X.app`, with the file below its `Contents`.
fn app_bundle(path: &Path) -> Option<PathBuf> {
    let is_bundle = |folder: &&Path| folder.extension().is_some_and(|extension| extension == "app");
    path.ancestors().skip(1).filter(is_bundle).find(|folder| path.starts_with(folder.join("Contents"))).map(Path::to_owned)
}
