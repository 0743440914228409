//! Paths of transcripts, and the information in them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::store::Transcript;
use ctxbridge_transcript::records;

/// Maximum bytes to search at the start of a file for a line that names the session, if the file name does not.
const PEEKED_BYTES: u64 = 256 << 10;

/// Maximum depth of folders between `projects` and a transcript: project, session, `subagents`, and one to spare.
const MAX_DEPTH: usize = 6;

impl Transcript {
    /// Identifies the transcript in a file: `<session>.jsonl`, `agent-<id>.jsonl` next to it (up to 2.0), or
    /// `<session>/subagents/agent-<id>.jsonl`. If the name is no session's id, the first line that names a session decides.
    pub fn at(path: &Path) -> Self {
        // One file has one name, by whichever links and detours it was named.
        let real = path.canonicalize();
        let path = real.as_deref().unwrap_or(path);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let agent = stem.strip_prefix("agent-").filter(|id| !id.is_empty()).map(str::to_owned);
        let folders = path.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "subagents"));
        let above = folders.and_then(Path::parent).and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let session = match (&agent, above) {
            (Some(_), Some(session)) => session,
            (None, _) if is_uuid(&stem) => stem,
            _ => named_inside(path).unwrap_or(stem),
        };
        Self { path: path.to_string_lossy().into_owned(), session, agent }
    }
}

fn is_uuid(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn named_inside(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(PEEKED_BYTES).read_to_end(&mut bytes).ok()?;
    let mut name = None;
    records(&bytes, &mut |record| {
        if name.is_none() {
            name = record.session_id().filter(|session| !session.is_empty()).map(str::to_owned);
        }
    });
    name
}

/// The client's folder: `$CLAUDE_CONFIG_DIR`, else `.claude` in the home directory.
pub fn client_folder() -> Option<PathBuf> {
    match std::env::var_os("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => ctxbridge_common::paths::home_dir().map(|home| home.join(".claude")),
    }
}

/// All transcripts below a folder, in a fixed order; the path itself if it is a file. Errors from listing are passed to `trouble`.
pub fn transcripts_below(path: &Path, trouble: &mut dyn FnMut(&Path, &std::io::Error)) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(path, 0, &mut found, trouble);
    found.sort();
    found
}

fn collect(path: &Path, depth: usize, found: &mut Vec<PathBuf>, trouble: &mut dyn FnMut(&Path, &std::io::Error)) {
    let kind = match if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) } {
        Ok(metadata) => metadata.file_type(),
        Err(error) => return trouble(path, &error),
    };
    if kind.is_file() {
        if depth == 0 || path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path.to_owned());
        }
    } else if kind.is_dir() && depth < MAX_DEPTH {
        match fs::read_dir(path) {
            Err(error) => trouble(path, &error),
            Ok(entries) => {
                for entry in entries.flatten() {
                    collect(&entry.path(), depth + 1, found, trouble);
                }
            }
        }
    } else if depth == 0 {
        // A device, a pipe: to read it might not end.
        trouble(path, &std::io::Error::new(std::io::ErrorKind::InvalidInput, "neither a file nor a folder"));
    }
}

/// Files of a session's sub-agents: those named in its transcript, or all in the session's own folder.
pub fn agent_transcripts(session_path: &Path, named: &[String]) -> Vec<PathBuf> {
    let Some(folder) = session_path.parent() else { return Vec::new() };
    let own = session_path.with_extension("").join("subagents");
    let mut found = transcripts_below_if_there(&own);
    // Ids come from the transcript: only such as can be no path.
    let is_plain =
        |id: &&String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let beside = named.iter().filter(is_plain).map(|id| folder.join(format!("agent-{id}.jsonl")));
    found.extend(beside.filter(|path| path.is_file()));
    found
}

fn transcripts_below_if_there(folder: &Path) -> Vec<PathBuf> {
    if folder.is_dir() { transcripts_below(folder, &mut |_, _| {}) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_they_are_of() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
        let at = |path: &str| {
            let transcript = Transcript::at(&folder.path().join(path));
            (transcript.session, transcript.agent)
        };
        assert_eq!(at(&format!("{uuid}.jsonl")), (uuid.to_owned(), None));
        assert_eq!(at(&format!("{uuid}/subagents/agent-a1.jsonl")), (uuid.to_owned(), Some("a1".to_owned())));
        fs::write(folder.path().join("agent-b2.jsonl"), "{}\n{\"sessionId\":\"s\"}\n").expect("writable");
        assert_eq!(at("agent-b2.jsonl"), ("s".to_owned(), Some("b2".to_owned())));
        assert_eq!(at("notes.jsonl"), ("notes".to_owned(), None));
    }
}
