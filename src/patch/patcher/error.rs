//! Errors from operations on a target.

use std::path::PathBuf;

use crate::backup::BackupError;
use crate::catalog::CatalogError;
use crate::install::{TargetError, TargetOpenError};
use crate::journal::JournalError;
use crate::lock::LockError;
use crate::plan::PlanError;
use crate::seal::AssembleError;
use crate::smoke::SmokeError;
use crate::structure::StructureError;
use crate::swap::SwapError;

/// Errors from operations on a target. The target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The catalog has no such patch.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The target has no module that can be read.
    #[error(transparent)]
    Open(#[from] TargetOpenError),
    /// The patched file cannot be put together.
    #[error("{}: {cause}", path.display())]
    Assemble {
        /// The target.
        path: PathBuf,
        /// The cause.
        cause: AssembleError,
    },
    /// The patched file is not as planned.
    #[error("{}: {cause}", path.display())]
    Structure {
        /// The target.
        path: PathBuf,
        /// The cause.
        cause: StructureError,
    },
    /// The target cannot be patched.
    #[error("{}: {cause}{}", path.display(), next_step(.cause))]
    Plan {
        /// The target.
        path: PathBuf,
        /// The cause.
        cause: Box<PlanError>,
    },
    /// The target was changed by somebody else.
    #[error("{} was patched by another tool: {reason}. Undo that with the other tool or reinstall the client, then try again{}", path.display(), offer(*.can_force))]
    Foreign {
        /// The target.
        path: PathBuf,
        /// The evidence.
        reason: String,
        /// `true` if it was patched by us before and the original is there.
        can_force: bool,
    },
    /// The target has our patch, and changes that are not ours.
    #[error("{} was changed after it was patched, so neither patching nor reverting it would be safe; reinstall the client to get its original back{}", path.display(), offer(*.can_force))]
    Modified {
        /// The target.
        path: PathBuf,
        /// `true` if the original is there.
        can_force: bool,
    },
    /// The target changed during the operation.
    #[error("{} was changed by somebody else in the meantime; nothing was written, try again", path.display())]
    Raced {
        /// The target.
        path: PathBuf,
    },
    /// The smoke run failed.
    #[error(transparent)]
    Smoke(#[from] SmokeError),
    /// There is no backup that can be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The client is not there any more.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Another command is working on the target.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The client is part of an application of macOS.
    #[error(
        "{} is part of the application {}, whose signature is one for all of its files; patch the `claude` that npm or the native installer brings",
        path.display(),
        bundle.display()
    )]
    InAppBundle {
        /// The client.
        path: PathBuf,
        /// The application's folder.
        bundle: PathBuf,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An operation on a file failed.
    #[error(transparent)]
    Swap(#[from] SwapError),
}

/// The other way to the original, if there is one.
fn offer(can_force: bool) -> &'static str {
    if can_force {
        ". Or run `ctxbridge patch revert --force`: it puts the original back, whose checksum is right, and keeps the changed file \
         beside it"
    } else {
        ""
    }
}

/// Advice for the user.
fn next_step(cause: &PlanError) -> &'static str {
    match cause {
        PlanError::Locate(_) => "; is this the client's cli.js? If so, reinstall the client",
        // A patch without an end is for all that is to come, so no newer ctxbridge will have it for this release.
        PlanError::NotApplicable { .. } => "; use a release that it is for, or leave this patch out",
        PlanError::Drift { .. } => "; upgrade ctxbridge, or report this release if there is nothing newer",
        PlanError::NameTaken { .. } => "; reinstall the client to get its original back",
        PlanError::Splice(_) => "; apply them one at a time, and please report this",
        PlanError::Check(_) | PlanError::Container(_) => "",
    }
}
