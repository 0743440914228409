//! The one pass over all modules: finds the places that fit a signature by itself.
//!
//! A module is decoded and parsed only if its raw bytes have all literal words of a signature.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use memchr::memmem;
use semver::Version;

use super::LocateError;
use super::names::{self, Names};
use crate::catalog::Patch;
use crate::container::{Container, Module};
use crate::pattern::NearestMiss;
use crate::schema::in_range;
use crate::signature::{RejectedMatch, Signature, SiteCandidate, TextForm};
use ctxbridge_syntax::{Item, Node, Span, fold_items, for_each_item, for_each_item_in};

/// Results of one signature; places come with the index of their module.
#[derive(Debug, Default)]
pub(super) struct SignatureResult {
    pub candidates: Vec<(usize, SiteCandidate)>,
    pub rejected: Vec<(usize, RejectedMatch)>,
    pub nearest: Option<(usize, NearestMiss)>,
    /// Words it needs, but that occur in no module.
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

/// Results of the pass.
#[derive(Debug, Default)]
pub(super) struct ModuleScan {
    /// Top-level items of each module that was parsed.
    pub items: BTreeMap<usize, usize>,
    /// By patch, site and signature.
    results: HashMap<(usize, usize, usize), SignatureResult>,
    /// The top-level names of each module that was parsed.
    names: HashMap<usize, Names>,
}

/// A signature to look for, with the words that lead to it. The longest word comes first, since it is in the fewest modules.
struct WantedSignature<'p> {
    key: (usize, usize, usize),
    /// The release is one that should look like this. Others are looked for, too: releases do not go one way only.
    is_expected: bool,
    signature: &'p Signature,
    words: Vec<&'p str>,
}

impl WantedSignature<'_> {
    /// `true` if a module may match.
    fn is_wanted_in(&self, bytes: &[u8]) -> bool {
        // Without a word to look for, a signature would have to be tried on everything; such a one is looked up by name.
        let has = |word: &&str| !word.is_ascii() || memmem::find(bytes, word.as_bytes()).is_some();
        !self.words.is_empty() && self.words.iter().all(has)
    }
}

impl ModuleScan {
    pub fn run(
        container: &Container,
        patches: &[&Patch],
        version: Option<&Version>,
        form: TextForm,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<Self, LocateError> {
        let mut scan = Self::default();
        let wanted = wanted(patches, version, form);
        for (index, raw) in container.modules().enumerate().filter(|(index, _)| is_wanted(*index)) {
            // Of thousands of modules, a few have the words of any signature, as bytes. Only those are decoded and parsed.
            let wanted: Vec<&WantedSignature<'_>> = wanted.iter().filter(|wanted| wanted.is_wanted_in(raw.bytes)).collect();
            if wanted.is_empty() && container.kind().is_native() {
                continue;
            }
            let module = container.module(index)?;
            let words = wanted.iter().flat_map(|wanted| wanted.words.iter().copied()).collect();
            let places = WordPositions::find(module.text, &words);
            let visit = |part: &mut Self, item: Item<'_>| part.visit(index, &item, &wanted, &places, form);
            let parts = fold_items(module.text, module.goal, Self::default, visit);
            let parts = parts.map_err(|cause| LocateError::Syntax { module: module.name.to_owned(), cause })?;
            parts.into_iter().for_each(|part| scan.merge(part));
        }
        for wanted in &wanted {
            scan.results.entry(wanted.key).or_default();
        }
        scan.look_closer(container, &wanted, form);
        Ok(scan)
    }

    /// Finds the nearest miss of signatures that found nothing because no item has all of their words: in the item that has the
    /// most. This second pass is for the report on a client that has drifted.
    fn look_closer(&mut self, container: &Container, wanted: &[WantedSignature<'_>], form: TextForm) {
        let found = |site: (usize, usize)| {
            let of_site = |wanted: &&WantedSignature<'_>| wanted.is_expected && (wanted.key.0, wanted.key.1) == site;
            let mut results = wanted.iter().filter(of_site).filter_map(|wanted| self.results.get(&wanted.key));
            results.any(|result| !(result.candidates.is_empty() && result.rejected.is_empty()))
        };
        let lost =
            wanted.iter().filter(|wanted| wanted.is_expected && !wanted.words.is_empty() && !found((wanted.key.0, wanted.key.1)));
        let lost: Vec<&WantedSignature<'_>> = lost.collect();
        for wanted in lost {
            let words: BTreeSet<&str> = wanted.words.iter().copied().collect();
            let has = |bytes: &[u8]| words.iter().filter(|word| memmem::find(bytes, word.as_bytes()).is_some()).count();
            let result = self.results.entry(wanted.key).or_default();
            let nowhere = |word: &&&str| container.modules().all(|raw| memmem::find(raw.bytes, word.as_bytes()).is_none());
            result.missing_words = words.iter().filter(nowhere).map(|word| (*word).to_owned()).collect();
            let Some((index, _)) = container.modules().map(|raw| has(raw.bytes)).enumerate().max_by_key(|(_, count)| *count)
            else {
                continue;
            };
            let Ok(Module { text, goal, .. }) = container.module(index) else { continue };
            let places = WordPositions::find(text, &words);
            // How many words the best item has, and where it is.
            let mut best: Option<(usize, Span)> = None;
            let visit = |item: Item<'_>| {
                let count = words.iter().filter(|word| places.within(word, item.span)).count();
                if count > best.map_or(0, |(count, _)| count) {
                    best = Some((count, item.span));
                }
            };
            // Where it does not parse, what came before is still told.
            for_each_item(text, goal, visit).ok();
            let Some((_, span)) = best else { continue };
            let mut visit = |item: Item<'_>| {
                let nearest = wanted.signature.candidates(form, &item.lower(), item.span).nearest;
                let nearest = nearest.map(|nearest| (index, nearest));
                result.add(SignatureResult { nearest, ..SignatureResult::default() });
            };
            for_each_item_in(text, span, goal, &mut visit).ok();
        }
    }

