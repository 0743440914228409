/*!
Event log: the client's input to each hook, for debugging. Off by default, because it repeats everything.

One folder per session, one file per event, one JSON object per line: `logs/events/SESSION/PostToolUse.jsonl`. Secrets are removed
before anything is written. Hooks use [`write`](mod@write), in milliseconds; [`read`] is for people.
*/

mod read;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use read::{LoggedEvent, LoggedEvents, SessionLog};

use ctxbridge_common::{digest, files};

/// Event log of a data folder.
#[derive(Clone, Debug)]
pub struct EventLog {
    folder: PathBuf,
}

impl EventLog {
    /// Opens the log of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.join("logs").join("events") }
    }

    /// Removes the events of a session.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn forget(&self, session: &str) -> io::Result<()> {
        files::gone(fs::remove_dir_all(self.folder.join(folder_name(Some(session)))))
    }

    /// Returns its folder, which may not exist yet.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Returns the folder name of a session. The id comes from outside: if it could be a path or is too long for a name, its hash is
/// used.
fn folder_name(session: Option<&str>) -> String {
    const LONGEST: usize = 64;
    const HASH: usize = 32;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match session {
        None | Some("") => "no-session".to_owned(),
        Some(id) if id.len() <= LONGEST && id.bytes().all(is_plain) => id.to_owned(),
        Some(id) => format!("hash-{}", digest::of_bytes(id.as_bytes()).chars().take(HASH).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_session_leads_out_of_the_folder() {
        assert_eq!(folder_name(Some("5f0c1d2e-9a8b_C")), "5f0c1d2e-9a8b_C");
        assert_eq!(folder_name(None), "no-session");
        let long = "a".repeat(65);
        for id in ["..", ".", "a/b", "a\\b", "/etc", "a\0", "ü", "a b", "C:", &long] {
            let name = folder_name(Some(id));
            assert!(name.starts_with("hash-") && name.len() == 37, "{id}: {name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
        }
        assert_ne!(folder_name(Some("a/b")), folder_name(Some("a/c")));
    }
}
