//! Sessions that the user named: files, or sessions of the archive.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cli::archives;
use crate::cli::output::{Output, count};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{EVERYTHING, Session, Store, StoreError};
use ctxbridge_prune::simulate::{LineCounts, ReplayConversation};

/// The place where a session was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplaySource {
    /// This transcript.
    File(PathBuf),
    /// The archive, which has it by this id.
    Archive(String),
}

impl ReplaySource {
    /// Its name, for people.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => quote::line(&path.to_string_lossy()),
            Self::Archive(session) => quote::line(session),
        }
    }

    /// Its path, if it is a file.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::File(path) => Some(path.to_string_lossy().into_owned()),
            Self::Archive(_) => None,
        }
    }

    /// Its id, if it is archived.
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            Self::Archive(session) => Some(session),
        }
    }
}

/// Reads a session by the path of its transcript, or by its id or the start of it. Returns `None` and notes it if there is none, or no
/// request in it.
pub(super) fn read(named: &str, output: &Output) -> anyhow::Result<Option<(ReplaySource, ReplayConversation)>> {
    let path = Path::new(named);
    if path.exists() || is_path(named) {
        let source = ReplaySource::File(path.to_owned());
        let bytes = read_file(path, &source.name())?;
        return Ok(conversation(&source, &bytes, output)?.map(|found| (source, found)));
    }
    let Some((mut store, session)) = archives::find_anywhere(named, None, output)? else { return Ok(None) };
    let source = ReplaySource::Archive(session.session.clone());
    let Some(bytes) = read_archived(&mut *store, &session)? else {
        output.note(&format!("session {} has no transcript", source.name()));
        return Ok(None);
    };
    Ok(conversation(&source, &bytes, output)?.map(|found| (source, found)))
}

/// `true` for what is no id of a session.
fn is_path(named: &str) -> bool {
    let has_ending = Path::new(named).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("jsonl"));
    has_ending || named.contains(std::path::is_separator)
}

fn read_file(path: &Path, shown: &str) -> anyhow::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{shown} does not exist; transcripts are in ~/.claude/projects")
        }
        opened => opened.with_context(|| format!("{shown} cannot be opened"))?,
    };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!("{shown} is a folder; give the path of a transcript in it");
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("{shown} cannot be read"))?;
    Ok(bytes)
}

/// Reads the transcript of an archived session; `None` if it has none but those of sub-agents.
pub(super) fn read_archived(store: &mut dyn Store, session: &Session) -> Result<Option<Vec<u8>>, StoreError> {
    let transcripts = store.transcripts(session.key)?;
    let Some(own) = transcripts.iter().find(|transcript| transcript.part.is_conversation()) else { return Ok(None) };
    store.read_shown(own.key, own.generation, EVERYTHING).map(Some)
}

/// Reads the conversation in a transcript. Returns `None` and notes it if there are no requests in it.
fn conversation(source: &ReplaySource, bytes: &[u8], output: &Output) -> anyhow::Result<Option<ReplayConversation>> {
    let shown = source.name();
    let (conversation, LineCounts { good, bad, first_bad }) = ReplayConversation::read(bytes);
    if good == 0 && bad > 0 {
        bail!("{shown} is no transcript: none of its {} is a JSON object", count(bad, "line"));
    }
    if bad > 0 {
        output.note(&format!("{shown}: {} could not be read and left out, the first is line {first_bad}", count(bad, "line")));
    }
    if conversation.calls.is_empty() {
        let why = if good == 0 { "it is empty" } else { "the model never answered in it" };
        output.note(&format!("{shown} has no requests to look at: {why}"));
        return Ok(None);
    }
    Ok(Some(conversation))
}
