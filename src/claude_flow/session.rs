//! Import of one session. Entries that its own transcripts have bring their counts; new ones become lines, with all other data.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::archived_messages::ArchivedMessages;
use super::entry::{EntryKey, FlowEntry};
use super::listed::ListedEntry;
use super::source::{FlowSource, project_of, transcript_name};
use super::supersede::supersede_imported;
use super::transcripts::{archive, bytes_of, imported, turns_of};
use super::{EntryImportReport, Failed, ImportError, NAME, lines};
use ctxbridge_archive::store::{ImportedEmbedding, ImportedUsage, Store, StoreReader, TurnLocation};
use ctxbridge_archive::{INITIAL_CONFIDENCE, MIN_CONFIDENCE};
use ctxbridge_common::paths;

/// Imports one session of a claude-flow archive.
pub(super) struct Importer<'i> {
    /// The archive.
    pub source: &'i mut FlowSource,
    /// Its path.
    pub path: &'i Path,
    /// The session.
    pub session: &'i str,
    /// The report so far.
    pub imported: &'i mut EntryImportReport,
}

/// Data of an entry other than its words.
struct EntryExtras {
    known: EntryKey,
    access_count: u32,
    accessed_ms: Option<i64>,
    confidence: Option<f64>,
    embedding: Option<(&'static str, Vec<f32>)>,
}

impl Importer<'_> {
    /// Imports these entries of the session.
    pub fn import(&mut self, store: &mut dyn Store, listed: &[ListedEntry]) -> Result<(), ImportError> {
        let name = transcript_name(self.path, self.session);
        let mut said = ArchivedMessages::default();
        let mut known = HashMap::new();
        let mut place = lines::WriterState::default();
        let mut file = BufWriter::new(tempfile::NamedTempFile::new()?);
        if let Some(session) = store.session(self.session)? {
            supersede_imported(store, self.session)?;
            said = ArchivedMessages::in_session(store, session.key)?;
            for transcript in imported(&store.transcripts(session.key)?) {
                let is_this = transcript.path == name;
                for turn in turns_of(store, transcript)? {
                    let bytes = bytes_of(store, &turn)?;
                    let came = lines::read_origin(&bytes);
                    known.extend(came.entries.into_iter().map(|known| (known, turn.entry)));
                    if is_this {
                        // A process that was killed may have left half a line.
                        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
                        file.write_all(&bytes[..whole])?;
                        place = came.state;
                    }
                }
            }
        }
        let project = project_of(self.path, paths::home_dir().as_deref()).map(|project| project.to_string_lossy().into_owned());
        let mut writer = lines::TranscriptWriter::new(file, self.session, project.as_deref(), place);
        let mut adopted = Vec::new();
        let mut embeddings = Vec::new();
        let mut new: Vec<EntryExtras> = Vec::new();
        let mut seen = HashSet::new();
        for one in listed {
            let entry = match self.source.entry(one.at) {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                Err(refused) => {
                    self.imported.fail(Failed { id: Some(one.id.clone()), reason: refused.0 });
                    continue;
                }
            };
            self.imported.entries += 1;
            let brought = self.brought(&entry);
            let here = said.entry(&entry.content).inspect(|_| self.imported.matched += 1);
            let here = here.or_else(|| known.get(&brought.known).copied().inspect(|_| self.imported.unchanged += 1));
            match here {
                Some(entry) => {
                    adopted.push(brought.adopted(entry, false));
                    embeddings.extend(brought.embedding(entry));
                }
                // Twice in the same list.
                None if !seen.insert(brought.known.clone()) => self.imported.unchanged += 1,
                None => {
                    writer.entry(&entry)?;
                    self.imported.new += 1;
                    new.push(brought);
                }
            }
        }
        let file = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        if !new.is_empty() {
            archive(store, &name, self.session, file.path())?;
            let entries = entries_of(store, self.session, &name)?;
            for brought in new {
                let Some((entry, is_new)) = entries.get(&brought.known).copied() else { continue };
                adopted.push(brought.adopted(entry, is_new));
                embeddings.extend(brought.embedding(entry));
            }
        }
        let (new, known): (Vec<_>, Vec<_>) = highest(adopted).into_iter().partition(|one| one.is_new);
        store.merge_usage(&new)?;
        self.imported.updated += store.merge_usage(&known)? as u64;
        self.imported.embeddings += store.keep_embeddings(&embeddings)? as u64;
        Ok(())
    }

    fn brought(&mut self, entry: &FlowEntry) -> EntryExtras {
        let embedding = match &entry.embedding {
            Some(Ok(embedding)) => Some(embedding.clone()),
            Some(Err(reason)) => {
                let reason = format!("{reason}; the entry itself is archived");
                self.imported.fail(Failed { id: Some(entry.id.clone()), reason });
                None
            }
            None => None,
        };
        let FlowEntry { access_count, accessed_ms, confidence, .. } = *entry;
        EntryExtras { known: entry.known_by(), access_count, accessed_ms, confidence, embedding }
    }
}

impl EntryExtras {
    fn adopted(&self, entry: i64, is_new: bool) -> ImportedUsage {
        let Self { access_count, accessed_ms, .. } = *self;
        // Nothing is raised to what nobody said.
        let confidence = self.confidence.unwrap_or(if is_new { INITIAL_CONFIDENCE } else { MIN_CONFIDENCE });
        ImportedUsage { entry, access_count, accessed_ms, confidence, is_new }
    }

    fn embedding(self, entry: i64) -> Option<ImportedEmbedding> {
        let (model, vector) = self.embedding?;
        Some(ImportedEmbedding { entry, source: NAME.to_owned(), source_id: self.known.id, model: model.to_owned(), vector })
    }
}

/// Merges several usages of the same entry; the highest values count.
fn highest(adopted: Vec<ImportedUsage>) -> Vec<ImportedUsage> {
    let mut highest: Vec<ImportedUsage> = Vec::new();
    let mut at: HashMap<i64, usize> = HashMap::new();
    for one in adopted {
        match at.get(&one.entry) {
            Some(at) => {
                let known = &mut highest[*at];
                known.access_count = known.access_count.max(one.access_count);
                known.accessed_ms = known.accessed_ms.max(one.accessed_ms);
                known.confidence = known.confidence.max(one.confidence);
                known.is_new &= one.is_new;
            }
            None => {
                at.insert(one.entry, highest.len());
                highest.push(one);
            }
        }
    }
    highest
}

/// Returns the entries of a transcript's turns by their keys, and `true` for each that only this transcript has.
fn entries_of(store: &mut dyn StoreReader, session: &str, name: &str) -> Result<HashMap<EntryKey, (i64, bool)>, ImportError> {
    let mut entries = HashMap::new();
    let Some(session) = store.session(session)? else { return Ok(entries) };
    let transcripts = store.transcripts(session.key)?;
    for transcript in transcripts.iter().filter(|transcript| transcript.path == name) {
        for turn in turns_of(store, transcript)? {
            let is_here = |place: &TurnLocation| place.transcript == transcript.key;
            let is_new = store.turn_locations(&[turn.entry])?.iter().all(is_here);
            let came = lines::read_origin(&bytes_of(store, &turn)?);
            entries.extend(came.entries.into_iter().map(|known| (known, (turn.entry, is_new))));
        }
    }
    Ok(entries)
}
