/*!
Projects that moved: their sessions follow them.

A folder that was renamed is known again by its repository: the root commits, the remote and the name of the work tree are those of a
folder that was noted before and is gone now. That is asked once, when the new folder is first noted. A folder that was known while
the old one was still there is another clone, and stays one. Without git, the user says what was moved.

To move a project changes what the archive says of its sessions' folders. Transcripts, and the client's own folders, stay as they are.
*/

use std::path::Path;
use std::time::{Duration, Instant};

use ctxbridge_common::folder::{self, FolderKey};
use ctxbridge_common::paths;
use ctxbridge_common::repository::Repository;

use crate::project_scope::ProjectScope;
use crate::store::{FolderFacts, Session, SessionMove, Store, StoreError};

/// Time after which facts are noted again, in milliseconds: a repository may get a remote, or its first commit.
const NOTED_AGAIN_AFTER_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// The same, if the folder had no repository or no commit.
const UNKNOWN_AGAIN_AFTER_MS: i64 = 24 * 60 * 60 * 1_000;

/// Time that git may take to find the root commits of one repository.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A project that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectMove {
    /// Its folder before.
    pub from: String,
    /// Its folder now.
    pub to: String,
    /// Number of sessions that followed it.
    pub sessions: usize,
}

impl std::fmt::Display for ProjectMove {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sessions = if self.sessions == 1 { "session is" } else { "sessions are" };
        let [from, to] = [&self.from, &self.to].map(|folder| crate::quote::printable(folder));
        write!(
            formatter,
            "this project was {from} before; its {} {sessions} found here. `ctxbridge archive move {to} {from}` takes that back.",
            self.sessions
        )
    }
}

/// Notes facts about the project that a folder is in, unless that was done lately. If it is known to have been elsewhere before, its
/// sessions follow.
///
/// # Errors
/// If the archive cannot be read or written.
pub fn follow_project(store: &mut dyn Store, folder: &Path, now_ms: i64) -> Result<Option<ProjectMove>, StoreError> {
    if !folder.is_absolute() || !folder.is_dir() {
        return Ok(None);
    }
    let repository = Repository::around(folder).filter(|repository| !is_too_large(&repository.top));
    let top = repository.as_ref().map_or(folder, |repository| &repository.top);
    let (name, key) = (top.to_string_lossy().into_owned(), FolderKey::of_existing(top));
    let facts = store.folder_facts()?;
    let known = facts.iter().find(|facts| key.is_same(&FolderKey::of(&facts.folder)) && facts.noted_ms > 0);
    if known.is_some_and(|known| known.is_fresh(now_ms)) {
        return Ok(None);
    }
    let noted = FolderFacts {
        folder: known.map_or(name, |known| known.folder.clone()),
        ignores_case: key.ignores_case(),
        root_commits: repository.as_ref().map(|repository| repository.root_commits(GIT_TIMEOUT)).unwrap_or_default(),
        remote: repository.as_ref().and_then(Repository::remote),
        tree: repository.and_then(|repository| repository.tree),
        noted_ms: now_ms,
    };
    store.note_folder(&noted)?;
    match known {
        Some(_) => Ok(None),
        None => follow_from(store, &facts, &noted),
    }
}

/// The same for all folders that sessions worked in, until a deadline.
///
/// # Errors
/// As [`follow_project`].
pub fn follow_all_projects(store: &mut dyn Store, now_ms: i64, deadline: Instant) -> Result<Vec<ProjectMove>, StoreError> {
    let mut moved = Vec::new();
    for used in store.folders()? {
        if Instant::now() > deadline {
            break;
        }
        moved.extend(follow_project(store, Path::new(&used.folder), now_ms)?);
    }
    Ok(moved)
}

/// `true` if a repository is the whole disk, or the user's home: what is in it are projects of their own.
fn is_too_large(top: &Path) -> bool {
    top.parent().is_none() || paths::home_dir().is_some_and(|home| home.starts_with(top))
}

