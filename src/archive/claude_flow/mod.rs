/*!
What claude-flow (ruflo) kept: its hook's `transcript-archive.db`, or `transcript-archive.json` where that had no database.

[`source`] finds and opens them, `database` and `json_file` read them, whatever state they are in. An [`Entry`] is a prompt and the last answer
to it, without what tools returned. A session's own transcript says all of that better, so entries that are [`said`] there only
bring their counts; of the others, [`lines`] makes a transcript of its own, which is archived like any other. When the session's own comes
later, [`settle`] takes out of it what that one has.
*/

mod database;
pub mod entry;
pub mod json_file;
pub mod lines;
pub mod said;
pub mod source;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use entry::{Entry, Known};
use said::{Said, imported, own};
use source::{Listed, Source, SourceError, project_of, transcript_name};

use super::ingest;
use super::place::transcripts_below;
use super::reader::{Comparison, ReadError};
use super::store::{self, Adopted, ImportedEmbedding, Place, Store, StoreError, StoredTranscript, StoredTurn, Transcript};
use super::{FIRST_CONFIDENCE, LEAST_CONFIDENCE};
use crate::paths;

/// The name of the tool, as it is given and stored.
pub const NAME: &str = "claude-flow";

/// Failures that are remembered: of a broken file, more help nobody.
const MOST_FAILURES: usize = 1_000;

/// What an import did, or has done so far.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Sessions that entries were of.
    pub sessions: BTreeSet<String>,
    /// Entries that were read.
    pub entries: u64,
    /// Those that became turns now.
    pub new: u64,
    /// Those that are in the sessions' own transcripts.
    pub matched: u64,
    /// Those that became turns in an earlier import.
    pub unchanged: u64,
    /// Entries here of which more is known now than before.
    pub updated: u64,
    /// Vectors that are new or others now.
    pub embeddings: u64,
    /// What could not be read.
    pub failed: Vec<Failed>,
    /// Failures beyond these.
    pub more_failed: u64,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The entry's id; none where it is about a whole archive.
    pub id: Option<String>,
    /// Why.
    pub reason: String,
}

impl Failed {
    fn of_source(path: &Path, reason: &str) -> Self {
        Self { id: None, reason: format!("{}: {reason}", path.display()) }
    }
}

/// Why an import stops.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Their archive cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Ours cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Lines cannot be put together.
    #[error("cannot write to a temporary file: {0}; free some space there, or set TMPDIR")]
    Temporary(#[from] io::Error),
}

