/*!
Finds the sites of patches in a client.

One pass over the modules collects, for each signature, the places that fit it by themselves. Only top-level items with all of a
signature's literal words are examined. Then the sites are resolved in the order of their dependencies, with their relations (same
names, same function, before or after). A site is found if exactly one place fits one of its signatures. Anything else is drift,
and the [`Attempt`]s describe how far each signature got.
*/

mod names;
mod report;
mod scan;

use std::collections::BTreeMap;

use semver::{Version, VersionReq};

use super::catalog::{Patch, SiteRule};
use super::container::{Container, ContainerError, Module};
use super::pattern::{NearestMiss, same};
use super::schema::in_range;
use super::signature::{BoundNode, RejectedMatch, Signature, SiteCandidate, TextForm};
use super::syntax::{Span, SyntaxError, for_each_item_in};

pub use report::Excerpts;
use scan::ModuleScan;

/// Errors from searching the modules of a client.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LocateError {
    /// A module is not JavaScript.
    #[error("{module} is not JavaScript: {cause}")]
    Syntax {
        /// The module.
        module: String,
        /// The syntax error, with its position.
        cause: SyntaxError,
    },
    /// A module is not text.
    #[error(transparent)]
    Container(#[from] ContainerError),
}

/// A site that was found.
#[derive(Debug, Clone)]
pub struct Site {
    /// The patch that asked for it.
    pub patch: String,
    /// Its name.
    pub site: String,
    /// The signature that matched.
    pub signature: String,
    /// The index of the module in the container.
    pub module: usize,
    /// The module's name.
    pub module_name: String,
    /// The matched code.
    pub span: Span,
    /// The top-level item it is in.
    pub item: Span,
    /// Start of the matched code in the bytes of the module.
    pub offset: usize,
    /// 1-based line of the matched code.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
    /// The named function it is in, or that it is.
    pub function: Option<String>,
    /// Values of the metavariables.
    pub bindings: BTreeMap<String, BoundNode>,
}

impl Site {
    /// The metavariables bound to names, in lower case, with these names.
    pub fn names(&self) -> BTreeMap<String, String> {
        let names = self.bindings.iter().filter_map(|(metavariable, bound)| Some((metavariable, bound.node.name()?)));
        names.map(|(metavariable, name)| (metavariable.to_ascii_lowercase(), name.to_owned())).collect()
    }
}

/// A site that was not found, with the reasons.
#[derive(Debug, Clone)]
pub struct MissingSite {
    /// The patch that asked for it.
    pub patch: String,
    /// The site.
    pub site: String,
    /// `true` if the patch cannot be applied without it.
    pub required: bool,
    /// Results of the signatures.
    pub attempts: Vec<Attempt>,
}

/// Result of one signature that did not give a site.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The signature.
    pub signature: String,
    /// Its result.
    pub outcome: AttemptOutcome,
}

/// Reasons why a signature gave no site. Places are a module's index and a span.
#[derive(Debug, Clone)]
pub enum AttemptOutcome {
    /// A literal word that it needs occurs nowhere.
    NoAnchor {
        /// The words that do not occur.
        words: Vec<String>,
    },
    /// The pattern matches nowhere.
    NoMatch {
        /// The best attempt.
        nearest: Option<(usize, NearestMiss)>,
    },
    /// The pattern matches, but never at a place that the signature allows.
    Rejected(Vec<(usize, RejectedMatch)>),
    /// Several places fit.
    Several(Vec<(usize, Span)>),
    /// Another site must be found first.
    Needs(String),
    /// It names a function that the module does not declare.
    NoFunction(String),
}

/// Result of a search for sites.
#[derive(Debug, Default)]
pub struct Located {
    /// The sites found, in the order of the catalog.
    pub sites: Vec<Site>,
    /// The sites not found.
    pub missing: Vec<MissingSite>,
    /// Top-level items of each module that was parsed, by its index.
    pub items: BTreeMap<usize, usize>,
}

impl Located {
    /// A site that was found.
    pub fn site(&self, patch: &str, name: &str) -> Option<&Site> {
        self.sites.iter().find(|site| site.patch == patch && site.site == name)
    }

    /// Required sites of a patch that were not found.
    pub fn missing_required<'l>(&'l self, patch: &'l str) -> impl Iterator<Item = &'l MissingSite> {
        self.missing.iter().filter(move |missing| missing.patch == patch && missing.required)
    }
}

