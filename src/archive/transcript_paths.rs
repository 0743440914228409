//! Paths of transcripts, and the information in them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::store::{SessionPart, Transcript};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_transcript::records;

/// Maximum bytes to search at the start of a file for a line that names the session, if the file name does not.
const PEEKED_BYTES: u64 = 256 << 10;

/// Maximum depth of folders between `projects` and a transcript: project, session, `subagents`, `workflows`, a workflow, and some to
/// spare.
const MAX_DEPTH: usize = 10;

impl Transcript {
    /// Identifies the transcript in a file: `<session>.jsonl`, `agent-<id>.jsonl` next to it (up to 2.0), or
    /// anywhere below `<session>/subagents`. If the name is no session's id, the first line that names a session decides.
    pub fn at(path: &Path) -> Self {
        // One file has one name, by whichever links and detours it was named.
        let real = paths::real(path);
        let path = real.as_deref().unwrap_or(path);
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let agent = stem.strip_prefix("agent-").filter(|id| !id.is_empty()).map(str::to_owned);
        let folders = path.ancestors().skip(1).find(|folder| is_named(folder, AGENT_FOLDER));
        let above = folders.and_then(Path::parent).and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let session = match (&agent, above) {
            (Some(_), Some(session)) => session,
            (None, _) if is_uuid(&stem) => stem,
            _ => named_inside(path).unwrap_or(stem),
        };
        let part = agent.map_or(SessionPart::Conversation, SessionPart::Agent);
        Self { path: path.to_string_lossy().into_owned(), session, part }
    }
}

/// Name of the folder with the transcripts of a session's sub-agents, in the session's own.
const AGENT_FOLDER: &str = "subagents";

fn is_named(folder: &Path, name: &str) -> bool {
    folder.file_name().is_some_and(|found| found == name)
}

/// `true` for the transcript of a sub-agent in a session's own folder, among all that may be there.
pub(crate) fn is_agent_transcript(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("agent-")
        && name.ends_with(".jsonl")
        && path.ancestors().skip(1).any(|folder| is_named(folder, AGENT_FOLDER))
}

/// `true` for a session's own folder, which stands beside its transcript until that is gone.
fn is_session_folder(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return false };
    let has = |folder: &str| path.join(folder).is_dir();
    path.with_file_name(format!("{name}.jsonl")).is_file() || is_uuid(&name) && (has(AGENT_FOLDER) || has("tool-results"))
}

fn is_uuid(name: &str) -> bool {
    let groups: Vec<&str> = name.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn named_inside(path: &Path) -> Option<String> {
    session_in(&peek(path)?)
}

/// The first bytes of a file.
fn peek(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open(path).ok()?.take(PEEKED_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The folder that a transcript's session was started in, if one of its first lines names it.
pub fn folder_of(path: &Path) -> Option<PathBuf> {
    let mut folder = None;
    records(&peek(path)?, &mut |record| {
        if folder.is_none() {
            folder = record.cwd().filter(|folder| !folder.is_empty()).map(PathBuf::from);
        }
    });
    folder
}

/// The session that the first of some lines names.
pub(crate) fn session_in(bytes: &[u8]) -> Option<String> {
    let mut name = None;
    records(bytes, &mut |record| {
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

/// The transcript of a session in the client's folder: the newest one, where more than one project has it.
pub fn transcript_of(client: &Path, session: &str) -> Option<PathBuf> {
    if !is_uuid(session) {
        return None;
    }
    let name = format!("{session}.jsonl");
    let paths = fs::read_dir(client.join("projects")).ok()?.flatten().map(|project| project.path().join(&name));
    let found = paths.filter_map(|path| Some((fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.modified().ok()?, path)));
    found.max_by_key(|(changed, _)| *changed).map(|(_, path)| path)
}

/// All transcripts below a folder, in a fixed order; the path itself if it is a file. Errors from listing are passed to `trouble`.
pub fn transcripts_below(path: &Path, trouble: &mut dyn FnMut(&Path, &std::io::Error)) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let is_session = path.ancestors().skip(1).any(is_session_folder);
    collect(path, 0, is_session, &mut found, trouble);
    found.sort();
    found
}

/// `is_session`: in the own folder of a session, where other files may end like a transcript.
fn collect(
    path: &Path,
    depth: usize,
    is_session: bool,
    found: &mut Vec<PathBuf>,
    trouble: &mut dyn FnMut(&Path, &std::io::Error),
) {
    let kind = match if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) } {
        Ok(metadata) => metadata.file_type(),
        Err(error) => return trouble(path, &error),
    };
    if kind.is_file() {
        let is_transcript =
            if is_session { is_agent_transcript(path) } else { path.extension().is_some_and(|extension| extension == "jsonl") };
        if depth == 0 || is_transcript {
            found.push(path.to_owned());
        }
    } else if kind.is_dir() && depth < MAX_DEPTH {
        match fs::read_dir(path) {
            Err(error) => trouble(path, &error),
            Ok(entries) => {
                let is_session = is_session || is_session_folder(path);
                for entry in entries.flatten() {
                    collect(&entry.path(), depth + 1, is_session, found, trouble);
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
    let own = session_path.with_extension("").join(AGENT_FOLDER);
    let mut found = transcripts_below_if_there(&own);
    // Ids come from the transcript: only such as can be no path.
    let is_plain =
        |id: &&String| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let beside = named.iter().filter(is_plain).map(|id| folder.join(format!("agent-{id}.jsonl")));
    found.extend(beside.filter(|path| path.is_file()));
    found
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn transcripts_below_if_there(folder: &Path) -> Vec<PathBuf> {
    // A link may lead anywhere.
    let is_real = folder.parent().is_some_and(is_real_folder) && is_real_folder(folder);
    if is_real { transcripts_below(folder, &mut |_, _| {}) } else { Vec::new() }
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
            (transcript.session, transcript.part.agent().map(str::to_owned))
        };
        assert_eq!(at(&format!("{uuid}.jsonl")), (uuid.to_owned(), None));
        assert_eq!(at(&format!("{uuid}/subagents/agent-a1.jsonl")), (uuid.to_owned(), Some("a1".to_owned())));
        assert_eq!(at(&format!("{uuid}/subagents/workflows/w1/agent-a2.jsonl")), (uuid.to_owned(), Some("a2".to_owned())));
        fs::write(folder.path().join("agent-b2.jsonl"), "{}\n{\"sessionId\":\"s\"}\n").expect("writable");
        assert_eq!(at("agent-b2.jsonl"), ("s".to_owned(), Some("b2".to_owned())));
        assert_eq!(at("notes.jsonl"), ("notes".to_owned(), None));
    }
}