/// Takes in an archive of theirs. `projects` is where the client keeps the sessions' own transcripts: those that are still there are archived
/// first. `progress` is called after each session.
///
/// # Errors
/// When the archive cannot be read at all, or ours cannot be written. What cannot be read of it is in [`Imported::failed`].
pub fn import(
    store: &mut dyn Store,
    path: &Path,
    projects: Option<&Path>,
    imported: &mut Imported,
    progress: &mut dyn FnMut(&Imported),
) -> Result<(), ImportError> {
    let mut source = Source::open(path)?;
    let (listed, failed) = source.list();
    failed.into_iter().for_each(|failed| imported.fail(failed));
    let mut sessions: Vec<(String, Vec<Listed>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for one in listed {
        let place = *places.entry(one.session.clone()).or_insert_with(|| {
            sessions.push((one.session.clone(), Vec::new()));
            sessions.len() - 1
        });
        sessions[place].1.push(one);
    }
    let transcripts = projects.map(by_session).unwrap_or_default();
    for (session, listed) in &sessions {
        imported.sessions.insert(session.clone());
        bring_up_to_date(store, session, transcripts.get(session))?;
        Session { source: &mut source, path, session, imported }.import(store, listed)?;
        progress(imported);
    }
    Ok(())
}

/// Takes out of what was imported of a session what its own transcripts have by now. Says whether there was any.
///
/// # Errors
/// When the store cannot be read or written, or there is no room for a temporary file.
pub fn settle(store: &mut dyn Store, session: &str) -> Result<bool, ImportError> {
    let Some(session) = store.session(session)? else { return Ok(false) };
    let transcripts = store.transcripts(session.key)?;
    if imported(&transcripts).next().is_none() || own(&transcripts).next().is_none() {
        return Ok(false);
    }
    let said = Said::in_session(store, session.key)?;
    let mut is_changed = false;
    for transcript in imported(&transcripts) {
        is_changed |= settle_one(store, &session, transcript, &said)?;
    }
    Ok(is_changed)
}

fn settle_one(
    store: &mut dyn Store,
    session: &store::Session,
    transcript: &StoredTranscript,
    said: &Said,
) -> Result<bool, ImportError> {
    let mut kept = BufWriter::new(tempfile::NamedTempFile::new()?);
    let mut adopted = Vec::new();
    for turn in turns_of(store, transcript)? {
        let bytes = bytes_of(store, &turn)?;
        let entries = lines::came_from(&bytes).entries;
        let found: Vec<i64> = entries.iter().filter_map(|known| said.entry_of_hash(&known.sha256)).collect();
        if found.len() < entries.len() {
            kept.write_all(&bytes)?;
            continue;
        }
        let StoredTurn { access_count, confidence, .. } = turn;
        adopted.extend(found.into_iter().map(|entry| Adopted {
            entry,
            access_count,
            confidence,
            accessed_ms: None,
            is_new: false,
        }));
    }
    if adopted.is_empty() {
        return Ok(false);
    }
    let kept = kept.into_inner().map_err(io::IntoInnerError::into_error)?;
    archive(store, &transcript.path, &session.session, kept.path())?;
    store.adopt(&adopted)?;
    Ok(true)
}

/// Transcripts by the sessions that they are named after.
fn by_session(projects: &Path) -> HashMap<String, PathBuf> {
    let paths = transcripts_below(projects, &mut |_, _| {});
    let named = |path: PathBuf| Some((path.file_stem()?.to_str()?.to_owned(), path));
    paths.into_iter().filter_map(named).collect()
}

/// Archives what is new in the session's own transcripts, where they still are: what they say counts more than what others kept of it.
fn bring_up_to_date(store: &mut dyn Store, session: &str, at: Option<&PathBuf>) -> Result<(), ImportError> {
    let mut paths: BTreeSet<PathBuf> = at.cloned().into_iter().collect();
    if let Some(known) = store.session(session)? {
        paths.extend(own(&store.transcripts(known.key)?).map(|transcript| PathBuf::from(&transcript.path)));
    }
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let transcript = Transcript::at(&path);
        match ingest::archive(store, &transcript, &path) {
            Err(ReadError::Store(error)) => return Err(error.into()),
            // One that cannot be read is as one that is not there.
            Ok(_) | Err(ReadError::NotAFile(_) | ReadError::Io { .. }) => {}
        }
    }
    Ok(())
}

/// One session of one of their archives.
struct Session<'s> {
    source: &'s mut Source,
    path: &'s Path,
    session: &'s str,
    imported: &'s mut Imported,
}

/// What was read of an entry besides its words.
struct Brought {
    known: Known,
    access_count: u32,
    accessed_ms: Option<i64>,
    confidence: Option<f64>,
    embedding: Option<(&'static str, Vec<f32>)>,
}

impl Session<'_> {
    fn import(&mut self, store: &mut dyn Store, listed: &[Listed]) -> Result<(), ImportError> {
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
        self.imported.updated += store.adopt(&highest(adopted))? as u64;
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

/// Archives a file of lines as the transcript of this name.
fn archive(store: &mut dyn Store, name: &str, session: &str, file: &Path) -> Result<(), ImportError> {
    let transcript = Transcript { path: name.to_owned(), session: session.to_owned(), agent: None };
    let append = &mut |store: &mut dyn Store, batch: &_| store.append(batch);
    match ingest::archive_through(store, &transcript, file, Comparison::Whole, append) {
        Ok(_) => Ok(()),
        Err(ReadError::Store(error)) => Err(error.into()),
        Err(ReadError::Io { cause, .. }) => Err(cause.into()),
        Err(ReadError::NotAFile(path)) => Err(io::Error::other(format!("{} is no file", path.display())).into()),
    }
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

/// The turns of a transcript as it is now.
fn turns_of(store: &mut dyn Store, transcript: &StoredTranscript) -> Result<Vec<StoredTurn>, StoreError> {
    let mut turns = Vec::new();
    for index in 0.. {
        let Some(turn) = store.turn(transcript.key, index)? else { break };
        turns.push(turn);
    }
    Ok(turns)
}

fn bytes_of(store: &mut dyn Store, turn: &StoredTurn) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.raw(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
    Ok(bytes)
}

impl Imported {
    fn fail(&mut self, failed: Failed) {
        if self.failed.len() < MOST_FAILURES {
            self.failed.push(failed);
        } else {
            self.more_failed += 1;
        }
    }
}