/// Looks for the sites of these patches. `version` says which sites there are, and breaks ties between places and signatures.
///
/// # Errors
/// If a module is not JavaScript.
pub fn locate(
    container: &Container,
    patches: &[&Patch],
    version: Option<&Version>,
    form: TextForm,
) -> Result<Located, LocateError> {
    locate_in(container, patches, version, form, |_| true)
}

/// Like [`locate`], but only in modules whose index is `wanted`. Functions that those import are followed anywhere.
///
/// # Errors
/// If a module is not JavaScript.
pub fn locate_in(
    container: &Container,
    patches: &[&Patch],
    version: Option<&Version>,
    form: TextForm,
    wanted: impl Fn(usize) -> bool,
) -> Result<Located, LocateError> {
    let mut scan = ModuleScan::run(container, patches, version, form, wanted)?;
    let mut located = Located { items: std::mem::take(&mut scan.items), ..Located::default() };
    for (index, patch) in patches.iter().enumerate() {
        let mut resolver = Resolver { container, scan: &scan, patch, index, version, form, found: BTreeMap::new() };
        for rule in &patch.sites {
            resolver.resolve(&rule.name);
        }
        for rule in &patch.sites {
            match resolver.found.remove(&rule.name) {
                Some(Ok((signature, module, candidate))) => {
                    located.sites.push(site(patch, rule, signature, module, &container.module(module)?, candidate));
                }
                Some(Err(attempts)) => located.missing.push(MissingSite {
                    patch: patch.id.clone(),
                    site: rule.name.clone(),
                    // A client that does not say what release it is may be one that never had the site.
                    required: rule.required && (version.is_some() || rule.versions == VersionReq::STAR),
                    attempts,
                }),
                None => {}
            }
        }
    }
    Ok(located)
}

fn site(patch: &Patch, rule: &SiteRule, signature: String, index: usize, module: &Module<'_>, candidate: SiteCandidate) -> Site {
    let (line, column) = module.position(candidate.span.lo);
    Site {
        patch: patch.id.clone(),
        site: rule.name.clone(),
        signature,
        module: index,
        module_name: module.name.to_owned(),
        span: candidate.span,
        item: candidate.item,
        offset: module.byte_offset(candidate.span.lo),
        line,
        column,
        function: candidate.function,
        bindings: candidate.bindings,
    }
}

/// Signature, module and place; or the results of all signatures.
type Resolution = Result<(String, usize, SiteCandidate), Vec<Attempt>>;

/// Resolves the sites of one patch.
struct Resolver<'a> {
    container: &'a Container,
    scan: &'a ModuleScan,
    patch: &'a Patch,
    index: usize,
    version: Option<&'a Version>,
    form: TextForm,
    found: BTreeMap<String, Resolution>,
}

