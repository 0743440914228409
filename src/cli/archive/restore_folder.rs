//! A session's files below a folder, as the client had them: `<session>.jsonl`, and `<session>/…` beside it.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::cli::output::{Output, count, size};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::side_files::OmittedFile;
use ctxbridge_archive::store::{EVERYTHING, SegmentReader, SessionPart, Store, StoreError, StoredTranscript};
use ctxbridge_common::{files, paths};

/// Files of a session besides its own transcript.
#[derive(Debug, Default)]
pub(super) struct SessionFiles<'t> {
    /// Transcripts of sub-agents, and files beside the transcript, by their paths next to it.
    pub kept: Vec<(String, &'t StoredTranscript)>,
    /// Side files that were noted and not kept.
    pub omitted: Vec<(String, &'t StoredTranscript)>,
}

impl<'t> SessionFiles<'t> {
    /// The files that belong to a transcript. Where the session was moved, several have the same place: the one beside this transcript
    /// counts, or else the newest.
    pub fn of(transcripts: &'t [StoredTranscript], own: &StoredTranscript, session: &str) -> Self {
        let beside = own.path.strip_suffix(".jsonl").unwrap_or(&own.path);
        let mut by_place: HashMap<(String, bool), &StoredTranscript> = HashMap::new();
        for file in transcripts {
            let (place, is_kept) = match &file.part {
                SessionPart::Conversation => continue,
                SessionPart::Agent(id) => (agent_place(&file.path, session, id), true),
                SessionPart::SideFile(path) => (format!("{session}/{path}"), true),
                SessionPart::OmittedFile(path) => (format!("{session}/{path}"), false),
            };
            let rank = |file: &StoredTranscript| (file.path.starts_with(beside), file.key);
            let known = by_place.entry((place, is_kept)).or_insert(file);
            if rank(file) > rank(known) {
                *known = file;
            }
        }
        let mut files = Self::default();
        for ((place, is_kept), file) in by_place {
            if is_kept { &mut files.kept } else { &mut files.omitted }.push((place, file));
        }
        files.kept.sort_by(|a, b| a.0.cmp(&b.0));
        files.omitted.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }

    /// Notes the files that are not written, since only the transcript is.
    pub fn note_left(&self, session: &str, output: &Output) {
        let beside = self.kept.iter().filter(|(_, file)| file.part.side_file().is_some());
        let (number, bytes) = beside.fold((0, 0_u64), |(number, bytes), (_, file)| (number + 1, bytes + file.bytes));
        if number > 0_u64 {
            output.note(&format!(
                "{} beside the transcript ({}); `ctxbridge archive restore {} -o FOLDER/` writes them too",
                count(number, "file"),
                size(bytes.cast_signed()),
                session.get(..8).unwrap_or(session)
            ));
        }
    }

    /// Notes the files that were too large to be kept.
    pub fn note_omitted(&self, store: &mut dyn SegmentReader, output: &Output) -> anyhow::Result<()> {
        for (place, file) in &self.omitted {
            let mut note = Vec::new();
            store.read_bytes(file.key, file.generation, EVERYTHING, &mut note)?;
            let what = serde_json::from_slice::<OmittedFile>(&note).map_or_else(
                |_| "too large".to_owned(),
                |omitted| format!("{}, SHA-256 {}", size(omitted.bytes.cast_signed()), printable(&omitted.sha256)),
            );
            output.note(&format!("not kept, since it is too large: {} ({what})", printable(place)));
        }
        Ok(())
    }
}

/// The place of a sub-agent's transcript: up to 2.0 beside the session's, later in the session's own folder.
fn agent_place(path: &str, session: &str, id: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    let name = format!("agent-{id}.jsonl");
    let is_agent = parts.last().is_some_and(|last| *last == name);
    match parts.iter().rposition(|part| *part == session).filter(|_| is_agent) {
        Some(at) => parts[at..].join("/"),
        None if is_agent => name,
        // Its name had a secret, or it was made by another tool.
        None => format!("{session}/subagents/{name}"),
    }
}

/// Start and length of a piece that was left out.
pub(super) type OmittedPieces = Vec<(u64, u32)>;

/// Writes a generation of a file, and returns what was left out.
pub(super) type WriteFile<'w> =
    &'w dyn Fn(&mut dyn Store, &StoredTranscript, u32, &mut dyn Write) -> Result<OmittedPieces, StoreError>;

/// Writes a transcript of a session and all files beside it below a folder. Returns `true` if all of them are whole.
pub(super) fn restore_to(
    store: &mut dyn Store,
    folder: &Path,
    session: &str,
    (own, generation): (&StoredTranscript, u32),
    files: &SessionFiles<'_>,
    write: WriteFile<'_>,
    output: &Output,
) -> anyhow::Result<bool> {
    let own_name = format!("{session}.jsonl");
    // Before anything is written.
    let mut targets = vec![(target(folder, &own_name)?, own, generation)];
    for (place, file) in &files.kept {
        targets.push((target(folder, place)?, file, file.generation));
    }
    for (path, ..) in &targets {
        ensure!(fs::symlink_metadata(path).is_err(), "{} is there already", path.display());
        let parent = path.parent().unwrap_or(folder);
        ensure!(!has_link(folder, parent), "{} leads through a link", path.display());
    }
    paths::create_private_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut is_whole = true;
    for (path, file, generation) in &targets {
        let cannot = || format!("cannot create {}", path.display());
        let parent = path.parent().unwrap_or(folder);
        paths::create_private_dir(parent).with_context(cannot)?;
        ensure!(!has_link(folder, parent), "{} leads through a link", path.display());
        let mut written = files::private().create_new(true).open(path).with_context(cannot)?;
        for (start, bytes) in write(store, file, *generation, &mut written)? {
            output.note(&format!("left out of {}: {bytes} bytes from byte {start} on, which are damaged", path.display()));
            is_whole = false;
        }
        written.sync_all()?;
    }
    output.note(&format!("{} written below {}", count(targets.len() as u64, "file"), folder.display()));
    Ok(is_whole)
}

/// The place of a file below a folder. It comes from the archive, and must not lead out of there.
fn target(folder: &Path, place: &str) -> anyhow::Result<PathBuf> {
    let inside = Path::new(place);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.is_empty());
    let is_safe = inside.components().all(is_plain)
        && place.split('/').count() == inside.components().count()
        && !(cfg!(windows) && place.contains([':', '\\']));
    ensure!(is_safe, "a file of this session has a name that is no path below a folder: {}", printable(place));
    Ok(folder.join(inside))
}

