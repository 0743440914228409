/*!
Plans a patched file from its sites: the bytes that change, and the proof that nothing else did.

An edit assigns: `f(M)` becomes `f(M = prune(M))`, so that later uses see the pruned array as well. The injected function is a
declaration before the top-level item of the site. So it is inside whatever wraps that item.

For the proof, the edited modules are parsed whole. Every site has to be found in them, edited, at the byte where it must be. The
pattern of the edited code is made by the same splice as the code.
*/

use std::collections::BTreeMap;

use semver::Version;

use super::catalog::Patch;
use super::container::{Container, ContainerError, RewrittenModule};
use super::locate::{Excerpts, LocateError, Located, Site, locate, locate_in};
use super::marker::Marker;
use super::schema::EditRule;
use super::signature::{Signature, TextForm};
use super::splice::{SpliceError, TextEdit, splice};
use super::syntax::Span;

/// A planned patched client.
#[derive(Debug)]
pub struct PatchPlan {
    /// The modules that change, with their new text.
    pub modules: Vec<RewrittenModule>,
    /// The changes of each patch.
    pub changes: Vec<PlannedChange>,
    /// The sites as they were found.
    pub located: Located,
}

/// One change of a module.
#[derive(Debug, Clone)]
pub struct PlannedChange {
    /// The patch.
    pub patch: String,
    /// The site, or `None` for code that is injected.
    pub site: Option<String>,
    /// The module's index.
    pub module: usize,
    /// The top-level item it is in or goes before.
    pub item: Span,
    /// The replaced bytes.
    pub span: Span,
    /// Their text.
    pub old: String,
    /// The new text.
    pub new: String,
}

/// Errors from planning a patch.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A module is not JavaScript.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// A module is not text, or its new text cannot be encoded.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The patch does not support this release.
    #[error("{patch} is for releases {versions}, and this is {version}")]
    NotApplicable {
        /// The patch.
        patch: String,
        /// The releases that it supports.
        versions: String,
        /// The release.
        version: String,
    },
    /// A site is missing, or there are several.
    #[error("{patch}: site {site} was not found: {reason}")]
    Drift {
        /// The patch.
        patch: String,
        /// The site.
        site: String,
        /// Report on the signatures.
        reason: String,
    },
    /// The client already has a function of that name.
    #[error("{patch}: the client already contains `{name}`, the name of what would be injected")]
    NameTaken {
        /// The patch.
        patch: String,
        /// The function's name.
        name: String,
    },
    /// Edits of several patches overlap.
    #[error("the patches conflict: {0}")]
    Splice(#[from] SpliceError),
    /// The result is not as planned.
    #[error("the patched file fails its check: {0}; nothing was changed. Please report this")]
    Check(String),
}

/// Patches a client in memory: finds the sites, splices, parses the result, and finds the edited sites in it.
///
/// # Errors
/// If a site is missing or the result fails its check.
pub fn plan(
    container: &Container,
    patches: &[&Patch],
    version: Option<&Version>,
    original_sha256: &str,
) -> Result<PatchPlan, PlanError> {
    let plan = plan_unchecked(container, patches, version, original_sha256, None)?;
    check(container, patches, version, &plan)?;
    Ok(plan)
}

/// Like [`plan`], but the result is not checked ([`check`]), and the sites may be known already.
///
/// # Errors
/// If a patch is not for the release, a site is missing, a name is taken, edits overlap, or a module cannot be read.
pub fn plan_unchecked(
    container: &Container,
    patches: &[&Patch],
    version: Option<&Version>,
    original_sha256: &str,
    located: Option<Located>,
) -> Result<PatchPlan, PlanError> {
    if let Some(patch) = patches.iter().find(|patch| !patch.applies_to(version)) {
        let version = version.map_or_else(String::new, Version::to_string);
        return Err(PlanError::NotApplicable { patch: patch.id.clone(), versions: patch.supported(), version });
    }
    let located = located.map_or_else(|| locate(container, patches, version, TextForm::Original), Ok)?;
    let mut changes = Vec::new();
    for patch in patches {
        if let Some(missing) = located.missing_required(&patch.id).next() {
            let reason = Excerpts::of(container).reason(missing);
            return Err(PlanError::Drift { patch: patch.id.clone(), site: missing.site.clone(), reason });
        }
        changes.extend(patch_changes(container, patch, version, &located, original_sha256)?);
    }
    let modules = rewrite_modules(container, &changes)?;
    Ok(PatchPlan { modules, changes, located })
}

/// The changes of a patch to one module: the position of the marker, and position, old text and new text of each edit.
struct Touched {
    item: Span,
    edits: Vec<(u32, String, String)>,
}

