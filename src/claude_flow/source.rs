//! Finds claude-flow archives, and lists their entries.

use std::io;
use std::path::{Path, PathBuf};

use super::database::Database;
use super::entry::FlowEntry;
use super::json_file::JsonFile;
use super::listed::{At, ListedEntry, SkipReason, SourceError};
use super::{Failed, lines};
use ctxbridge_common::paths;

/// Names of their files.
const FILES: [&str; 2] = ["transcript-archive.db", "transcript-archive.json"];

/// Their locations below a folder: the data folder itself, its parent, a project.
const BELOW: [&str; 3] = ["", "data", ".claude-flow/data"];

/// One of their archives.
#[derive(Debug)]
pub enum FlowSource {
    /// `transcript-archive.db`
    Database(Database),
    /// `transcript-archive.json`
    Json(JsonFile),
}

impl FlowSource {
    /// Opens one read-only.
    ///
    /// # Errors
    /// If it cannot be read, or is none of theirs.
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

    /// Lists its entries in the order of the turns, and those that cannot be read.
    pub fn list(&mut self) -> (Vec<ListedEntry>, Vec<Failed>) {
        let (mut listed, failed) = match self {
            Self::Database(database) => database.list(),
            Self::Json(file) => file.list(),
        };
        listed.sort_by_key(|one| one.order);
        (listed, failed)
    }

    /// Reads an entry, or returns `None` if it is gone.
    ///
    /// # Errors
    /// The reason, if it is skipped.
    pub fn entry(&mut self, at: At) -> Result<Option<FlowEntry>, SkipReason> {
        match (self, at) {
            (Self::Database(database), At::Row(row)) => database.entry(row),
            (Self::Json(file), At::Item(item)) => file.entry(item),
            _ => Ok(None),
        }
    }
}

/// Returns the archives at a path: the file itself, or those in the usual places below a folder.
pub fn sources_at(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let places = BELOW.iter().flat_map(|below| FILES.map(|file| path.join(below).join(file)));
    places.filter(|path| path.is_file()).collect()
}

/// Returns the name of the transcript for a session of an archive.
pub fn transcript_name(source: &Path, session: &str) -> String {
    format!("{}{}#{session}", lines::TRANSCRIPT_PREFIX, source.display())
}

/// Returns the project of an archive, if its path tells. One in the home folder is for all projects without their own.
pub fn project_of<'s>(source: &'s Path, home: Option<&Path>) -> Option<&'s Path> {
    let data = source.parent().filter(|data| data.ends_with(".claude-flow/data"))?;
    let project = data.parent()?.parent()?;
    let is_home = home.is_some_and(|home| project == home || paths::real(home).is_ok_and(|home| project == home));
    (!is_home).then_some(project)
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