    pub fn result(&self, patch: usize, site: usize, signature: usize) -> Option<&SignatureResult> {
        self.results.get(&(patch, site, signature))
    }

    /// The function behind a top-level name of a module.
    pub fn function(&self, container: &Container, module: usize, name: &str) -> Option<(usize, Span)> {
        names::function(container, &self.names, module, name)
    }

    /// Adds the results of later modules.
    fn merge(&mut self, later: Self) {
        later.items.into_iter().for_each(|(module, count)| *self.items.entry(module).or_default() += count);
        later.names.into_iter().for_each(|(module, names)| self.names.entry(module).or_default().merge(names));
        for (key, result) in later.results {
            self.results.entry(key).or_default().add(result);
        }
    }

    fn visit(
        &mut self,
        module: usize,
        item: &Item<'_>,
        wanted: &[&WantedSignature<'_>],
        places: &WordPositions<'_>,
        form: TextForm,
    ) {
        *self.items.entry(module).or_default() += 1;
        self.names.entry(module).or_default().add(item);
        let mut lowered: Option<Node> = None;
        for wanted in wanted {
            if !wanted.words.iter().all(|word| places.within(word, item.span)) {
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

fn wanted<'p>(patches: &[&'p Patch], version: Option<&Version>, form: TextForm) -> Vec<WantedSignature<'p>> {
    let mut wanted = Vec::new();
    for (patch_index, patch) in patches.iter().enumerate() {
        for (site_index, site) in patch.sites.iter().enumerate() {
            for (index, signature) in site.signatures.iter().enumerate() {
                if in_range(&site.versions, version) && !signature.is_looked_up() {
                    let mut words: Vec<&str> = signature.anchors(form).into_iter().collect();
                    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
                    let is_expected = in_range(&signature.versions, version);
                    wanted.push(WantedSignature { key: (patch_index, site_index, index), is_expected, signature, words });
                }
            }
        }
    }
    wanted
}

/// Positions of words in a module, in order.
struct WordPositions<'w> {
    by_word: BTreeMap<&'w str, Vec<u32>>,
}

impl<'w> WordPositions<'w> {
    fn find(text: &str, words: &BTreeSet<&'w str>) -> Self {
        let places = |word: &&'w str| {
            let found = memmem::find_iter(text.as_bytes(), word.as_bytes()).map(|at| at as u32);
            (*word, found.collect())
        };
        Self { by_word: words.iter().map(places).collect() }
    }

    fn within(&self, word: &str, span: Span) -> bool {
        let Some(places) = self.by_word.get(word) else { return false };
        let first = places.partition_point(|at| *at < span.lo);
        places.get(first).is_some_and(|at| *at < span.hi)
    }
}