fn patch_changes(
    container: &Container,
    patch: &Patch,
    version: Option<&Version>,
    located: &Located,
    original: &str,
) -> Result<Vec<PlannedChange>, PlanError> {
    let runtime = patch.runtime_of(version);
    let native = container.kind().is_native();
    let mut changes = Vec::new();
    let mut touched: BTreeMap<usize, Touched> = BTreeMap::new();
    for edit in &patch.edits {
        // Required sites are there; an edit at an optional one that is missing is left out.
        let Some(site) = located.site(&patch.id, &edit.site).filter(|site| edit.is_for(&site.signature)) else { continue };
        let text = container.module(site.module)?.text;
        let (span, new) = expand(edit, site, &related(patch, located, site), text);
        let old = text[span.range()].to_owned();
        let touched = touched.entry(site.module).or_insert_with(|| Touched { item: site.item, edits: Vec::new() });
        touched.edits.push((span.lo, old.clone(), new.clone()));
        changes.push(PlannedChange {
            patch: patch.id.clone(),
            site: Some(edit.site.clone()),
            module: site.module,
            item: site.item,
            span,
            old,
            new,
        });
    }
    for (module, Touched { mut item, edits }) in touched {
        let mut source = "";
        if let Some(runtime) = &runtime
            && let Some(site) = located.site(&patch.id, &runtime.site).filter(|site| site.module == module)
        {
            let name = &runtime.function;
            if memchr::memmem::find(container.module(module)?.text.as_bytes(), name.as_bytes()).is_some() {
                return Err(PlanError::NameTaken { patch: patch.id.clone(), name: name.clone() });
            }
            (item, source) = (site.item, &runtime.source);
        }
        let marker = Marker::new(&patch.id, original, item.lo, source, &edits);
        // Of an executable, the marker alone cannot give the original back: headers and signatures change, too.
        let marker = if native { marker.sealable() } else { marker };
        changes.push(PlannedChange {
            patch: patch.id.clone(),
            site: None,
            module,
            item,
            span: Span::new(item.lo, item.lo),
            old: String::new(),
            new: marker.comment() + source,
        });
    }
    Ok(changes)
}

/// The sites of the same module whose metavariables this one shares: an edit may use them like its own.
fn related<'l>(patch: &Patch, located: &'l Located, site: &Site) -> Vec<&'l Site> {
    let signatures = patch.site(&site.site).into_iter().flat_map(|rule| &rule.signatures);
    let needed = signatures.filter(|signature| signature.id == site.signature).flat_map(Signature::depends_on);
    let found = needed.filter_map(|name| located.site(&patch.id, name));
    found.filter(|other| other.module == site.module).collect()
}

/// Position of an edit, and its new text.
fn expand(edit: &EditRule, site: &Site, related: &[&Site], text: &str) -> (Span, String) {
    let bound = |name: &str| [site].iter().chain(related).find_map(|site| site.bindings.get(name));
    let mut new = String::new();
    // In one pass: the replacement of a name is the client's code, in which a `$` has no meaning.
    let mut rest = edit.with.as_str();
    while let Some(at) = rest.find('$') {
        new.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let length = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).unwrap_or(rest.len());
        match bound(&rest[..length]) {
            Some(bound) => new.push_str(&text[bound.node.span.range()]),
            None => {
                new.push('$');
                new.push_str(&rest[..length]);
            }
        }
        rest = &rest[length..];
    }
    new.push_str(rest);
    (site.bindings[&edit.replace].node.span, new)
}

fn rewrite_modules(container: &Container, changes: &[PlannedChange]) -> Result<Vec<RewrittenModule>, PlanError> {
    let mut edits: BTreeMap<usize, Vec<TextEdit>> = BTreeMap::new();
    for change in changes {
        edits.entry(change.module).or_default().push(TextEdit { span: change.span, text: change.new.clone() });
    }
    let rewrite = |(module, edits)| Ok(RewrittenModule { module, text: splice(container.module(module)?.text, edits)? });
    edits.into_iter().map(rewrite).collect()
}

/// Checks the result like a foreign file: it must parse, have one more item for each injected function, and have every site where
/// it must be, edited or not.
///
/// # Errors
/// If it is not as planned.
pub fn check(container: &Container, patches: &[&Patch], version: Option<&Version>, plan: &PatchPlan) -> Result<(), PlanError> {
    let fail = |message: String| PlanError::Check(message);
    let patched = container.with(&plan.modules);
    // That there is one place alone is known; now it is about where that has gone.
    let after = locate_in(&patched, patches, version, TextForm::Edited, |module| plan.located.items.contains_key(&module))
        .map_err(|error| fail(error.to_string()))?;
    for RewrittenModule { module, .. } in &plan.modules {
        let injected = |change: &&PlannedChange| change.module == *module && change.site.is_none() && !change.new.ends_with("*/");
        let expected = plan.located.items.get(module).map(|items| items + plan.changes.iter().filter(injected).count());
        let found = after.items.get(module);
        if found != expected.as_ref() {
            return Err(fail(format!("{} top-level items of a module, not {}", found.unwrap_or(&0), expected.unwrap_or(0))));
        }
    }
    for before in &plan.located.sites {
        let expected = i64::from(before.span.lo) + shift(&plan.changes, before);
        match after.site(&before.patch, &before.site) {
            Some(site) if i64::from(site.span.lo) == expected && site.signature == before.signature => {}
            Some(site) => return Err(fail(format!("{} is at byte {}, not {expected}", site.site, site.span.lo))),
            None => {
                let missing = after.missing.iter().find(|missing| missing.site == before.site);
                let reason = missing.map_or_else(String::new, |missing| Excerpts::of(&patched).reason(missing));
                return Err(fail(format!("{} is gone: {reason}", before.site)));
            }
        }
    }
    Ok(())
}

/// Number of bytes by which a site moves, since the changes before it grow.
fn shift(changes: &[PlannedChange], site: &Site) -> i64 {
    let before = changes.iter().filter(|change| change.module == site.module && change.span.hi <= site.span.lo);
    before.map(|change| change.new.len() as i64 - change.old.len() as i64).sum()
}
