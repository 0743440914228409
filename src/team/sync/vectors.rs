//! Vectors of sent entries, for a store that keeps some. They reveal what their text says, so those with secrets stay here.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{SyncError, SyncReport, SyncWork, WorkerStores};
use ctxbridge_archive::search::passages::PassageTexts;
use ctxbridge_archive::search::{SearchIndex, context_text, is_short_turn};
use ctxbridge_archive::store::{ImportedEmbedding, Store, StoreError, StoreReader, StoredTurn, TurnLocation, VectorStore};
use ctxbridge_archive::turn_text;
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_redact::Redactor;
use ctxbridge_transcript::SearchableText;
use ctxbridge_vectors::embed::EmbeddingModel;

/// Entries that are embedded and sent at once, and between two checks of the deadline.
const EMBED_BATCH_SIZE: usize = 20;

/// Entries that are listed at once where most of them have nothing to send.
const LIST_BATCH_SIZE: usize = 1_000;

/// Dimensions of the model's vectors, and of imported vectors.
const DIMENSIONS: usize = 384;
const IMPORTED_DIMENSIONS: usize = 768;

/// Longest wait for a process that writes the local index.
const INDEX_LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Source of an entry's vectors.
enum VectorSource {
    /// The vectors, from the local index.
    Indexed(Vec<Vec<f32>>),
    /// Texts to embed.
    ToEmbed(PassageTexts),
}

