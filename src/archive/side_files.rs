/*!
Files beside a transcript: all that the client writes into the session's own folder, `<session>/` beside `<session>.jsonl`.

They are archived before the transcript's new lines, so that a turn that points to one is found by its words at once. Their bytes may be
anything. Transcripts of sub-agents in that folder are no side files. Links are not followed.
*/

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ingest::{AppendBatch, ingest_from, ingest_with};
use super::reader::{Comparison, ReadError, TranscriptSource};
use super::store::{SessionPart, Store, StoreError, StoreReader, StoredTurn, Transcript, TurnSelection};
use super::transcript_paths::is_agent_transcript;
use ctxbridge_common::digest;
use ctxbridge_common::paths;

/// Maximum bytes of a file that is kept; a larger one is noted.
pub const MAX_KEPT_BYTES: u64 = 256 << 20;

/// Maximum depth of folders in a session's own.
const MAX_DEPTH: usize = 8;

/// Maximum number of files of a session.
const MAX_FILES: usize = 20_000;

/// Behind the path of a file that is too large, in that of its note: it may have been kept when it was smaller.
const NOTE_SUFFIX: &str = "#omitted";

/// Newest turns that are looked at for a file that came late, where somebody may wait.
const RECENT_TURNS: usize = 4;

/// The effort for side files in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideFileEffort {
    /// A user waits: files of a known size count as unchanged, and large ones wait for another pass.
    Prompt,
    /// A hook has time, but not for everything.
    Hook,
    /// Every file is read and compared.
    Whole,
}

impl SideFileEffort {
    /// Maximum number of new bytes in a pass.
    fn max_bytes(self) -> u64 {
        match self {
            Self::Prompt => 4 << 20,
            Self::Hook => 64 << 20,
            Self::Whole => u64::MAX,
        }
    }
}

/// A side file that is too large to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedFile {
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// Result of a pass over the side files of a session.
#[derive(Clone, Debug, Default)]
pub struct SideFileReport {
    /// Files that are new in the archive, or have changed.
    pub files: u64,
    /// Bytes of these that are new.
    pub bytes: u64,
    /// Files that are too large to be kept.
    pub omitted: Vec<(PathBuf, OmittedFile)>,
    /// Files that could not be read, with the reason.
    pub failed: Vec<(PathBuf, String)>,
}

/// A file in a session's own folder.
struct FoundFile {
    path: PathBuf,
    /// Its path in the folder, with slashes.
    name: String,
    bytes: u64,
}

/// Archives what is new in the own folder of a conversation's session.
///
/// # Errors
/// If the store cannot be read or written. A file that cannot be read is no error: it is in [`SideFileReport::failed`].
pub fn ingest_side_files(
    store: &mut dyn Store,
    transcript: &Transcript,
    effort: SideFileEffort,
    append: AppendBatch<'_>,
) -> Result<SideFileReport, StoreError> {
    let mut report = SideFileReport::default();
    let mut found = FoundFiles::default();
    if transcript.part.is_conversation() {
        found.look_beside(Path::new(&transcript.path));
    }
    let FoundFiles { files: found, left, unnamed } = found;
    report.failed.extend(unnamed.into_iter().map(|path| (path, "not archived: its name is not UTF-8; rename it".to_owned())));
    report.failed.extend(left.map(|path| (path, "not archived: too many files beside one transcript, or too deep".to_owned())));
    if found.is_empty() {
        return Ok(report);
    }
    let is_whole = effort == SideFileEffort::Whole;
    let session = if is_whole { None } else { store.session(&transcript.session)? };
    let known: HashMap<String, u64> = match session {
        Some(session) => store.transcripts(session.key)?.into_iter().map(|known| (known.path, known.bytes)).collect(),
        None => HashMap::new(),
    };
    let mut rest = effort.max_bytes();
    let mut late = Vec::new();
    for file in found {
        let key = file.path.to_string_lossy().into_owned();
        if !is_whole && (known.get(&key) == Some(&file.bytes) || file.bytes > rest.min(MAX_KEPT_BYTES)) {
            continue;
        }
        rest = rest.saturating_sub(file.bytes);
        let FoundFile { path, name, bytes } = file;
        if !paths::real(&path).is_ok_and(|real| real == path) {
            // It is gone, or a link has come in between.
            continue;
        }
        let named = |path, part| Transcript { path, session: transcript.session.clone(), part };
        let passed = if bytes > MAX_KEPT_BYTES {
            omitted(&path).map_err(|cause| ReadError::Io { path: path.clone(), cause }).and_then(|omitted| {
                let note = serde_json::to_vec(&omitted).unwrap_or_default();
                let named = named(key + NOTE_SUFFIX, SessionPart::OmittedFile(name.clone()));
                report.omitted.push((path.clone(), omitted));
                let length = note.len() as u64;
                ingest_from(store, &named, Comparison::Whole, &mut || (Box::new(NoteSource(note.clone())), length))
            })
        } else {
            let named = named(key, SessionPart::SideFile(name.clone()));
            ingest_with(store, &named, &path, Comparison::Whole, append)
        };
        match passed {
            Ok(pass) => {
                report.bytes += pass.bytes;
                if pass.is_first || pass.was_rewritten || pass.bytes > 0 {
                    report.files += 1;
                    late.push(name);
                }
            }
            Err(ReadError::Store(error)) => return Err(error),
            Err(error) => report.failed.push((path, error.to_string())),
        }
    }
    if !late.is_empty() {
        // Turns that were archived before the files that they point to.
        let turns = turns_with_files(store, &transcript.session, &late, effort)?;
        let entries: Vec<i64> = turns.into_iter().map(|turn| turn.entry).collect();
        if !entries.is_empty() {
            store.reindex(&entries)?;
        }
    }
    Ok(report)
}

