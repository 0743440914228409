//! Appending to the event log within a hook: one line, in one write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;

use super::super::Event;
use super::{EventLog, folder_name};
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_redact::Redactor;
use ctxbridge_transcript::blank::blank_private;
use ctxbridge_transcript::replace_lone_surrogates;

/// Size at which a file is rotated, in bytes; one older file is kept.
const MAX_LOGGED_BYTES: u64 = 8 << 20;

/// Maximum length of a logged text, in bytes. Files that a tool read are in the archive, and scanning all of them for secrets takes
/// time.
const MAX_TEXT_BYTES: usize = 32 << 10;

/// Time that the log of an inactive session is kept.
const EVENT_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Lock file that is held while a file is rotated.
const LOCK: &str = "rotate.lock";

#[derive(Serialize)]
struct EventLogLine {
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
}

impl EventLog {
    /// Appends the input of a hook, without the secrets that `redactor` finds.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&self, event: Event, session: Option<&str>, input: &[u8], now_ms: i64, redactor: &Redactor) -> io::Result<()> {
        let line = line(input, now_ms, redactor)?;
        let folder = self.folder.join(folder_name(session));
        let path = folder.join(format!("{}.jsonl", event.name()));
        let mut file = open(&folder, &path)?;
        if file.metadata()?.len() > MAX_LOGGED_BYTES {
            drop(file);
            rotate(&folder, &path)?;
            file = open(&folder, &path)?;
        }
        // One write, so that lines of several processes do not mix.
        file.write_all(&line)
    }

    /// Removes the folders of sessions that were inactive for 30 days.
    ///
    /// # Errors
    /// If the folder cannot be read. Folders that cannot be removed are tried again another time.
    pub fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age > EVENT_RETENTION);
        for entry in fs::read_dir(&self.folder)?.flatten() {
            // Only folders of ours: a link leads elsewhere.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && last_change(&entry.path()).is_some_and(is_old) {
                fs::remove_dir_all(entry.path()).ok();
            }
        }
        Ok(())
    }
}

fn line(input: &[u8], now_ms: i64, redactor: &Redactor) -> io::Result<Vec<u8>> {
    let ts = jiff::Timestamp::from_millisecond(now_ms).map(|time| format!("{time:.3}")).unwrap_or_default();
    let mut input = input.to_vec();
    blank_private(&mut input);
    let line = match serde_json::from_slice::<Value>(&replace_lone_surrogates(&input)) {
        Ok(mut payload) => {
            shorten(&mut payload);
            redactor.redact_json(&mut payload);
            EventLogLine { ts, payload: Some(payload), payload_text: None }
        }
        Err(_) => {
            let mut text = String::from_utf8_lossy(&input).into_owned();
            cut(&mut text);
            EventLogLine { ts, payload: None, payload_text: Some(redactor.redact(&text).text.into_owned()) }
        }
    };
    let mut bytes = Vec::with_capacity(input.len() + 64);
    serde_json::to_writer(&mut bytes, &line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Truncates texts that are longer than [`MAX_TEXT_BYTES`].
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => cut(text),
        Value::Array(values) => values.iter_mut().for_each(shorten),
        Value::Object(values) => values.values_mut().for_each(shorten),
        _ => {}
    }
}

fn cut(text: &mut String) {
    if text.len() > MAX_TEXT_BYTES {
        let kept = (0..=MAX_TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let left = text.len() - kept;
        text.truncate(kept);
        text.push_str(&format!(" [ctxbridge: {left} bytes more are not logged]"));
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    let open = || files::private().create(true).append(true).open(path);
    // The folder is there but for the first time.
    open().or_else(|_| {
        paths::create_private_dir(folder)?;
        open()
    })
}

/// Rotates a large file. If several processes see it, only one may rotate it: a second rotation would overwrite the older file. A
/// process that does not get the lock continues with the current file. A line written to a file that was just rotated is kept
/// there.
fn rotate(folder: &Path, path: &Path) -> io::Result<()> {
    let lock = files::open_lock(folder.join(LOCK))?;
    if lock.try_lock().is_ok() && fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_LOGGED_BYTES) {
        fs::rename(path, path.with_extension("jsonl.1"))?;
    }
    Ok(())
}

/// Returns the time of the last change in a folder.
fn last_change(folder: &Path) -> Option<SystemTime> {
    let of = |path: &Path| fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    let inside = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| of(&entry.path()));
    inside.chain(of(folder)).max()
}

#[cfg(test)]
mod tests {
    use ctxbridge_testkit::is_left_out;

    use super::*;

    fn text(line: &[u8]) -> String {
        String::from_utf8(line.to_vec()).expect("UTF-8")
    }

