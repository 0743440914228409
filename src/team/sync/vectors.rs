//! Vectors of what was sent, for a store that keeps some: they tell what a text says, so those of a text with a secret stay here.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Open, SyncError, Synced, Work};
use ctxbridge_archive::embed::Model;
use ctxbridge_archive::search::passages::Texts;
use ctxbridge_archive::search::{Index, is_short, said};
use ctxbridge_archive::store::{ImportedEmbedding, Place, Store, StoreError, StoredTurn, Vectors};
use ctxbridge_archive::words;
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_redact::Redactor;
use ctxbridge_transcript::Fields;

/// Entries between two looks at the clock, and that are sent at once.
const AT_ONCE: usize = 20;

/// Entries that are asked for at once where of most of them there is nothing to send.
const LISTED: usize = 1_000;

/// Dimensions of the model's vectors, and of those that other tools made.
const DIMENSIONS: usize = 384;
const IMPORTED: usize = 768;

/// How long to wait for a process that writes the index here.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the vectors of an entry are.
enum Given {
    /// They are here.
    Here(Vec<Vec<f32>>),
    /// They are to be made of these texts.
    Of(Texts),
}

impl Work<'_> {
    /// Sends the vectors that the other store has none of, as far as there is something that gives them.
    pub(super) fn vectors(&self) -> Result<(), SyncError> {
        let Some(model) = self.sync.model else { return Ok(()) };
        if self.state().has_vectors(model_of(model)) {
            return Ok(());
        }
        let mut open = Open::default();
        let refusal = self.persistently(&mut open, |open| match self.opened(open)?.vectors() {
            Some(vectors) => Ok(Some(vectors.refusal()?)),
            None => Ok(None),
        })?;
        match refusal {
            None => return Ok(()),
            Some(Some(reason)) => {
                self.done().no_vectors = Some(reason);
                return Ok(());
            }
            Some(None) => {}
        }
        let mut from = (self.sync.from)()?;
        // An index that cannot be read is made anew by the next search; until then the model does it.
        let index =
            if from.kind() == StoreKind::Sqlite { Index::existing(self.sync.data, PATIENCE).ok().flatten() } else { None };
        let is_all = self.of_model(model, &mut *from, index, &mut open)? & self.imported(&mut *from, &mut open)?;
        if is_all {
            self.note(self.state().note_vectors(Some(model_of(model))))?;
        }
        Ok(())
    }

    /// The model's vectors; whether none is missing now.
    fn of_model(
        &self,
        model: &Mutex<Model>,
        from: &mut dyn Store,
        mut index: Option<Index>,
        open: &mut Open,
    ) -> Result<bool, SyncError> {
        let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
        model.use_threads(std::thread::available_parallelism().map_or(1, usize::from));
        let id = model.id();
        let mut can_embed = model.is_there() && model.get().is_ok();
        if !can_embed && index.is_none() {
            return Ok(false);
        }
        let (mut below, mut is_all) = (i64::MAX, true);
        loop {
            if self.is_late() {
                self.done().is_cut = true;
                return Ok(false);
            }
            let listed = if can_embed { AT_ONCE } else { LISTED };
            let missing = self.missing(open, (id, DIMENSIONS), below, listed)?;
            let Some((last, _)) = missing.last() else { return Ok(is_all) };
            below = *last;
            let mut given = Vec::new();
            for (entry, sha256) in &missing {
                let here = index.as_mut().and_then(|index| index.vectors_of(id, sha256).ok().flatten());
                if here.is_none() && !can_embed {
                    is_all = false;
                    continue;
                }
                let there = match self.persistently(open, |open| Ok(Told::of(&mut **self.opened(open)?, *entry)?)) {
                    Err(SyncError::Store(error)) if error.is_of_one() => continue,
                    there => there?,
                };
                match here {
                    Some((own, vectors)) if there.is_all_of(from, own) => given.push((*entry, Given::Here(vectors))),
                    _ if can_embed => given.push((*entry, Given::Of(there.texts))),
                    _ => is_all = false,
                }
            }
            for some in given.chunks(AT_ONCE) {
                let flat: Vec<&str> = some.iter().flat_map(|(_, given)| given.texts()).collect();
                let made = match model.get() {
                    Ok(embedder) if !flat.is_empty() => embedder.embed(&flat),
                    _ => Ok(Vec::new()),
                };
                let Ok(made) = made else {
                    // The model's own commands say what is wrong with it.
                    (can_embed, is_all) = (false, false);
                    continue;
                };
                let mut made = made.into_iter();
                let vectors: Vec<_> = some.iter().map(|(entry, given)| (*entry, given.vectors(&mut made))).collect();
                self.keep(open, id, &vectors)?;
            }
        }
    }

    /// Vectors that came from other tools, of entries in which there is no secret.
    fn imported(&self, from: &mut dyn Store, open: &mut Open) -> Result<bool, SyncError> {
        for (model, mut entries) in imported(from, self.sync.redactor)? {
            let mut below = i64::MAX;
            while !entries.is_empty() {
                if self.is_late() {
                    self.done().is_cut = true;
                    return Ok(false);
                }
                let missing = self.missing(open, (&model, IMPORTED), below, LISTED)?;
                let Some((last, _)) = missing.last() else { break };
                below = *last;
                for (entry, keys) in missing.iter().filter_map(|(entry, sha256)| Some((*entry, entries.remove(sha256)?))) {
                    let vectors = keys.iter().map(|key| from.imported_embeddings(key - 1, 1)).collect::<Result<Vec<_>, _>>()?;
                    let vectors = vectors.into_iter().flatten().map(|(_, kept)| kept.vector).collect();
                    self.keep(open, &model, &[(entry, vectors)])?;
                }
            }
        }
        Ok(true)
    }

    fn missing(
        &self,
        open: &mut Open,
        (model, dimensions): (&str, usize),
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Bytes)>, SyncError> {
        self.persistently(open, |open| match self.opened(open)?.vectors() {
            Some(vectors) => Ok(vectors.missing(model, dimensions, below, most)?),
            None => Ok(Vec::new()),
        })
    }

    fn keep(&self, open: &mut Open, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), SyncError> {
        self.persistently(open, |open| {
            self.opened(open)?.vectors().map_or(Ok(()), |place: &mut dyn Vectors| place.keep(model, vectors))?;
            Ok(())
        })?;
        let mut done = self.done();
        done.embedded += vectors.iter().filter(|(_, vectors)| !vectors.is_empty()).count();
        (self.progress)(&done);
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.sync.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    fn done(&self) -> MutexGuard<'_, Synced> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Given {
    /// What is to be made into vectors.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = if let Self::Of(texts) = self { Some(texts) } else { None };
        texts.into_iter().flat_map(Texts::all)
    }

    fn vectors(&self, made: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<Vec<f32>> {
        match self {
            Self::Here(vectors) => vectors.clone(),
            Self::Of(texts) => texts.vectors(made.take(texts.all().count()).collect()),
        }
    }
}