impl SyncWork<'_> {
    /// Sends the vectors that the other store lacks, as far as the index or the model provides them.
    pub(super) fn vectors(&self) -> Result<(), SyncError> {
        let Some(model) = self.shared.sync.model else { return Ok(()) };
        if self.shared.lock().has_vectors(model_id(model)) {
            return Ok(());
        }
        let mut open = WorkerStores::default();
        let refusal = self.with_retries(&mut open, |open| match open.target(self.shared.sync)?.as_vector_store() {
            Some(vectors) => Ok(Some(vectors.unavailable_reason()?)),
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
        let mut from = (self.shared.sync.from)()?;
        // An index that cannot be read is made anew by the next search; until then the model does it.
        let index = if from.kind() == StoreKind::Sqlite {
            SearchIndex::open_existing(self.shared.sync.data, INDEX_LOCK_TIMEOUT).ok().flatten()
        } else {
            None
        };
        let is_all = self.of_model(model, &mut *from, index, &mut open)? & self.imported(&mut *from, &mut open)?;
        if is_all {
            self.shared.record(|state| state.record_vectors(Some(model_id(model))))?;
        }
        Ok(())
    }

    /// Sends the model's vectors. Returns `true` if none is missing now.
    fn of_model(
        &self,
        model: &Mutex<EmbeddingModel>,
        from: &mut dyn Store,
        mut index: Option<SearchIndex>,
        open: &mut WorkerStores,
    ) -> Result<bool, SyncError> {
        let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
        model.use_threads(std::thread::available_parallelism().map_or(1, usize::from));
        let id = model.id();
        let mut can_embed = model.is_present() && model.get().is_ok();
        if !can_embed && index.is_none() {
            return Ok(false);
        }
        let (mut below, mut is_all) = (i64::MAX, true);
        loop {
            if self.is_late() {
                self.done().is_cut = true;
                return Ok(false);
            }
            let listed = if can_embed { EMBED_BATCH_SIZE } else { LIST_BATCH_SIZE };
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
                let there = match self.with_retries(open, |open| Ok(EntryTexts::of(open.target(self.shared.sync)?, *entry)?)) {
                    Err(SyncError::Store(error)) if error.is_session_local() => continue,
                    there => there?,
                };
                match here {
                    Some((own, vectors)) if there.is_same_locally(from, own) => {
                        given.push((*entry, VectorSource::Indexed(vectors)))
                    }
                    _ if can_embed => given.push((*entry, VectorSource::ToEmbed(there.texts))),
                    _ => is_all = false,
                }
            }
            for some in given.chunks(EMBED_BATCH_SIZE) {
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

    /// Sends vectors that came from other tools, of entries without secrets.
    fn imported(&self, from: &mut dyn StoreReader, open: &mut WorkerStores) -> Result<bool, SyncError> {
        for (model, mut entries) in imported(from, self.shared.sync.redactor)? {
            let mut below = i64::MAX;
            while !entries.is_empty() {
                if self.is_late() {
                    self.done().is_cut = true;
                    return Ok(false);
                }
                let missing = self.missing(open, (&model, IMPORTED_DIMENSIONS), below, LIST_BATCH_SIZE)?;
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
        open: &mut WorkerStores,
        (model, dimensions): (&str, usize),
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Sha256Digest)>, SyncError> {
        self.with_retries(open, |open| match open.target(self.shared.sync)?.as_vector_store() {
            Some(vectors) => Ok(vectors.entries_without_vectors(model, dimensions, below, most)?),
            None => Ok(Vec::new()),
        })
    }

    fn keep(&self, open: &mut WorkerStores, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), SyncError> {
        self.with_retries(open, |open| {
            open.target(self.shared.sync)?
                .as_vector_store()
                .map_or(Ok(()), |place: &mut dyn VectorStore| place.save_vectors(model, vectors))?;
            Ok(())
        })?;
        let mut done = self.done();
        done.embedded += vectors.iter().filter(|(_, vectors)| !vectors.is_empty()).count();
        (self.progress)(&done);
        Ok(())
    }

    fn is_late(&self) -> bool {
        self.shared.sync.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    fn done(&self) -> MutexGuard<'_, SyncReport> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VectorSource {
    /// Texts to embed.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let texts = if let Self::ToEmbed(texts) = self { Some(texts) } else { None };
        texts.into_iter().flat_map(PassageTexts::all)
    }

    fn vectors(&self, made: &mut dyn Iterator<Item = Vec<f32>>) -> Vec<Vec<f32>> {
        match self {
            Self::Indexed(vectors) => vectors.clone(),
            Self::ToEmbed(texts) => texts.vectors(made.take(texts.all().count()).collect()),
        }
    }
}

fn model_id(model: &Mutex<EmbeddingModel>) -> &'static str {
    model.lock().unwrap_or_else(PoisonError::into_inner).id()
}

/// The texts of an entry, as a store has them.
#[derive(PartialEq)]
struct EntryTexts {
    /// Texts that its vectors are made from.
    texts: PassageTexts,
    /// `true` if its vectors also depend on the neighboring turns.
    is_short: bool,
}

impl EntryTexts {
    fn of(store: &mut dyn StoreReader, entry: i64) -> Result<Self, StoreError> {
        let mut places = store.turn_locations(&[entry])?;
        places.sort_by_cached_key(|place| Reverse(place.rank()));
        for place in places {
            if let Some(turn) = store.turn_by_location(&place)? {
                return Self::of_turn(store, &place, &turn);
            }
        }
        let answer = store.summary_of(entry)?.map_or_else(String::new, |(_, summary)| summary.text);
        let texts =
            PassageTexts::of(
                &SearchableText { answer, ..SearchableText::default() },
                || Ok::<_, StoreError>(Default::default()),
            )?;
        Ok(Self { texts, is_short: false })
    }

    fn of_turn(store: &mut dyn StoreReader, place: &TurnLocation, turn: &StoredTurn) -> Result<Self, StoreError> {
        let fields = turn_text::fields(store, turn)?;
        let texts = PassageTexts::of(&fields, || {
            let mut said_in = |index: Option<u32>| -> Result<String, StoreError> {
                // What is no longer part of the conversation stands beside nothing.
                let Some(index) = index.filter(|_| !place.is_superseded) else { return Ok(String::new()) };
                let Some(turn) = store.turn(place.transcript, index)? else { return Ok(String::new()) };
                let fields = turn_text::fields(store, &turn)?;
                Ok(context_text(&fields.prompt, &fields.answer))
            };
            Ok::<_, StoreError>([said_in(place.index.checked_sub(1))?, said_in(place.index.checked_add(1))?])
        })?;
        Ok(Self { texts, is_short: is_short_turn(&fields) })
    }

    /// `true` if the local vectors of this entry can have been made from these texts only. Those of a short turn include the
    /// neighbors of that time, which may have been others. Turns with the same content may also differ in what is not part of it.
    fn is_same_locally(&self, from: &mut dyn Store, entry: i64) -> bool {
        let Ok(places) = from.turn_locations(&[entry]) else { return false };
        if places.is_empty() {
            return Self::of(from, entry).is_ok_and(|here| here == *self);
        }
        !self.is_short
            && places.iter().all(|place| {
                let turn = from.turn_by_location(place).ok().flatten();
                turn.is_some_and(|turn| Self::of_turn(from, place, &turn).is_ok_and(|here| here == *self))
            })
    }
}

/// Keys of vectors that may be sent, by model and by content hash.
type ImportedVectorKeys = HashMap<String, HashMap<digest::Sha256Digest, Vec<i64>>>;

fn imported(from: &mut dyn StoreReader, redactor: &Redactor) -> Result<ImportedVectorKeys, StoreError> {
    let mut found = ImportedVectorKeys::new();
    let mut after = 0;
    loop {
        let some = from.imported_embeddings(after, LIST_BATCH_SIZE)?;
        let Some((last, _)) = some.last() else { return Ok(found) };
        after = *last;
        for (key, ImportedEmbedding { entry, model, vector, .. }) in some {
            if vector.len() == IMPORTED_DIMENSIONS
                && let Some(sha256) = secret_free_hash(from, entry, redactor)?
            {
                found.entry(model).or_default().entry(sha256).or_default().push(key);
            }
        }
    }
}

/// The hash of an entry's content, if none of its lines has a secret.
fn secret_free_hash(
    from: &mut dyn StoreReader,
    entry: i64,
    redactor: &Redactor,
) -> Result<Option<digest::Sha256Digest>, StoreError> {
    let mut sha256 = None;
    for place in from.turn_locations(&[entry])? {
        let Some(turn) = from.turn_by_location(&place)? else { continue };
        let mut bytes = Vec::new();
        match from.read_bytes(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes) {
            Err(error) if error.is_session_local() => return Ok(None),
            read => read?,
        }
        if bytes.split_inclusive(|byte| *byte == b'\n').any(|line| !redactor.redact_line(line).1.is_empty()) {
            return Ok(None);
        }
        sha256 = Some(turn.turn.content_sha256);
    }
    Ok(sha256)
}