    #[test]
    fn lines_keep_the_order_and_lose_the_secrets() {
        let input = br#" {"z": 1, "a": {"cmd": "export API_TOKEN=abcdefgh\nls", "password": "hunter2"}, "half": "\ud800"}
        "#;
        insta::assert_snapshot!(text(&line(input, 1_790_000_000_123, Redactor::standard()).expect("a line")), @r#"{"ts":"2026-09-21T14:13:20.123Z","payload":{"z":1,"a":{"cmd":"export API_TOKEN=[redacted:named-secret]\nls","password":"[redacted:named-secret]"},"half":"�"}}"#);
        insta::assert_snapshot!(text(&line(b"password=hunter2\n{", 0, Redactor::standard()).expect("a line")), @r#"{"ts":"1970-01-01T00:00:00.000Z","payload_text":"password=[redacted:named-secret]\n{"}"#);
        insta::assert_snapshot!(text(&line(b"\xff", 0, Redactor::standard()).expect("a line")), @r#"{"ts":"1970-01-01T00:00:00.000Z","payload_text":"�"}"#);
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let long = "é".repeat(MAX_TEXT_BYTES);
        let input = serde_json::json!({ "tool_response": { "file": { "content": long } }, "tool_name": "Read" });
        let logged: Value =
            serde_json::from_slice(&line(input.to_string().as_bytes(), 0, Redactor::standard()).expect("a line")).expect("JSON");
        let said = logged["payload"]["tool_response"]["file"]["content"].as_str().expect("text");
        assert!(said.ends_with("é [ctxbridge: 32768 bytes more are not logged]"), "{}", &said[said.len() - 80..]);
        assert_eq!(logged["payload"]["tool_name"], "Read");
        assert!(text(&line(long.as_bytes(), 0, Redactor::standard()).expect("a line")).contains("bytes more are not logged"));
    }

    #[test]
    fn a_large_file_is_put_aside_and_nothing_is_lost() {
        let data = tempfile::tempdir().expect("a folder");
        let log = EventLog::in_dir(data.path());
        let folder = log.folder().join("s");
        let path = folder.join("Stop.jsonl");
        let append =
            |input: &str| log.append(Event::Stop, Some("s"), input.as_bytes(), 0, Redactor::standard()).expect("appends");
        append("{\"first\":1}");
        // Longer than the limit by itself, and still one line.
        let texts = vec!["x".repeat(MAX_TEXT_BYTES); (MAX_LOGGED_BYTES as usize).div_ceil(MAX_TEXT_BYTES)];
        append(&serde_json::json!({ "long": texts }).to_string());
        append("{\"second\":1}");
        let lines = |path: &Path| fs::read_to_string(path).expect("readable").lines().count();
        assert_eq!((lines(&path.with_extension("jsonl.1")), lines(&path)), (2, 1));
        // Somebody else is putting it aside: the line goes where the file is.
        append(&serde_json::json!({ "long": texts }).to_string());
        let lock = files::open_lock(folder.join(LOCK)).expect("opens");
        lock.lock().expect("locks");
        append("{\"third\":1}");
        assert_eq!((lines(&path.with_extension("jsonl.1")), lines(&path)), (2, 3));
    }

    #[test]
    fn several_writers_at_the_limit_lose_no_line() {
        let data = tempfile::tempdir().expect("a folder");
        let log = EventLog::in_dir(data.path());
        let path = log.folder().join("s").join("Stop.jsonl");
        fs::create_dir_all(log.folder().join("s")).expect("a folder");
        fs::write(&path, vec![b'\n'; MAX_LOGGED_BYTES as usize + 1]).expect("writable");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let log = &log;
                scope.spawn(move || {
                    for number in 0..50 {
                        let input = format!("{{\"writer\":{writer},\"number\":{number}}}");
                        log.append(Event::Stop, Some("s"), input.as_bytes(), 0, Redactor::standard()).expect("appends");
                    }
                });
            }
        });
        let both =
            fs::read_to_string(path.with_extension("jsonl.1")).expect("readable") + &fs::read_to_string(&path).expect("readable");
        let lines: Vec<&str> = both.lines().filter(|line| !line.is_empty()).collect();
        let is_whole = lines.len() == 200 && lines.iter().all(|line| serde_json::from_str::<Value>(line).is_ok());
        // Windows appends in one step; wine finds the end of the file, and writes there in a second one.
        assert!(is_whole || cfg!(windows) && is_left_out("atomic-append", false), "{} lines", lines.len());
    }

    #[test]
    fn old_sessions_are_removed() {
        let data = tempfile::tempdir().expect("a folder");
        let log = EventLog::in_dir(data.path());
        log.append(Event::Stop, Some("old"), b"{}", 0, Redactor::standard()).expect("appends");
        let now = SystemTime::now();
        log.remove_old(now + EVENT_RETENTION / 2).expect("readable");
        assert!(log.folder().join("old").exists());
        log.remove_old(now + EVENT_RETENTION * 2).expect("readable");
        assert!(!log.folder().join("old").exists());
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let data = tempfile::tempdir().expect("a folder");
        let log = EventLog::in_dir(data.path());
        log.append(Event::PostToolUse, Some("s"), b"{}", 0, Redactor::standard()).expect("appends");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let folder = log.folder().join("s");
        assert_eq!((mode(log.folder()), mode(&folder), mode(&folder.join("PostToolUse.jsonl"))), (0o700, 0o700, 0o600));
    }
}
