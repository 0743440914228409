//! Where their archives are, and what is in one.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::database::Database;
use super::entry::Entry;
use super::json_file::JsonFile;
use super::{Failed, lines};

/// The names of their files.
const FILES: [&str; 2] = ["transcript-archive.db", "transcript-archive.json"];

/// Where they are below a folder: their data folder itself, what it is in, a project.
const BELOW: [&str; 3] = ["", "data", ".claude-flow/data"];

/// An archive that cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system says no.
    #[error("cannot read {path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        cause: io::Error,
    },
    /// It cannot be copied to where its log can be read.
    #[error("cannot read {path} where it is, nor copy it to a temporary folder: {cause}; free some space there, or set TMPDIR")]
    Copy {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// SQLite says no.
    #[error("cannot read {path}: {cause}; see that it is claude-flow's transcript-archive.db, and that you may read it")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What it says.
        cause: rusqlite::Error,
    },
    /// Somebody does nothing but write.
    #[error("{path} is being written all the time; try again when claude-flow is at rest")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// A database of something else.
    #[error("{path} is no archive of claude-flow: it has no table transcript_entries with ids and contents")]
    OfAnother {
        /// The database.
        path: PathBuf,
    },
    /// A JSON file that is none of theirs.
    #[error("{path} is no archive of claude-flow: {cause}")]
    NoList {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file that nobody reads into memory.
    #[error("{path} has {bytes} bytes, more than the {most} that are read of a JSON archive; remove old entries from it")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
}

/// Why an entry is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Where an entry is in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The row of a table.
    Row(i64),
    /// The number of an item in a list.
    Item(usize),
}

/// An entry that there is, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where.
    pub at: At,
    /// Its id, or what stands for one.
    pub id: String,
    /// The client's session.
    pub session: String,
    /// When it was written down, and its number then: the order in which they were said.
    pub order: (Option<i64>, Option<i64>),
}

/// One of their archives.
#[derive(Debug)]
pub enum Source {
    /// `transcript-archive.db`
    Database(Database),
    /// `transcript-archive.json`
    Json(JsonFile),
}

impl Source {
    /// Opens one to look at.
    ///
    /// # Errors
    /// When it cannot be read, or is none of theirs.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let failed = |cause| SourceError::Io { path: path.to_owned(), cause };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        // Before it is opened: a pipe would wait for somebody to write into it.
        if !metadata.is_file() {
            return Err(failed(io::Error::other("it is no file")));
        }
        if path.extension().is_some_and(|extension| extension == "json") {
            return JsonFile::open(path, metadata.len()).map(Self::Json);
        }
        Database::open(path).map(Self::Database)
    }

    /// What it has, in the order in which it was said; and what cannot be read.
    pub fn list(&mut self) -> (Vec<Listed>, Vec<Failed>) {
        let (mut listed, failed) = match self {
            Self::Database(database) => database.list(),
            Self::Json(file) => file.list(),
        };
        listed.sort_by_key(|one| one.order);
        (listed, failed)
    }

    /// An entry; nothing when it is gone.
    ///
    /// # Errors
    /// The reason when it is left out.
    pub fn entry(&mut self, at: At) -> Result<Option<Entry>, Refused> {
        match (self, at) {
            (Self::Database(database), At::Row(row)) => database.entry(row),
            (Self::Json(file), At::Item(item)) => file.entry(item),
            _ => Ok(None),
        }
    }
}

/// The archives at a path: the file itself, or those in the usual places below a folder.
pub fn sources_at(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let places = BELOW.iter().flat_map(|below| FILES.map(|file| path.join(below).join(file)));
    places.filter(|path| path.is_file()).collect()
}

/// The name of the transcript that is made of a session in an archive.
pub fn transcript_name(source: &Path, session: &str) -> String {
    format!("{}{}#{session}", lines::BEGIN, source.display())
}

/// The project that an archive is in, where its place tells: one in the home is of all projects that have none of their own.
pub fn project_of<'s>(source: &'s Path, home: Option<&Path>) -> Option<&'s Path> {
    let data = source.parent().filter(|data| data.ends_with(".claude-flow/data"))?;
    let project = data.parent()?.parent()?;
    let is_home = home.is_some_and(|home| project == home || home.canonicalize().is_ok_and(|home| project == home));
    (!is_home).then_some(project)
}

/// Whose an entry is; `name` is what it is called when it has no id.
pub(super) fn whose(mut original: Map<String, Value>, at: At, name: String) -> Listed {
    // The content is read when its turn comes.
    original.insert("content".to_owned(), Value::String("-".to_owned()));
    match Entry::of(original, None) {
        Ok(entry) => {
            let id = if entry.id.is_empty() { name } else { entry.id };
            Listed { at, id, session: entry.session, order: (entry.created_ms, entry.chunk) }
        }
        Err(_) => Listed { at, id: name, session: String::new(), order: (None, None) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_found_in_the_usual_places() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join(".claude-flow/data");
        std::fs::create_dir_all(&data).expect("a folder");
        std::fs::write(data.join("transcript-archive.json"), "[]").expect("a file");
        let expected = [data.join("transcript-archive.json")];
        for at in [folder.path(), &folder.path().join(".claude-flow"), &data, &expected[0]] {
            assert_eq!(sources_at(at), expected, "{}", at.display());
        }
        assert_eq!(project_of(&expected[0], None), Some(folder.path()));
        assert_eq!(project_of(&expected[0], Some(folder.path())), None);
        assert_eq!(project_of(Path::new("/a/transcript-archive.db"), None), None);
    }
}
