//! Paths of bundles, names of their files, and git's configuration for them.
//!
//! There is one file for each session and hour, so that git can join branches line by line. A new file starts as soon as git
//! knows the old one, or something else is checked out ([`Project::checkout_id`]). So git never refuses anything because of a
//! bundle.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::Project;
use super::project::{CHECKOUT_ID_CHARS, PROJECT_DATA_FOLDER};
use ctxbridge_common::files;

/// The folder with the bundles, in [`PROJECT_DATA_FOLDER`].
pub const BUNDLES_FOLDER: &str = "bundles";

/// The file by which writers and folding lock each other out.
const LOCK_FILE: &str = ".lock";

/// Maximum characters of a session's id in a file's name.
const ID_CHARS: usize = 64;

/// Files that tell git and npm how to treat bundles. They are in our own folder, so that no file of the project has to be edited.
const GIT_FILES: [(&str, &str); 3] = [
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

/// Errors from using the folder of bundles.
#[derive(Debug, thiserror::Error)]
pub enum BundlePathError {
    /// The folder leads out of the project.
    #[error("{} leads out of the project; ctxbridge follows no links there", .0.display())]
    OutsideProject(PathBuf),
    /// An operation on a file failed.
    #[error("cannot {step} {}: {cause}", path.display())]
    Io {
        /// The operation.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
}

/// The bundles of a project.
#[derive(Clone, Debug)]
pub struct Bundles {
    project: Project,
    ours: PathBuf,
    folder: PathBuf,
    /// `true` in a linked work tree: a new file there would keep git from removing the tree.
    is_read_only: bool,
}

impl Bundles {
    /// Names the bundles of a project. They need not exist. Those of a linked work tree are the main one's; where that has none, what a
    /// branch has brought is read and not written.
    pub fn of(project: &Project) -> Self {
        let own = Self::at(project);
        let Some(main) = project.main_tree().as_ref().map(Self::at) else { return own };
        let is_of_branch = matches!((main.exist(), own.exist()), (Ok(false), Ok(true)));
        if is_of_branch { Self { is_read_only: true, ..own } } else { main }
    }

    /// Names the bundles that a project gets when somebody wants them: in the main work tree.
    pub fn to_create(project: &Project) -> Self {
        Self::at(project.main_tree().as_ref().unwrap_or(project))
    }

    fn at(project: &Project) -> Self {
        let ours = project.root.join(PROJECT_DATA_FOLDER);
        Self { folder: ours.join(BUNDLES_FOLDER), ours, project: project.clone(), is_read_only: false }
    }

    /// The folder in the project that has the folder of the bundles.
    pub fn data_folder(&self) -> &Path {
        &self.ours
    }

    /// `true` if lines are added to them: somebody has wanted them here.
    ///
    /// # Errors
    /// As [`Self::exist`].
    pub(super) fn take_lines(&self) -> Result<bool, BundlePathError> {
        Ok(!self.is_read_only && self.exist()?)
    }

    /// The folder of the project.
    pub fn project(&self) -> &Path {
        &self.project.root
    }

    /// The folder of the bundles.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `true` if the folder exists.
    ///
    /// # Errors
    /// If the folder is a link: somebody else's repository must not make us read or write elsewhere.
    pub fn exist(&self) -> Result<bool, BundlePathError> {
        for folder in [&self.ours, &self.folder] {
            match folder.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => return Err(BundlePathError::OutsideProject(folder.clone())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(cause) => return Err(BundlePathError::Io { step: "look at", path: folder.clone(), cause }),
            }
        }
        Ok(true)
    }

    /// Creates the folder and its files for git. Returns `true` if something was missing.
    ///
    /// # Errors
    /// As [`Self::exist`], and when something cannot be written.
    pub fn prepare(&self) -> Result<bool, BundlePathError> {
        let io = |step, path: &Path| {
            let path = path.to_owned();
            move |cause| BundlePathError::Io { step, path, cause }
        };
        let mut is_new = !self.exist()?;
        // As the project's other folders are: it is shared.
        fs::create_dir_all(&self.folder).map_err(io("create", &self.folder))?;
        for (name, text) in GIT_FILES {
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

    /// Locks the bundles, so that folding does not remove a file between a check and a write. `None` where that takes too long or
    /// there are no locks: the line is written anyway. The lock is a file of its own, since on Windows nobody else can read one that is
    /// locked; git ignores it.
    pub(super) fn lock(&self, timeout: Duration) -> Option<File> {
        let mut options = files::private();
        options.read(true).create(true).truncate(false);
        let file = files::open_no_link(&self.ours.join(LOCK_FILE), &mut options).ok()?;
        files::lock_within(&file, File::try_lock, timeout).ok().map(|()| file)
    }

    /// Opens the file of a session and hour for appending and reading. It is a different file after each commit and on each
    /// branch. A file that git knows is not written again, or git would refuse to change branches.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn open(&self, session: &str, at: Timestamp) -> Result<(PathBuf, File), BundlePathError> {
        let state = self.project.checkout_id(&|state| name(session, at, Some(state)));
        let path = self.folder.join(name(session, at, state.as_deref()));
        let mut options = files::private();
        options.read(true).append(true).create(true);
        match files::open_no_link(&path, &mut options) {
            Ok(file) => Ok((path, file)),
            Err(cause) => Err(BundlePathError::Io { step: "open", path, cause }),
        }
    }
}

/// `FRI_18_{session}_{state}.jsonl`: day and hour in UTC, so that colleagues' files are alike, and an id of the checked-out state.
fn name(session: &str, at: Timestamp, state: Option<&str>) -> String {
    let state = state.map(|state| format!("_{state}")).unwrap_or_default();
    format!("{}{}{state}.jsonl", hour_prefix(at), sanitize_session_id(session))
}

/// Prefix of the names of an hour's files.
pub(super) fn hour_prefix(at: Timestamp) -> String {
    at.strftime("%a_%H_").to_string().to_uppercase()
}

/// Makes a session's id safe for names of files: foreign text must not become a path.
pub fn sanitize_session_id(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let plain: String = session.chars().take(ID_CHARS).map(|c| if is_plain(c) { c } else { '-' }).collect();
    if plain.is_empty() { "unknown".to_owned() } else { plain }
}

/// The session that a file belongs to, by its name.
pub fn session_of(name: &str) -> Option<&str> {
    let (day, rest) = name.strip_suffix(".jsonl")?.split_once('_')?;
    let (hour, rest) = rest.split_once('_')?;
    let is_state = |end: &str| end.len() == CHECKOUT_ID_CHARS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
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
        fs::create_dir_all(other.join(BUNDLES_FOLDER)).expect("a folder");
        std::os::unix::fs::symlink(&other, root.join(PROJECT_DATA_FOLDER)).expect("a link");
        let bundles = Bundles::of(&Project::around(&root, None).expect("a project"));
        assert!(matches!(bundles.exist(), Err(BundlePathError::OutsideProject(_))));
        assert!(matches!(bundles.prepare(), Err(BundlePathError::OutsideProject(_))));

        fs::remove_file(root.join(PROJECT_DATA_FOLDER)).expect("removed");
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
            let session = sanitize_session_id(&session);
            prop_assert_eq!(session_of(&name), Some(session.as_str()));
        }
    }
}
