//! The one pass over all modules: what fits a signature by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use memchr::memmem;
use semver::Version;

use super::LocateError;
use crate::patch::catalogue::Patch;
use crate::patch::container::Module;
use crate::patch::pattern::Nearest;
use crate::patch::schema::in_range;
use crate::patch::signature::{Candidate, Form, Rejected, Signature};
use crate::patch::syntax::{Item, Node, Span, fold_items, for_each_item, for_each_item_in};

/// What one signature found; places come with the index of their module.
#[derive(Debug, Default)]
pub(super) struct SignatureResult {
    pub candidates: Vec<(usize, Candidate)>,
    pub rejected: Vec<(usize, Rejected)>,
    pub nearest: Option<(usize, Nearest)>,
    /// Words it needs that occur in no module.
    pub missing_words: Vec<String>,
}

impl SignatureResult {
    fn add(&mut self, later: Self) {
        let best = |result: &Self| result.nearest.as_ref().map_or((0, 0), |(_, nearest)| (nearest.alike, nearest.matched));
        if best(&later) > best(self) {
            self.nearest = later.nearest;
        }
        self.candidates.extend(later.candidates);
        self.rejected.extend(later.rejected);
    }
}

/// What the pass found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub items: usize,
    /// By patch, site and signature.
    results: HashMap<(usize, usize, usize), SignatureResult>,
    /// Top-level functions, by module and name.
    functions: HashMap<(usize, String), Span>,
}

/// A signature to look for, with the words that lead to it.
struct Wanted<'p> {
    key: (usize, usize, usize),
    signature: &'p Signature,
    words: BTreeSet<&'p str>,
}

