//! `ctxbridge patch verify`

use serde_json::json;

use super::{CommandOutcome, Output, TargetArg, with_patcher};
use crate::cli::output::{BAD, DIM, GOOD, styled};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::inspect::{Inspection, TargetState};
use ctxbridge_patch::install::Target;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge patch verify || ctxbridge patch apply

States: patched, unpatched, upgraded (a newer client was installed after the patch), modified (changed after it was patched), \
foreign (patched by another tool). Exits 0 only if the state is `patched`.")]
pub(super) struct PatchVerifyArgs {
    #[command(flatten)]
    target: TargetArg,
}

impl PatchVerifyArgs {
    pub fn run(&self, catalog: Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let target = self.target.resolve()?;
        let inspection = with_patcher(catalog, output, |patcher| Ok(patcher.verify(&target)?))?;
        if output.json {
            let Inspection { state, patches, original_sha256, patched_sha256, current_sha256, reason } = &inspection;
            output.value(&json!({
                "target": target.path, "version": target.version, "state": state, "patches": patches,
                "original_sha256": original_sha256, "patched_sha256": patched_sha256, "current_sha256": current_sha256,
                "reason": reason,
            }))?;
        } else {
            tell(&target, &inspection, output)?;
        }
        Ok(if inspection.state == TargetState::Patched { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn tell(target: &Target, inspection: &Inspection, output: &mut Output) -> anyhow::Result<()> {
    let place = format!("{} ({})", target.path.display(), target.version_text());
    let patches = inspection.patches.join(", ");
    let (state, details, next) = match inspection.state {
        TargetState::Patched => (styled(GOOD, "patched:"), format!("{place} with {patches}"), None),
        TargetState::Unpatched => (styled(BAD, "unpatched:"), place, Some("`ctxbridge patch apply` patches it")),
        TargetState::Upgraded => (
            styled(BAD, "upgraded:"),
            format!("{place} was installed after the patch"),
            Some("`ctxbridge patch apply` patches it"),
        ),
        TargetState::Modified => (
            styled(BAD, "modified:"),
            format!("{place} carries {patches}, but has been changed since"),
            Some("Reinstall the client, then `ctxbridge patch apply`"),
        ),
        TargetState::Foreign => (
            styled(BAD, "foreign:"),
            format!("{place}: {}", inspection.reason.as_deref().unwrap_or("patched by another tool")),
            Some("Undo that with the other tool or reinstall the client, then `ctxbridge patch apply`"),
        ),
    };
    output.prose(2, format!("{state} {details}"))?;
    if let Some(next) = next {
        output.prose(2, styled(DIM, next))?;
    }
    Ok(())
}