fn model_of(model: &Mutex<Model>) -> &'static str {
    model.lock().unwrap_or_else(PoisonError::into_inner).id()
}

/// What an entry says, as a store has it.
#[derive(PartialEq)]
struct Told {
    /// What is made into its vectors.
    texts: Texts,
    /// Whether what stands beside it counts, whatever that is now.
    is_short: bool,
}

impl Told {
    fn of(store: &mut dyn Store, entry: i64) -> Result<Self, StoreError> {
        let mut places = store.places(&[entry])?;
        places.sort_by_cached_key(|place| Reverse(place.rank()));
        for place in places {
            if let Some(turn) = store.turn_of(&place)? {
                return Self::in_turn(store, &place, &turn);
            }
        }
        let answer = store.summary_of(entry)?.map_or_else(String::new, |(_, summary)| summary.text);
        let texts = Texts::of(&Fields { answer, ..Fields::default() }, || Ok::<_, StoreError>(Default::default()))?;
        Ok(Self { texts, is_short: false })
    }

    fn in_turn(store: &mut dyn Store, place: &Place, turn: &StoredTurn) -> Result<Self, StoreError> {
        let fields = words::fields(store, turn)?;
        let texts = Texts::of(&fields, || {
            let mut said_in = |index: Option<u32>| -> Result<String, StoreError> {
                // What is no longer part of the conversation stands beside nothing.
                let Some(index) = index.filter(|_| !place.is_superseded) else { return Ok(String::new()) };
                let Some(turn) = store.turn(place.transcript, index)? else { return Ok(String::new()) };
                let fields = words::fields(store, &turn)?;
                Ok(said(&fields.prompt, &fields.answer))
            };
            Ok::<_, StoreError>([said_in(place.index.checked_sub(1))?, said_in(place.index.checked_add(1))?])
        })?;
        Ok(Self { texts, is_short: is_short(&fields) })
    }

    /// Whether vectors that the same entry has here can be made of nothing but this. Those of a short turn are made of what stood beside it
    /// when they were made, which may have been something else; and turns with one content may differ in what is not part of it.
    fn is_all_of(&self, from: &mut dyn Store, entry: i64) -> bool {
        let Ok(places) = from.places(&[entry]) else { return false };
        if places.is_empty() {
            return Self::of(from, entry).is_ok_and(|here| here == *self);
        }
        !self.is_short
            && places.iter().all(|place| {
                let turn = from.turn_of(place).ok().flatten();
                turn.is_some_and(|turn| Self::in_turn(from, place, &turn).is_ok_and(|here| here == *self))
            })
    }
}

/// By the model that made them and the content that they are of, the keys of vectors that may be sent.
type Imported = HashMap<String, HashMap<digest::Bytes, Vec<i64>>>;

fn imported(from: &mut dyn Store, redactor: &Redactor) -> Result<Imported, StoreError> {
    let mut found = Imported::new();
    let mut after = 0;
    loop {
        let some = from.imported_embeddings(after, LISTED)?;
        let Some((last, _)) = some.last() else { return Ok(found) };
        after = *last;
        for (key, ImportedEmbedding { entry, model, vector, .. }) in some {
            if vector.len() == IMPORTED
                && let Some(sha256) = without_secrets(from, entry, redactor)?
            {
                found.entry(model).or_default().entry(sha256).or_default().push(key);
            }
        }
    }
}

/// The hash of an entry's content, if nothing is taken out of any of its lines when they are sent.
fn without_secrets(from: &mut dyn Store, entry: i64, redactor: &Redactor) -> Result<Option<digest::Bytes>, StoreError> {
    let mut sha256 = None;
    for place in from.places(&[entry])? {
        let Some(turn) = from.turn_of(&place)? else { continue };
        let mut bytes = Vec::new();
        match from.raw(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes) {
            Err(error) if error.is_of_one() => return Ok(None),
            read => read?,
        }
        if bytes.split_inclusive(|byte| *byte == b'\n').any(|line| !redactor.redact_line(line).1.is_empty()) {
            return Ok(None);
        }
        sha256 = Some(turn.turn.content_sha256);
    }
    Ok(sha256)
}
