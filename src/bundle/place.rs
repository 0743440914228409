//! Where bundles lie, what their files are called, and what git is told about them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Project;
use super::project::STATE_CHARS;
use ctxbridge_common::files;

/// The folder of a project that is ours.
pub const FOLDER: &str = ".ctxbridge";

/// The folder in it that bundles are in.
pub const BUNDLES: &str = "bundles";

/// Characters of a session's id in a file's name.
const ID_CHARS: usize = 64;

/// What git is to do with our files, each beside what it is about. In a folder of our own, no file of the project has to be edited.
pub(crate) const FOR_GIT: [(&str, &str); 3] = [
    (
        ".gitattributes",
        "# Lines of several branches are all kept, in any order. Archives of a release have none of it.\n* export-ignore\nbundles/*.jsonl merge=union text eol=lf linguist-generated\n",
    ),
    (
        ".gitignore",
        "# Bundles and settings are shared, whatever else comes to lie here is not.\n/*\n!/.gitattributes\n!/.gitignore\n!/.npmignore\n!/config.toml\n!/bundles/\n/bundles/*\n!/bundles/*.jsonl\n",
    ),
    (
        ".npmignore",
        "# What is asked and done here is for those who have the repository, not for those who install the package.\n*\n",
    ),
];

/// A place for bundles that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It leads out of the project.
    #[error("{} leads out of the project; ctxbridge follows no links there", .0.display())]
    Elsewhere(PathBuf),
    /// The system says no.
    #[error("cannot {step} {}: {cause}", path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// The bundles of a project.
#[derive(Clone, Debug)]
pub struct Bundles {
    project: Project,
    ours: PathBuf,
    folder: PathBuf,
}

impl Bundles {
    /// Those of this project, which need not exist.
    pub fn of(project: &Project) -> Self {
        let ours = project.root.join(FOLDER);
        Self { folder: ours.join(BUNDLES), ours, project: project.clone() }
    }

    /// The project's folder.
    pub fn project(&self) -> &Path {
        &self.project.root
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there are any, in the project and not where a link leads.
    ///
    /// # Errors
    /// When the folder is a link: a repository of somebody else must not have us read or write elsewhere.
    pub fn exist(&self) -> Result<bool, PlaceError> {
        for folder in [&self.ours, &self.folder] {
            match folder.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => return Err(PlaceError::Elsewhere(folder.clone())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(cause) => return Err(PlaceError::Io { step: "look at", path: folder.clone(), cause }),
            }
        }
        Ok(true)
    }

    /// Makes the folder, and tells git about it; true where something was missing.
    ///
    /// # Errors
    /// As [`Self::exist`], and when something cannot be written.
    pub fn prepare(&self) -> Result<bool, PlaceError> {
        let io = |step, path: &Path| {
            let path = path.to_owned();
            move |cause| PlaceError::Io { step, path, cause }
        };
        let mut is_new = !self.exist()?;
        // As the project's other folders are: it is shared.
        fs::create_dir_all(&self.folder).map_err(io("create", &self.folder))?;
        for (name, text) in FOR_GIT {
            let path = self.ours.join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => file.write_all(text.as_bytes()).map(|()| is_new = true).map_err(io("write", &path))?,
                // What the user made of it stays.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(io("create", &path)(cause)),
            }
        }
        Ok(is_new)
    }

    /// The file of a session and hour, to be appended to and looked into. It is another one with each commit and on each branch: one that git knows
    /// is not written again, or git would refuse to change branches.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn open(&self, session: &str, at: Timestamp) -> Result<(PathBuf, File), PlaceError> {
        let state = self.project.state(&|state| name(session, at, Some(state)));
        let path = self.folder.join(name(session, at, state.as_deref()));
        let mut options = files::private();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        match options.open(&path) {
            Ok(file) => Ok((path, file)),
            Err(cause) => Err(PlaceError::Io { step: "open", path, cause }),
        }
    }
}

/// `FRI_18_{session}_{state}.jsonl`: day and hour in UTC, so that colleagues' files are alike, and what is checked out.
fn name(session: &str, at: Timestamp, state: Option<&str>) -> String {
    let state = state.map(|state| format!("_{state}")).unwrap_or_default();
    format!("{}{}{state}.jsonl", begin_of_name(at), session_in_names(session))
}

/// How the names of an hour's files begin.
pub(super) fn begin_of_name(at: Timestamp) -> String {
    at.strftime("%a_%H_").to_string().to_uppercase()
}

/// A session's id as it stands in names of files: foreign text is no path.
pub fn session_in_names(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let plain: String = session.chars().take(ID_CHARS).map(|c| if is_plain(c) { c } else { '-' }).collect();
    if plain.is_empty() { "unknown".to_owned() } else { plain }
}

/// The session that a file is of.
pub fn session_of(name: &str) -> Option<&str> {
    let (day, rest) = name.strip_suffix(".jsonl")?.split_once('_')?;
    let (hour, rest) = rest.split_once('_')?;
    let is_state = |end: &str| end.len() == STATE_CHARS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let session = rest.rsplit_once('_').filter(|(_, end)| is_state(end)).map_or(rest, |(session, _)| session);
    let is_day = day.len() == 3 && day.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_hour = hour.len() == 2 && hour.bytes().all(|byte| byte.is_ascii_digit());
    (is_day && is_hour && !session.is_empty()).then_some(session)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_have_day_and_hour() {
        let at = "2026-11-20T18:59:59Z".parse().expect("a time");
        assert_eq!(name("5e55-1011", at, None), "FRI_18_5e55-1011.jsonl");
        assert_eq!(name("5e55-1011", at, Some("0a1b2c3d")), "FRI_18_5e55-1011_0a1b2c3d.jsonl");
        for name in ["FRI_18_5e55-1011.jsonl", "FRI_18_5e55-1011_0a1b2c3d.jsonl"] {
            assert_eq!(session_of(name), Some("5e55-1011"));
        }
        assert_eq!(session_of("FRI_18_other_tool.jsonl"), Some("other_tool"));
        assert_eq!((session_of("2026-11.jsonl"), session_of("FRI_18_.jsonl"), session_of("FRI_x8_a.jsonl")), (None, None, None));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(root.join(".git")).expect("a folder");
        fs::create_dir_all(other.join(BUNDLES)).expect("a folder");
        std::os::unix::fs::symlink(&other, root.join(FOLDER)).expect("a link");
        let bundles = Bundles::of(&Project::around(&root, None).expect("a project"));
        assert!(matches!(bundles.exist(), Err(PlaceError::Elsewhere(_))));
        assert!(matches!(bundles.prepare(), Err(PlaceError::Elsewhere(_))));

        fs::remove_file(root.join(FOLDER)).expect("removed");
        assert!(bundles.prepare().expect("made") && !bundles.prepare().expect("there"));
        let at = "2026-11-20T18:59:59Z".parse().expect("a time");
        std::os::unix::fs::symlink(other.join("x"), bundles.folder().join(name("s", at, None))).expect("a link");
        assert!(bundles.open("s", at).is_err() && !other.join("x").exists());
    }

    proptest! {
        #[test]
        fn any_session_is_a_plain_name(session in "\\PC{0,100}", state in proptest::option::of("[0-9a-f]{8}")) {
            let at = Timestamp::UNIX_EPOCH;
            let name = name(&session, at, state.as_deref());
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
            let session = session_in_names(&session);
            prop_assert_eq!(session_of(&name), Some(session.as_str()));
        }
    }
}
