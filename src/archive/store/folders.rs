//! Folders that sessions worked in, and what is known of them.

use serde::{Deserialize, Serialize};

use super::StoreError;

/// A folder that sessions worked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFolder {
    /// The folder, as the archive names it.
    pub folder: String,
    /// Number of its sessions; those below it do not count.
    pub sessions: u64,
}

/// Facts about a folder, noted while it was there: a work tree of git, or a folder of sessions without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// The folder.
    pub folder: String,
    /// `true` if its file system ignores the case of letters.
    pub ignores_case: bool,
    /// Ids of the commits that the history of its repository begins with; empty if that is not known.
    pub root_commits: Vec<String>,
    /// The repository that it was cloned from, without user and password.
    pub remote: Option<String>,
    /// Name of the work tree, if it is not the main one.
    pub tree: Option<String>,
    /// Time of the note, in milliseconds since 1970; 0 since the project was moved elsewhere.
    pub noted_ms: i64,
}

/// A session that is to belong to another folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMove {
    /// Id of the session.
    pub session: String,
    /// Its folder from now on.
    pub folder: String,
}

/// Facts about folders, and sessions whose projects were moved. Facts are of one machine: a server keeps none.
pub trait FolderStore {
    /// Returns the facts about folders.
    fn folder_facts(&mut self) -> Result<Vec<FolderFacts>, StoreError> {
        Ok(Vec::new())
    }

    /// Notes facts about a folder; later ones replace earlier ones.
    fn note_folder(&mut self, _facts: &FolderFacts) -> Result<(), StoreError> {
        Ok(())
    }

    /// Changes the folders of this user's sessions, all or none, and takes their learnings along. Each keeps the folder that the
    /// client wrote ([`Session::moved_from`](super::Session::moved_from)).
    fn move_sessions(&mut self, moves: &[SessionMove]) -> Result<(), StoreError>;
}
