//! Reading the event log.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;

use super::super::Event;
use super::EventLog;
use ctxbridge_common::files;

/// Prefix of every line.
const LINE_PREFIX: &[u8] = b"{\"ts\":\"";

/// Summary of a session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionLog {
    /// Its id, or the name of its folder.
    pub session: String,
    /// Time of the last entry, in milliseconds since 1970.
    #[serde(skip)]
    pub changed_ms: i64,
    /// Number of entries per event.
    pub events: BTreeMap<&'static str, u64>,
    /// Bytes of its files.
    pub size_bytes: u64,
}

/// Input of one hook run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoggedEvent {
    /// Time, as RFC 3339.
    pub ts: String,
    /// The event.
    pub event: &'static str,
    /// Size in the log, in bytes.
    pub size_bytes: usize,
    /// The input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// The input, if it was not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_text: Option<String>,
}

/// Logged events of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedEvents {
    /// Entries, oldest first.
    pub entries: Vec<LoggedEvent>,
    /// Number of lines that are foreign or truncated.
    pub skipped: usize,
}

impl EventLog {
    /// Lists sessions whose folder names begin with `prefix`, newest first.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn sessions(&self, prefix: &str) -> io::Result<Vec<SessionLog>> {
        let folders = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders?,
        };
        let mut sessions = Vec::new();
        for folder in folders {
            let folder = folder?;
            let session = folder.file_name().to_string_lossy().into_owned();
            if !folder.file_type()?.is_dir() || !session.starts_with(prefix) {
                continue;
            }
            let mut log = SessionLog { session, changed_ms: 0, events: BTreeMap::new(), size_bytes: 0 };
            for event in Event::ALL {
                for path in files(&folder.path(), event) {
                    let Ok(bytes) = files::read(&path) else { continue };
                    *log.events.entry(event.name()).or_default() += memchr::memchr_iter(b'\n', &bytes).count() as u64;
                    log.size_bytes += bytes.len() as u64;
                    log.changed_ms = log.changed_ms.max(changed_ms(&path));
                }
            }
            sessions.push(log);
        }
        sessions.sort_by(|one, other| (other.changed_ms, &one.session).cmp(&(one.changed_ms, &other.session)));
        Ok(sessions)
    }

    /// Reads the logged events of a session, by the name of its folder: those of one event, or all.
    pub fn entries(&self, session: &str, only: Option<Event>) -> LoggedEvents {
        let mut found = LoggedEvents::default();
        let folder = self.folder.join(session);
        for event in Event::ALL.into_iter().filter(|event| only.is_none_or(|only| only == *event)) {
            for path in files(&folder, event) {
                // The older one need not be there.
                let Ok(bytes) = files::read(&path) else { continue };
                for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
                    let (entry, skipped) = entry(line, event);
                    found.entries.extend(entry);
                    found.skipped += skipped;
                }
            }
        }
        found.entries.sort_by(|one, other| one.ts.cmp(&other.ts));
        found
    }
}

/// Returns the files of an event, the older one first.
fn files(folder: &Path, event: Event) -> [std::path::PathBuf; 2] {
    ["jsonl.1", "jsonl"].map(|extension| folder.join(format!("{}.{extension}", event.name())))
}

fn changed_ms(path: &Path) -> i64 {
    let time = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Parses a line, and counts the entries lost in it: the next entry may follow a truncated one on the same line.
fn entry(line: &[u8], event: Event) -> (Option<LoggedEvent>, usize) {
    if let Some(entry) = parsed(line, event) {
        return (Some(entry), 0);
    }
    let last = memchr::memmem::rfind(line, LINE_PREFIX).filter(|at| *at > 0);
    (last.and_then(|at| parsed(&line[at..], event)), 1)
}

fn parsed(line: &[u8], event: Event) -> Option<LoggedEvent> {
    let Value::Object(mut fields) = serde_json::from_slice(line).ok()? else { return None };
    let ts = fields.remove("ts")?.as_str()?.to_owned();
    let payload = fields.remove("payload");
    let payload_text = fields.remove("payload_text").and_then(|text| text.as_str().map(str::to_owned));
    (payload.is_some() || payload_text.is_some()).then(|| LoggedEvent {
        ts,
        event: event.name(),
        size_bytes: line.len() + 1,
        payload,
        payload_text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxbridge_redact::Redactor;

    #[test]
    fn torn_lines_and_garbage_are_skipped() {
        let data = tempfile::tempdir().expect("a folder");
        let log = EventLog::in_dir(data.path());
        assert_eq!(log.sessions("").expect("nothing"), []);
        assert_eq!(log.entries("s", None), LoggedEvents::default());
        log.append(Event::Stop, Some("s"), b"{\"a\":1}", 1_000, Redactor::standard()).expect("appends");
        log.append(Event::SessionStart, Some("s"), b"{\"a\":0}", 500, Redactor::standard()).expect("appends");
        let path = log.folder().join("s").join("Stop.jsonl");
        let mut bytes = fs::read(&path).expect("readable");
        bytes.extend(b"garbage\n\n[1]\n{\"ts\":\"1970-01-01T00:00:02Z\",\"payload\":{\"tor");
        fs::write(&path, bytes).expect("writable");
        // The next line follows on that of a process that was killed.
        log.append(Event::Stop, Some("s"), b"{\"a\":3}", 3_000, Redactor::standard()).expect("appends");
        let found = log.entries("s", None);
        let told: Vec<_> =
            found.entries.iter().map(|entry| (entry.event, entry.payload.clone().expect("JSON")["a"].clone())).collect();
        assert_eq!(told, [("SessionStart", 0.into()), ("Stop", 1.into()), ("Stop", 3.into())]);
        assert_eq!(found.skipped, 3);
        assert_eq!(log.entries("s", Some(Event::SessionStart)).entries.len(), 1);
        assert_eq!(log.sessions("t").expect("readable"), []);
        assert_eq!(log.sessions("s").expect("readable")[0].events, [("SessionStart", 1), ("Stop", 5)].into());
    }
}
