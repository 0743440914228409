//! `ctxbridge patch locate`

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;

use super::{CommandOutcome, Output, TargetArg};
use crate::cli::output::{BAD, BOLD, DIM, styled};
use ctxbridge_common::parallel::join;
use ctxbridge_patch::catalog::{Catalog, Patch};
use ctxbridge_patch::inspect::as_published;
use ctxbridge_patch::locate::{Excerpts, Site, locate};
use ctxbridge_patch::signature::TextForm;
use ctxbridge_syntax::with_deep_stack;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge patch locate node_modules/@anthropic-ai/claude-code/cli.js

For a patched client, this shows the sites of its original. Exits 1 if a required site is missing.")]
pub(super) struct LocateArgs {
    #[command(flatten)]
    target: TargetArg,
}

#[derive(Serialize)]
struct SiteJson<'a> {
    patch: &'a str,
    signature: &'a str,
    site: &'a str,
    module: &'a str,
    offset: usize,
    line: u32,
    column: u32,
    function: Option<&'a str>,
    names: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct MissingJson {
    patch: String,
    site: String,
    reason: String,
}

impl LocateArgs {
    pub fn run(&self, catalog: &Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let target = self.target.resolve()?;
        output.progress("reading the client");
        let container = target.open()?;
        let source = container.source().clone();
        let container = as_published(container);
        let version = target.version.as_ref();
        let patches: Vec<&Patch> = catalog.patches().iter().filter(|patch| patch.applies_to(version)).collect();
        output.progress("finding the sites");
        let locate = || with_deep_stack(|| locate(&container, &patches, version, TextForm::Original));
        let (sha256, located) = join(|| source.sha256(), locate);
        let sha256 = sha256.with_context(|| format!("cannot read {}", target.path.display()))?;
        output.clear_progress();
        let located = located.with_context(|| target.path.display().to_string())?;
        let excerpts = Excerpts::of(&container);
        let mut missing = Vec::new();
        let mut required = false;
        for site in &located.missing {
            required |= site.required;
            missing.push(MissingJson { patch: site.patch.clone(), site: site.site.clone(), reason: excerpts.reason(site) });
        }
        // A release that no default patch is for has none of its sites.
        for patch in catalog.patches().iter().filter(|patch| patch.default && !patch.applies_to(version)) {
            required = true;
            let reason =
                format!("no signature is known for {}: the patch is for releases {}", target.version_text(), patch.supported());
            let sites = patch.sites.iter().filter(|site| site.required);
            missing.extend(sites.map(|site| MissingJson {
                patch: patch.id.clone(),
                site: site.name.clone(),
                reason: reason.clone(),
            }));
        }
        if output.json {
            let sites: Vec<SiteJson<'_>> = located.sites.iter().map(site_json).collect();
            output.value(&json!({
                "target": target.path, "kind": container.kind(), "package": target.package, "version": target.version,
                "sha256": sha256, "sites": sites, "missing": missing,
            }))?;
        } else {
            let package = target.package.as_deref().unwrap_or("no package");
            output.line(format!("{} ({}, {package}, {})", target.path.display(), container.kind(), target.version_text()))?;
            tell(&located.sites, container.kind().is_native(), &missing, output)?;
        }
        Ok(if required { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

fn site_json(site: &Site) -> SiteJson<'_> {
    SiteJson {
        patch: &site.patch,
        signature: &site.signature,
        site: &site.site,
        module: &site.module_name,
        offset: site.offset,
        line: site.line,
        column: site.column,
        function: site.function.as_deref(),
        names: site.names(),
    }
}

/// Returns a module's name without the folder that all modules share.
fn short(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

fn tell(sites: &[Site], native: bool, missing: &[MissingJson], output: &mut Output) -> anyhow::Result<()> {
    let mut patch = "";
    for site in sites {
        if site.patch != patch {
            patch = &site.patch;
            output.line(styled(BOLD, patch))?;
        }
        let names = site.names().into_iter().map(|(metavariable, name)| format!("{metavariable}={name}")).collect::<Vec<_>>();
        let function = site.function.as_deref().map_or_else(String::new, |function| format!("in {function}"));
        // Of a script the module is the file, which is named above.
        let module = if native { format!("{}:", short(&site.module_name)) } else { String::new() };
        let place = format!("{module}{}:{}", site.line, site.column);
        output.line(format!("  {:<25} {place:<12} {function:<10} {}", site.site, styled(DIM, names.join(" "))))?;
    }
    for MissingJson { patch, site, reason } in missing {
        output.line(format!("{} {patch} {site}: {reason}", styled(BAD, "missing:")))?;
    }
    Ok(())
}
