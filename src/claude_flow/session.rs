//! One session: what is in its own transcripts brings its counts, what is new becomes lines, and all that was known comes along.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::entry::{Entry, Known};
use super::said::Said;
use super::settle::settle;
use super::source::{Listed, Source, project_of, transcript_name};
use super::transcripts::{archive, bytes_of, imported, turns_of};
use super::{Failed, ImportError, Imported, NAME, lines};
use ctxbridge_archive::store::{Adopted, ImportedEmbedding, Place, Store};
use ctxbridge_archive::{FIRST_CONFIDENCE, LEAST_CONFIDENCE};
use ctxbridge_common::paths;

/// Takes in one session of one of their archives.
pub(super) struct Importer<'i> {
    /// The archive.
    pub source: &'i mut Source,
    /// Where it is.
    pub path: &'i Path,
    /// The session.
    pub session: &'i str,
    /// What was done so far.
    pub imported: &'i mut Imported,
}

/// What was read of an entry besides its words.
struct Brought {
    known: Known,
    access_count: u32,
    accessed_ms: Option<i64>,
    confidence: Option<f64>,
    embedding: Option<(&'static str, Vec<f32>)>,
}

impl Importer<'_> {
    /// These entries of it.
    pub fn import(&mut self, store: &mut dyn Store, listed: &[Listed]) -> Result<(), ImportError> {
        let name = transcript_name(self.path, self.session);
        let mut said = Said::default();
        let mut known = HashMap::new();
        let mut place = lines::Place::default();
        let mut file = BufWriter::new(tempfile::NamedTempFile::new()?);
        if let Some(session) = store.session(self.session)? {
            settle(store, self.session)?;
            said = Said::in_session(store, session.key)?;
            for transcript in imported(&store.transcripts(session.key)?) {
                let is_this = transcript.path == name;
                for turn in turns_of(store, transcript)? {
                    let bytes = bytes_of(store, &turn)?;
                    let came = lines::came_from(&bytes);
                    known.extend(came.entries.into_iter().map(|known| (known, turn.entry)));
                    if is_this {
                        // A process that was killed may have left half a line.
                        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
                        file.write_all(&bytes[..whole])?;
                        place = came.place;
                    }
                }
            }
        }
        let project = project_of(self.path, paths::home_dir().as_deref()).map(|project| project.to_string_lossy().into_owned());
        let mut writer = lines::Writer::new(file, self.session, project.as_deref(), place);
        let mut adopted = Vec::new();
        let mut embeddings = Vec::new();
        let mut new: Vec<Brought> = Vec::new();
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
        store.adopt(&new)?;
        self.imported.updated += store.adopt(&known)? as u64;
        self.imported.embeddings += store.keep_embeddings(&embeddings)? as u64;
        Ok(())
    }

    fn brought(&mut self, entry: &Entry) -> Brought {
        let embedding = match &entry.embedding {
            Some(Ok(embedding)) => Some(embedding.clone()),
            Some(Err(reason)) => {
                let reason = format!("{reason}; the entry itself is archived");
                self.imported.fail(Failed { id: Some(entry.id.clone()), reason });
                None
            }
            None => None,
        };
        let Entry { access_count, accessed_ms, confidence, .. } = *entry;
        Brought { known: entry.known_by(), access_count, accessed_ms, confidence, embedding }
    }
}

impl Brought {
    fn adopted(&self, entry: i64, is_new: bool) -> Adopted {
        let Self { access_count, accessed_ms, .. } = *self;
        // Nothing is raised to what nobody said.
        let confidence = self.confidence.unwrap_or(if is_new { FIRST_CONFIDENCE } else { LEAST_CONFIDENCE });
        Adopted { entry, access_count, accessed_ms, confidence, is_new }
    }

    fn embedding(self, entry: i64) -> Option<ImportedEmbedding> {
        let (model, vector) = self.embedding?;
        Some(ImportedEmbedding { entry, source: NAME.to_owned(), source_id: self.known.id, model: model.to_owned(), vector })
    }
}

/// Of several entries of theirs that are one of ours, the highest counts.
fn highest(adopted: Vec<Adopted>) -> Vec<Adopted> {
    let mut highest: Vec<Adopted> = Vec::new();
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

/// The entries that a transcript's turns are kept under, by what they came from; whether nothing but this transcript has them.
fn entries_of(store: &mut dyn Store, session: &str, name: &str) -> Result<HashMap<Known, (i64, bool)>, ImportError> {
    let mut entries = HashMap::new();
    let Some(session) = store.session(session)? else { return Ok(entries) };
    let transcripts = store.transcripts(session.key)?;
    for transcript in transcripts.iter().filter(|transcript| transcript.path == name) {
        for turn in turns_of(store, transcript)? {
            let is_here = |place: &Place| place.transcript == transcript.key;
            let is_new = store.places(&[turn.entry])?.iter().all(is_here);
            let came = lines::came_from(&bytes_of(store, &turn)?);
            entries.extend(came.entries.into_iter().map(|known| (known, (turn.entry, is_new))));
        }
    }
    Ok(entries)
}