/// Moves the sessions of the one folder that a newly noted one was before.
fn follow_from(store: &mut dyn Store, facts: &[FolderFacts], new: &FolderFacts) -> Result<Option<ProjectMove>, StoreError> {
    let mut found = Vec::new();
    for old in facts.iter().filter(|old| old.is_same_repository(new) && old.folder != new.folder) {
        // One that is still there is another clone. An error, such as of a disk that does not answer, is no proof.
        if !matches!(Path::new(&old.folder).try_exists(), Ok(false)) {
            continue;
        }
        let scope = ProjectScope::of_known(&old.folder, old.ignores_case);
        let moves = plan_move(&sessions_of(store, &scope)?, &scope, &new.folder);
        if !moves.is_empty() {
            found.push((old, scope, moves));
        }
    }
    // Of several that are gone, nobody can say which one this was.
    let [(old, scope, moves)] = &found[..] else { return Ok(None) };
    apply_move(store, moves, scope, facts)?;
    Ok(Some(ProjectMove { from: old.folder.clone(), to: new.folder.clone(), sessions: moves.len() }))
}

impl FolderFacts {
    fn is_fresh(&self, now_ms: i64) -> bool {
        let after = if self.root_commits.is_empty() { UNKNOWN_AGAIN_AFTER_MS } else { NOTED_AGAIN_AFTER_MS };
        (self.noted_ms..self.noted_ms + after).contains(&now_ms)
    }

    /// `true` if both are the same work tree of the same repository.
    fn is_same_repository(&self, other: &Self) -> bool {
        self.root_commits.iter().any(|commit| other.root_commits.contains(commit))
            && self.remote == other.remote
            && self.tree == other.tree
    }
}

/// This user's sessions of a project.
///
/// # Errors
/// If the archive cannot be read.
pub fn sessions_of(store: &mut dyn Store, project: &ProjectScope) -> Result<Vec<Session>, StoreError> {
    let mut sessions = store.sessions("", Some(project), usize::MAX)?;
    sessions.retain(|session| session.owner.is_none());
    Ok(sessions)
}

/// The changes that move a project's sessions to another folder. What is there already stays.
pub fn plan_move(sessions: &[Session], project: &ProjectScope, to: &str) -> Vec<SessionMove> {
    let target = FolderKey::of_existing(Path::new(to));
    let moved = |session: &Session| {
        let folder = session.folder.as_deref().filter(|folder| !target.contains(&FolderKey::of(folder)))?;
        let folder = project.roots().iter().find_map(|root| folder::rebased(folder, root, to))?;
        Some(SessionMove { session: session.session.clone(), folder })
    };
    sessions.iter().filter_map(moved).collect()
}

/// The changes that take back a move: those of these sessions that were moved from a folder go back there.
pub fn plan_return(sessions: &[Session], to: &str) -> Vec<SessionMove> {
    let target = FolderKey::of_existing(Path::new(to));
    let returned = |session: &Session| {
        let folder = session.moved_from.clone().filter(|folder| target.contains(&FolderKey::of(folder)))?;
        Some(SessionMove { session: session.session.clone(), folder })
    };
    sessions.iter().filter_map(returned).collect()
}

/// Moves sessions away from a folder. What was noted of that is void: if a folder is there again, it is a new one.
///
/// # Errors
/// If the archive cannot be written.
pub fn apply_move(
    store: &mut dyn Store,
    moves: &[SessionMove],
    from: &ProjectScope,
    facts: &[FolderFacts],
) -> Result<(), StoreError> {
    store.move_sessions(moves)?;
    let is_from = |folder: &str| from.roots().iter().any(|root| root.is_same(&FolderKey::of(folder)));
    for old in facts.iter().filter(|facts| is_from(&facts.folder)) {
        store.note_folder(&FolderFacts { root_commits: Vec::new(), noted_ms: 0, ..old.clone() })?;
    }
    Ok(())
}
