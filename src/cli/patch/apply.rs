//! `ctxbridge patch apply`

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::json;

use super::{CommandOutcome, Output, TargetArg, with_patcher};
use crate::cli::output::{DIM, GOOD, duration, size, styled};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::diff;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::patcher::{Applied, AppliedState, DryRun, EditedSite};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge patch apply               patch the `claude` that your shell runs
  ctxbridge patch apply --dry-run     show what would change
  ctxbridge patch apply node_modules/@anthropic-ai/claude-code
  ctxbridge patch apply --patch microcompact-thresholds")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    target: TargetArg,
    /// Apply this patch instead of the default ones; may be repeated
    #[arg(long = "patch", value_name = "ID")]
    patches: Vec<String>,
    /// Show what would change without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Skip the test run of the patched client before it is installed
    #[arg(long)]
    no_smoke: bool,
}

impl ApplyArgs {
    pub fn run(&self, catalog: Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let target = self.target.resolve()?;
        if self.dry_run {
            let dry_run = with_patcher(catalog, output, |patcher| Ok(patcher.dry_run(&target, &self.patches)?))?;
            show(&target, &dry_run, output)?;
        } else {
            output.reports();
            let applied = with_patcher(catalog, output, |patcher| Ok(patcher.apply(&target, &self.patches, !self.no_smoke)?))?;
            tell(&applied, output)?;
        }
        Ok(CommandOutcome::Yes)
    }
}

fn tell(applied: &Applied, output: &mut Output) -> anyhow::Result<()> {
    if output.json {
        return output.value(applied);
    }
    let Applied { target, version, state, patches, sites, backup, grew_by_bytes, smoke, elapsed_ms, .. } = applied;
    let version = version.as_deref().unwrap_or("unknown version");
    let patches = patches.join(", ");
    if *state == AppliedState::AlreadyPatched {
        output.prose(2, format!("{} {} ({version}) has {patches}", styled(GOOD, "already patched:"), target.display()))?;
        return Ok(());
    }
    output.prose(2, format!("{} {} ({version}) with {patches}", styled(GOOD, "patched:"), target.display()))?;
    for EditedSite { site, module, function, line, column, .. } in sites {
        let module = module.rsplit('/').next().unwrap_or(module);
        let function = function.as_deref().map_or_else(String::new, |function| format!(", in {function}"));
        output.prose(2, format!("  edited    {site} at {module}:{line}:{column}{function}"))?;
    }
    // Where a publisher's signature goes, more may go than comes.
    let grew = if *grew_by_bytes < 0 { "shrank by" } else { "grew by  " };
    output.prose(2, format!("  {grew} {} in {}", size(grew_by_bytes.abs()), duration(*elapsed_ms)))?;
    let smoke = if smoke.ran { format!("it runs and says `{}`", smoke.output) } else { format!("not made: {}", smoke.output) };
    output.prose(2, format!("  smoke run {smoke}"))?;
    output.prose(2, format!("  original  {}", backup.display()))?;
    if output.verbose {
        output.prose(2, format!("  SHA-256   {} before, {} now", applied.original_sha256, applied.patched_sha256))?;
    }
    output.prose(
        2,
        styled(DIM, "Sessions that are running go on unpatched; new ones are patched. `ctxbridge patch revert` undoes this."),
    )?;
    Ok(())
}

/// An edit, as JSON.
#[derive(Serialize)]
struct EditJson<'a> {
    patch: &'a str,
    site: Option<&'a str>,
    module: &'a str,
    offset: usize,
    removed: &'a str,
    inserted: &'a str,
}

fn show(target: &Target, dry_run: &DryRun, output: &mut Output) -> anyhow::Result<()> {
    let modules: BTreeSet<usize> = dry_run.changes.iter().map(|change| change.module).collect();
    let mut edits = Vec::new();
    for index in modules {
        let module = dry_run.container.module(index)?;
        let changes: Vec<_> = dry_run.changes.iter().filter(|change| change.module == index).collect();
        if !output.json {
            for line in diff::unified(&module, &changes).lines() {
                output.prose(2, colored(line))?;
            }
        }
        edits.extend(changes.into_iter().map(|change| EditJson {
            patch: &change.patch,
            site: change.site.as_deref(),
            module: module.name,
            offset: module.byte_offset(change.span.lo),
            removed: &change.old,
            inserted: &change.new,
        }));
    }
    if output.json {
        output.value(&json!({ "target": target.path, "version": target.version, "edits": edits }))?;
    }
    Ok(())
}

fn colored(line: &str) -> String {
    use clap::builder::styling::AnsiColor;
    let style = match line.as_bytes().first() {
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => return line.to_owned(),
    };
    styled(style, line)
}