impl Scan {
    pub fn run(modules: &[Module<'_>], patches: &[&Patch], version: Option<&Version>, form: Form) -> Result<Self, LocateError> {
        let mut scan = Self::default();
        let wanted = wanted(patches, version, form);
        let all_words: BTreeSet<&str> = wanted.iter().flat_map(|wanted| wanted.words.iter().copied()).collect();
        let mut seen = BTreeSet::new();
        for (index, module) in modules.iter().enumerate() {
            let places = Places::find(module.text, &all_words);
            seen.extend(places.words());
            let visit = |part: &mut Self, item: Item<'_>| part.visit(index, &item, &wanted, &places, form);
            let parts = fold_items(module.text, module.goal, Self::default, visit);
            let parts = parts.map_err(|cause| LocateError::Syntax { module: module.name.to_owned(), cause })?;
            parts.into_iter().for_each(|part| scan.merge(part));
        }
        scan.look_closer(modules, &wanted, form);
        for wanted in wanted {
            let missing = wanted.words.iter().filter(|word| !seen.contains(*word)).map(|word| (*word).to_owned()).collect();
            scan.results.entry(wanted.key).or_default().missing_words = missing;
        }
        Ok(scan)
    }

    /// For signatures that found nothing because no item has all of their words: how far they get in the item that has the most.
    /// A second pass, for the report on a client that has drifted.
    fn look_closer(&mut self, modules: &[Module<'_>], wanted: &[Wanted<'_>], form: Form) {
        let found = |site: (usize, usize)| {
            let of_site = |(key, result): (&(usize, usize, usize), &SignatureResult)| {
                (key.0, key.1) == site && !(result.candidates.is_empty() && result.rejected.is_empty())
            };
            self.results.iter().any(of_site)
        };
        let lost = wanted.iter().filter(|wanted| !wanted.words.is_empty() && !found((wanted.key.0, wanted.key.1)));
        let lost: Vec<&Wanted<'_>> = lost.collect();
        let words: BTreeSet<&str> = lost.iter().flat_map(|wanted| wanted.words.iter().copied()).collect();
        // For each, how many words the best item has, and where it is.
        let mut best: Vec<Option<(usize, usize, Span)>> = vec![None; lost.len()];
        for (index, module) in modules.iter().enumerate().filter(|_| !lost.is_empty()) {
            let places = Places::find(module.text, &words);
            let visit = |item: Item<'_>| {
                for (wanted, best) in lost.iter().zip(&mut best) {
                    let count = wanted.words.iter().filter(|word| places.within(word, item.span)).count();
                    if count > best.map_or(0, |(count, ..)| count) {
                        *best = Some((count, index, item.span));
                    }
                }
            };
            // It parsed before.
            for_each_item(module.text, module.goal, visit).ok();
        }
        for (wanted, best) in lost.into_iter().zip(best) {
            let Some((_, module, span)) = best else { continue };
            let Module { text, goal, .. } = modules[module];
            let visit = |item: Item<'_>| {
                let nearest = wanted.signature.candidates(form, &item.lower(), item.span).nearest;
                let result = SignatureResult { nearest: nearest.map(|nearest| (module, nearest)), ..SignatureResult::default() };
                self.results.entry(wanted.key).or_default().add(result);
            };
            for_each_item_in(text, span, goal, visit).ok();
        }
    }

    pub fn result(&self, patch: usize, site: usize, signature: usize) -> &SignatureResult {
        &self.results[&(patch, site, signature)]
    }

    pub fn function(&self, module: usize, name: &str) -> Option<Span> {
        self.functions.get(&(module, name.to_owned())).copied()
    }

    /// Adds what was found further on.
    fn merge(&mut self, later: Self) {
        self.items += later.items;
        self.functions.extend(later.functions);
        for (key, result) in later.results {
            self.results.entry(key).or_default().add(result);
        }
    }

    fn visit(&mut self, module: usize, item: &Item<'_>, wanted: &[Wanted<'_>], places: &Places<'_>, form: Form) {
        self.items += 1;
        if let Some(name) = item.function_name() {
            self.functions.insert((module, name.to_owned()), item.span);
        }
        let mut lowered: Option<Node> = None;
        for wanted in wanted {
            // Without a word to look for, a signature would have to be tried on everything; such a one is looked up by name.
            if wanted.words.is_empty() || !wanted.words.iter().all(|word| places.within(word, item.span)) {
                continue;
            }
            let node = lowered.get_or_insert_with(|| item.lower());
            let found = wanted.signature.candidates(form, node, item.span);
            let result = self.results.entry(wanted.key).or_default();
            result.add(SignatureResult {
                candidates: found.candidates.into_iter().map(|candidate| (module, candidate)).collect(),
                rejected: found.rejected.into_iter().map(|rejected| (module, rejected)).collect(),
                nearest: found.nearest.map(|nearest| (module, nearest)),
                missing_words: Vec::new(),
            });
        }
    }
}

fn wanted<'p>(patches: &[&'p Patch], version: Option<&Version>, form: Form) -> Vec<Wanted<'p>> {
    let mut wanted = Vec::new();
    for (patch_index, patch) in patches.iter().enumerate() {
        for (site_index, site) in patch.sites.iter().enumerate() {
            for (index, signature) in site.signatures.iter().enumerate() {
                if in_range(&site.versions, version) && in_range(&signature.versions, version) {
                    wanted.push(Wanted { key: (patch_index, site_index, index), signature, words: signature.anchors(form) });
                }
            }
        }
    }
    wanted
}

/// Where each word stands in a module, in order.
struct Places<'w> {
    by_word: BTreeMap<&'w str, Vec<u32>>,
}

impl<'w> Places<'w> {
    fn find(text: &str, words: &BTreeSet<&'w str>) -> Self {
        let places = |word: &&'w str| {
            let found = memmem::find_iter(text.as_bytes(), word.as_bytes()).map(|at| at as u32);
            (*word, found.collect())
        };
        Self { by_word: words.iter().map(places).collect() }
    }

    fn words(&self) -> impl Iterator<Item = &'w str> {
        self.by_word.iter().filter(|(_, places)| !places.is_empty()).map(|(word, _)| *word)
    }

    fn within(&self, word: &str, span: Span) -> bool {
        let Some(places) = self.by_word.get(word) else { return false };
        let first = places.partition_point(|at| *at < span.lo);
        places.get(first).is_some_and(|at| *at < span.hi)
    }
}
