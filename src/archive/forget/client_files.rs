//! Removal from the client's own files: its transcripts, what lies beside them, and its history of prompts. Only when the user says so.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::blanked_source::Blanks;
use super::plan::{ForgetPart, ForgetPlan, any_text};
use super::tombstones::Tombstones;
use crate::store::{Store, StoreError};
use ctxbridge_common::files;

/// The client's history of prompts, in its folder.
const HISTORY_FILE: &str = "history.jsonl";

/// The files of a session that the client may still have.
#[derive(Debug)]
pub struct ClientFiles {
    session: String,
    is_whole: bool,
    /// Transcripts, and side files that go.
    paths: Vec<(PathBuf, FileContent)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileContent {
    Lines,
    Anything,
}

impl ClientFiles {
    /// Lists them. The archive knows their paths until it has forgotten them.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn of(store: &mut dyn Store, plan: &ForgetPlan) -> Result<Vec<Self>, StoreError> {
        let mut found = Vec::new();
        for (session, part) in &plan.parts {
            let mut paths = Vec::new();
            for transcript in store.transcripts(part.session.key)? {
                let path = PathBuf::from(&transcript.path);
                let content = if transcript.part.is_transcript() { FileContent::Lines } else { FileContent::Anything };
                if content == FileContent::Lines || is_gone(part, transcript.part.side_file()) {
                    paths.push((path, content));
                }
            }
            found.push(Self { session: session.clone(), is_whole: part.is_whole, paths });
        }
        Ok(found)
    }

    /// Removes what goes from these files, and returns those that were changed or removed. In a transcript that stays, lines are
    /// overwritten where they are: the client may be adding others.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn remove(&self, tombstones: &Tombstones) -> io::Result<Vec<PathBuf>> {
        let mut changed = Vec::new();
        for (path, content) in self.paths.iter().filter(|(path, _)| path.is_file()) {
            let is_changed = match content {
                FileContent::Lines if !self.is_whole => self.blank(path, tombstones)?,
                FileContent::Lines | FileContent::Anything => fs::remove_file(path).map(|()| true)?,
            };
            if is_changed {
                changed.push(path.clone());
            }
        }
        // Whatever else it has there.
        for own in
            self.paths.iter().map(|(path, _)| path.with_extension("")).filter(|own| self.is_whole && self.is_own_folder(own))
        {
            fs::remove_dir_all(&own)?;
            changed.push(own);
        }
        Ok(changed)
    }

    fn is_own_folder(&self, folder: &Path) -> bool {
        let is_named = folder.file_name().is_some_and(|name| name == self.session.as_str());
        is_named && folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
    }

    fn blank(&self, path: &Path, tombstones: &Tombstones) -> io::Result<bool> {
        let before = files::read(path)?;
        let mut after = before.clone();
        let end = memchr::memrchr(b'\n', &after).map_or(0, |at| at + 1);
        Blanks { tombstones: tombstones.clone(), keeps_private: true }.apply(&self.session, &mut after[..end]);
        let mut file: Option<File> = None;
        let mut start = 0;
        for (old, new) in before.split_inclusive(|byte| *byte == b'\n').zip(after.split_inclusive(|byte| *byte == b'\n')) {
            if old != new {
                let file = match &mut file {
                    Some(file) => file,
                    None => file.insert(files::open_no_link(path, File::options().write(true))?),
                };
                file.seek(SeekFrom::Start(start))?;
                file.write_all(new)?;
            }
            start += old.len() as u64;
        }
        file.map_or(Ok(false), |file| file.sync_all().map(|()| true))
    }
}

/// Removes prompts of what goes from the client's history of prompts; returns the file if it was changed.
///
/// # Errors
/// If it cannot be read or written.
pub fn remove_from_history(client: &Path, plan: &ForgetPlan) -> io::Result<Option<PathBuf>> {
    let path = client.join(HISTORY_FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = files::read(&path)?;
    let goes = |line: &[u8]| {
        let value: Value = serde_json::from_slice(line).unwrap_or_default();
        let session = value.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let is_whole = plan.parts.get(session).is_some_and(|part| part.is_whole);
        let said = [value.get("display"), value.get("pastedContents")].into_iter().flatten().map(Value::to_string);
        is_whole || said.into_iter().any(|said| any_text(said.as_bytes(), &mut |text| plan.covers(session, text)))
    };
    let kept: Vec<u8> = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| !goes(line)).flatten().copied().collect();
    if kept.len() == bytes.len() {
        return Ok(None);
    }
    files::replace(&path, &kept).map(|()| Some(path))
}

fn is_gone(part: &ForgetPart, side_file: Option<&str>) -> bool {
    part.is_whole || side_file.is_some_and(|file| part.files.contains(file))
}