impl Resolver<'_> {
    /// Resolves a site, after those it depends on. The catalog has no cycles.
    ///
    /// The shape chooses the signature, whatever the release: releases do not go one way only. Where the release decides is between
    /// several places, and between several signatures that fit one.
    fn resolve(&mut self, name: &str) {
        if self.found.contains_key(name) {
            return;
        }
        let Some((site, rule)) = self.patch.sites.iter().enumerate().find(|(_, site)| site.name == name) else { return };
        if !in_range(&rule.versions, self.version) {
            return;
        }
        let mut places = Vec::new();
        let mut attempts = Vec::new();
        for (number, signature) in rule.signatures.iter().enumerate() {
            let is_expected = in_range(&signature.versions, self.version);
            signature.depends_on().for_each(|needed| self.resolve(needed));
            match self.places(site, number, signature) {
                Ok(found) => places.extend(found.into_iter().map(|(module, place)| (is_expected, &signature.id, module, place))),
                Err(outcome) if is_expected => attempts.push(Attempt { signature: signature.id.clone(), outcome }),
                Err(_) => {}
            }
        }
        // Stable: signatures of the release come first, each kind in the order of the catalog.
        places.sort_by_key(|(is_expected, ..)| !is_expected);
        let mut seen = Vec::new();
        places.retain(|(_, _, module, place): &(bool, &String, usize, SiteCandidate)| {
            let new = !seen.contains(&(*module, place.span));
            seen.push((*module, place.span));
            new
        });
        if places.iter().any(|(is_expected, ..)| *is_expected) {
            places.retain(|(is_expected, ..)| *is_expected);
        }
        let resolution = match places.len() {
            0 => Err(attempts),
            1 => {
                let (_, id, module, place) = places.remove(0);
                Ok((id.clone(), module, place))
            }
            _ => {
                let mut ids: Vec<&str> = places.iter().map(|(_, id, ..)| id.as_str()).collect();
                ids.dedup();
                let signature = ids.join(", ");
                let spans = places.iter().map(|(_, _, module, place)| (*module, place.span)).collect();
                Err(vec![Attempt { signature, outcome: AttemptOutcome::Several(spans) }])
            }
        };
        self.found.insert(name.to_owned(), resolution);
    }

    /// The places of one signature that also fit the sites already found.
    fn places(&self, site: usize, number: usize, signature: &Signature) -> Result<Vec<(usize, SiteCandidate)>, AttemptOutcome> {
        let mut known = Vec::new();
        for needed in signature.depends_on() {
            match self.found.get(needed) {
                Some(Ok((_, module, place))) => known.push((needed, *module, place)),
                _ => return Err(AttemptOutcome::Needs(needed.clone())),
            }
        }
        let looked_up;
        let (candidates, mut rejected, nearest) = match self.look_up(signature, &known)? {
            Some((module, found)) => {
                let tag = |candidate| (module, candidate);
                let rejected = found.rejected.into_iter().map(|rejected| (module, rejected)).collect();
                looked_up = found.candidates.into_iter().map(tag).collect();
                (&looked_up, rejected, found.nearest.map(|nearest| (module, nearest)))
            }
            None => {
                // One that is looked up by name, and no site has told the name.
                let nothing = AttemptOutcome::NoMatch { nearest: None };
                let result = self.scan.result(self.index, site, number).ok_or(nothing)?;
                if !result.missing_words.is_empty() {
                    return Err(AttemptOutcome::NoAnchor { words: result.missing_words.clone() });
                }
                (&result.candidates, result.rejected.clone(), result.nearest.clone())
            }
        };
        let mut fitting = Vec::new();
        for (module, candidate) in candidates {
            match relate(signature, *module, candidate, &known) {
                Ok(candidate) => fitting.push((*module, candidate)),
                Err(reason) => rejected.push((*module, RejectedMatch { span: candidate.span, reason })),
            }
        }
        match (fitting.is_empty(), rejected.is_empty()) {
            (false, _) => Ok(fitting),
            (true, false) => Err(AttemptOutcome::Rejected(rejected)),
            (true, true) => Err(AttemptOutcome::NoMatch { nearest }),
        }
    }

    /// Looks up the function of a signature whose pattern declares a function that another site names.
    fn look_up(
        &self,
        signature: &Signature,
        known: &[(&String, usize, &SiteCandidate)],
    ) -> Result<Option<(usize, super::signature::SignatureMatches)>, AttemptOutcome> {
        let Some(metavariable) = signature.pattern(self.form).declared_function() else { return Ok(None) };
        let bound = known.iter().find_map(|(_, module, place)| Some((*module, place.bindings.get(metavariable)?.node.name()?)));
        let Some((module, name)) = bound else { return Ok(None) };
        let no_function = || AttemptOutcome::NoFunction(name.to_owned());
        let (module, span) = self.scan.function(self.container, module, name).ok_or_else(no_function)?;
        let mut found = super::signature::SignatureMatches::default();
        let Module { text, goal, .. } = self.container.module(module).map_err(|_| no_function())?;
        // The item parsed a moment ago, so it parses again.
        let parsed =
            for_each_item_in(text, span, goal, &mut |item| found = signature.candidates(self.form, &item.lower(), item.span));
        parsed.map_err(|_| no_function())?;
        Ok(Some((module, found)))
    }
}

/// Checks the relations of a candidate to the sites already found, and adds their bindings to it.
fn relate(
    signature: &Signature,
    module: usize,
    candidate: &SiteCandidate,
    known: &[(&String, usize, &SiteCandidate)],
) -> Result<SiteCandidate, String> {
    let mut related = candidate.clone();
    for (name, other_module, other) in known {
        for (metavariable, bound) in &other.bindings {
            if let Some(own) = candidate.bindings.get(metavariable)
                && !same(&own.node, &bound.node)
            {
                return Err(format!("${metavariable} is not what it is at {name}"));
            }
        }
        let neighbors = [(&signature.after, "behind"), (&signature.before, "before")];
        for (_, side) in neighbors.into_iter().filter(|(site, _)| site.as_ref() == Some(name)) {
            let same_function = module == *other_module && candidate.function_span == other.function_span;
            let in_order = if side == "behind" { other.span.hi <= candidate.span.lo } else { candidate.span.hi <= other.span.lo };
            if !(same_function && in_order) {
                return Err(format!("it does not stand {side} {name} in the same function"));
            }
            for (metavariable, bound) in &other.bindings {
                related.bindings.entry(metavariable.clone()).or_insert_with(|| bound.clone());
            }
        }
    }
    Ok(related)
}