/// Returns the archived turns of a session that point to one of these files; where somebody waits, of the newest turns.
///
/// # Errors
/// If the store cannot be read.
pub fn turns_with_files(
    store: &mut dyn StoreReader,
    session: &str,
    names: &[String],
    effort: SideFileEffort,
) -> Result<Vec<StoredTurn>, StoreError> {
    let Some(session) = store.session(session)? else { return Ok(Vec::new()) };
    let turns = match effort {
        SideFileEffort::Prompt | SideFileEffort::Hook => store.turns(session.key, TurnSelection::Newest(RECENT_TURNS))?,
        SideFileEffort::Whole => {
            let mut turns = store.turns(session.key, TurnSelection::All)?;
            turns.extend(store.turns(session.key, TurnSelection::Superseded)?);
            turns.extend(store.turns(session.key, TurnSelection::Agents)?);
            turns
        }
    };
    let mut found = Vec::new();
    for turn in turns.into_iter().filter(|turn| !turn.turn.tools.is_empty()) {
        let mut bytes = Vec::new();
        match store.read_bytes(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes) {
            Err(error) if error.is_session_local() => continue,
            read => read?,
        }
        if ctxbridge_transcript::side_files_of(&bytes, &turn.session).iter().any(|path| names.contains(path)) {
            found.push(turn);
        }
    }
    Ok(found)
}

/// The regular files in the own folder of a session.
#[derive(Default)]
struct FoundFiles {
    files: Vec<FoundFile>,
    /// The first one that is left out, since there are too many, or it is too deep.
    left: Option<PathBuf>,
    /// Those whose name is no text.
    unnamed: Vec<PathBuf>,
}

impl FoundFiles {
    /// Looks for the files beside a transcript, and sorts them.
    fn look_beside(&mut self, transcript: &Path) {
        let own = transcript.with_extension("");
        let is_transcript = transcript.extension().is_some_and(|extension| extension == "jsonl");
        if is_transcript && fs::symlink_metadata(&own).is_ok_and(|metadata| metadata.is_dir()) {
            self.collect(&own, "", 0);
        }
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn collect(&mut self, folder: &Path, inside: &str, depth: usize) {
        // One that cannot be read is as one that is empty.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                // Two such names may look the same.
                self.unnamed.push(path);
                continue;
            };
            let name = format!("{inside}{name}");
            let is_wanted = kind.is_dir() || kind.is_file() && !is_agent_transcript(&path);
            if is_wanted && (depth >= MAX_DEPTH || self.files.len() >= MAX_FILES) {
                self.left.get_or_insert(path);
            } else if kind.is_dir() {
                self.collect(&path, &format!("{name}/"), depth + 1);
            } else if is_wanted && let Ok(metadata) = entry.metadata() {
                self.files.push(FoundFile { path, name, bytes: metadata.len() });
            }
        }
    }
}

/// Size and hash of a file that is too large to be kept.
fn omitted(path: &Path) -> io::Result<OmittedFile> {
    Ok(OmittedFile { bytes: fs::metadata(path)?.len(), sha256: digest::of_file(path)? })
}

/// A note, as the reader of a transcript wants it.
struct NoteSource(Vec<u8>);

impl TranscriptSource for NoteSource {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let place = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(self.0.len());
        bytes.extend_from_slice(&self.0[place(start)..place(start.saturating_add(length))]);
        Ok(())
    }
}