/// `true` if a folder on the way from one to another below it is a link.
fn has_link(folder: &Path, below: &Path) -> bool {
    let way = below.ancestors().take_while(|part| *part != folder && part.starts_with(folder));
    way.into_iter().any(|part| fs::symlink_metadata(part).is_ok_and(|metadata| metadata.is_symlink()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let folder = Path::new("/out");
        assert_eq!(target(folder, "s/tool-results/a.txt").expect("plain"), Path::new("/out/s/tool-results/a.txt"));
        for place in ["../a", "/etc/passwd", "s/../../a", "s//a", "s/./a", "", ".."] {
            assert!(target(folder, place).is_err(), "{place}");
        }
    }

    #[test]
    fn agents_go_where_they_were() {
        for (path, place) in [
            ("/h/-w/s/subagents/agent-a1.jsonl", "s/subagents/agent-a1.jsonl"),
            ("/h/-w/s/subagents/workflows/w1/agent-a1.jsonl", "s/subagents/workflows/w1/agent-a1.jsonl"),
            ("C:\\h\\-w\\s\\subagents\\agent-a1.jsonl", "s/subagents/agent-a1.jsonl"),
            ("/h/-w/agent-a1.jsonl", "agent-a1.jsonl"),
            ("/h/[redacted:token]#s/a1", "s/subagents/agent-a1.jsonl"),
        ] {
            assert_eq!(agent_place(path, "s", "a1"), place);
        }
    }
}
