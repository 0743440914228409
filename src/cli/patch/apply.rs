//! `ctxbridge patch apply`

use serde::Serialize;
use serde_json::json;

use super::{Answer, Output, TargetArg, with_patcher};
use crate::cli::output::{DIM, GOOD, duration, size, styled};
use crate::patch::catalogue::Catalogue;
use crate::patch::diff;
use crate::patch::install::Target;
use crate::patch::patcher::{Applied, AppliedState, DryRun};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge patch apply                                   the `claude` that your shell runs
  ctxbridge patch apply --dry-run                         show what would change
  ctxbridge patch apply node_modules/@anthropic-ai/claude-code
  ctxbridge patch apply --patch microcompact-thresholds   this patch alone")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    target: TargetArg,
    /// Apply this patch instead of the default ones; may be given several times
    #[arg(long = "patch", value_name = "ID")]
    patches: Vec<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not run the patched client before it takes over
    #[arg(long)]
    no_smoke: bool,
}

impl ApplyArgs {
    pub fn run(&self, catalogue: Catalogue, output: &mut Output) -> anyhow::Result<Answer> {
        let target = self.target.resolve()?;
        if self.dry_run {
            let dry_run = with_patcher(catalogue, output, |patcher| Ok(patcher.dry_run(&target, &self.patches)?))?;
            show(&target, &dry_run, output)?;
        } else {
            let applied =
                with_patcher(catalogue, output, |patcher| Ok(patcher.apply(&target, &self.patches, !self.no_smoke)?))?;
            tell(&applied, output)?;
        }
        Ok(Answer::Yes)
    }
}

fn tell(applied: &Applied, output: &mut Output) -> anyhow::Result<()> {
    if output.json {
        return output.value(applied);
    }
    let Applied { target, version, state, patches, backup, grew_by_bytes, smoke, elapsed_ms, original_sha256, patched_sha256 } =
        applied;
    let version = version.as_deref().unwrap_or("unknown version");
    let patches = patches.join(", ");
    if *state == AppliedState::AlreadyPatched {
        output.line(format!("{} {} ({version}) has {patches}", styled(GOOD, "already patched:"), target.display()))?;
        return Ok(());
    }
    output.line(format!("{} {} ({version}) with {patches}", styled(GOOD, "patched:"), target.display()))?;
    output.line(format!("  grew by   {} in {}", size(*grew_by_bytes), duration(*elapsed_ms)))?;
    let smoke = if smoke.ran { format!("it runs and says `{}`", smoke.output) } else { "not run (--no-smoke)".to_owned() };
    output.line(format!("  smoke run {smoke}"))?;
    output.line(format!("  original  {}", backup.display()))?;
    if output.verbose {
        output.line(format!("  SHA-256   {original_sha256} before, {patched_sha256} now"))?;
    }
    output.line(styled(
        DIM,
        "Sessions that are running go on unpatched; new ones are patched. `ctxbridge patch revert` undoes this.",
    ))?;
    Ok(())
}

/// An edit, in JSON.
#[derive(Serialize)]
struct EditJson<'a> {
    patch: &'a str,
    site: Option<&'a str>,
    module: &'a str,
    offset: u32,
    removed: &'a str,
    inserted: &'a str,
}

fn show(target: &Target, dry_run: &DryRun, output: &mut Output) -> anyhow::Result<()> {
    let modules = dry_run.container.modules();
    if output.json {
        let edits: Vec<EditJson<'_>> = dry_run
            .changes
            .iter()
            .map(|change| EditJson {
                patch: &change.patch,
                site: change.site.as_deref(),
                module: modules[change.module].name,
                offset: change.span.lo,
                removed: &change.old,
                inserted: &change.new,
            })
            .collect();
        return output.value(&json!({ "target": target.path, "version": target.version, "edits": edits }));
    }
    for (index, module) in modules.iter().enumerate() {
        let changes: Vec<_> = dry_run.changes.iter().filter(|change| change.module == index).collect();
        for line in diff::unified(module, &changes).lines() {
            output.line(coloured(line))?;
        }
    }
    Ok(())
}

fn coloured(line: &str) -> String {
    use clap::builder::styling::AnsiColor;
    let style = match line.as_bytes().first() {
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => return line.to_owned(),
    };
    styled(style, line)
}
