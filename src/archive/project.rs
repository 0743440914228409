/*!
Which project a folder is, and which sessions belong to it: those that worked in the project's folder or below it.

The user names a project by a path, or by the last names of one that the archive knows. [`ProjectScope::resolve`] reads such a name,
[`ProjectScope::contains`] says whether a session's folder belongs to it. Nothing else decides that: stores are given the scope, and
ask it about the folders that they have.
*/

use std::path::Path;

use ctxbridge_common::folder::{self, FolderKey};

pub use crate::project_scope::ProjectScope;
use crate::project_scope::name_key;
use crate::quote::printable;
use crate::store::{FolderFacts, SessionFolder, Store, StoreError};
use ctxbridge_common::paths;

/// Maximum number of folders that an error names.
const MAX_NAMED_FOLDERS: usize = 5;

/// Errors from resolving the name of a project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is no name.
    #[error("it names no folder; give a path, or the last part of one")]
    Empty,
    /// No session worked in such a folder.
    #[error("no session worked in a folder {}{}", printable(.name), near(.known))]
    Unknown {
        /// The name.
        name: String,
        /// Folders of sessions that it might mean.
        known: Vec<String>,
    },
    /// Several folders are named so.
    #[error("{} may be {}; give more of the path", printable(.name), listed(.folders, " or "))]
    Ambiguous {
        /// The name.
        name: String,
        /// The folders.
        folders: Vec<String>,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn near(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", listed(known, ", ")) }
}

fn listed(folders: &[String], between: &str) -> String {
    let named: Vec<String> = folders.iter().take(MAX_NAMED_FOLDERS).map(|folder| printable(folder)).collect();
    let more = folders.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(between) + &more
}

/// Folders that the archive knows: those of sessions, the newest first, and facts about some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFolders {
    /// Folders of sessions.
    pub used: Vec<SessionFolder>,
    /// Facts that were noted while a folder was there.
    pub facts: Vec<FolderFacts>,
    /// `true` if some sessions are of colleagues, on machines of their own.
    pub has_colleagues: bool,
}

impl KnownFolders {
    /// Reads them from an archive. `asks_server`: a team's server is asked as well, whose folders are not known here.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(store: &mut dyn Store, asks_server: bool) -> Result<Self, StoreError> {
        let has_colleagues = asks_server || store.kind() == ctxbridge_config::StoreKind::Postgres;
        Ok(Self { used: store.folders()?, facts: store.folder_facts()?, has_colleagues })
    }

    /// The key of a folder. Whether case counts is tried where the folder is there; else it is as it was noted.
    pub fn key(&self, folder: &str) -> FolderKey {
        let key = FolderKey::of_existing(Path::new(folder));
        let folded = key.clone().ignoring_case();
        let is_of = |facts: &FolderFacts| {
            let noted = FolderKey::of(&facts.folder);
            noted.contains(&folded) || folded.contains(&noted)
        };
        let ignores_case = self.facts.iter().any(|facts| facts.ignores_case && is_of(facts));
        if ignores_case { folded } else { key }
    }
}

impl ProjectScope {
    /// Resolves the name of a project, as the user gives it in the folder `from`: a path, or the last names of the path of a known
    /// folder.
    ///
    /// # Errors
    /// If there is no such folder, or more than one.
    pub fn resolve(named: &str, from: &Path, known: &KnownFolders) -> Result<Self, ProjectError> {
        let named = named.trim();
        if named.is_empty() {
            return Err(ProjectError::Empty);
        }
        let here = from.join(named);
        if is_path(named) {
            let path = if folder::is_absolute(named) { named.to_owned() } else { here.to_string_lossy().into_owned() };
            return Ok(Self::of_path(&path, known));
        }
        let below_here = here.is_dir().then(|| Self::of_path(&here.to_string_lossy(), known));
        if let Some(scope) = &below_here
            && known.used.iter().any(|used| scope.contains(&used.folder))
        {
            return Ok(scope.clone());
        }
        let found = roots_named(named, known);
        match (&found[..], below_here) {
            // Where colleagues' are asked for as well, all of that name are meant.
            (_, None) if known.has_colleagues => Ok(Self::of_roots(found, Some(named))),
            ([_], _) => Ok(Self::of_roots(found, None)),
            ([], Some(scope)) => Ok(scope),
            ([], None) => Err(ProjectError::Unknown { name: named.to_owned(), known: similar(named, known) }),
            _ => {
                let folders = found.iter().map(|root| shown(root, known)).collect();
                Err(ProjectError::Ambiguous { name: named.to_owned(), folders })
            }
        }
    }

    /// The project at a path, as it is named and where its links lead.
    fn of_path(path: &str, known: &KnownFolders) -> Self {
        let mut roots = vec![known.key(path)];
        if let Ok(real) = paths::real(Path::new(path)) {
            let real = known.key(&real.to_string_lossy());
            if !roots.contains(&real) {
                roots.push(real);
            }
        }
        Self::of_roots(roots, None)
    }
}

/// `true` if a name says where a folder is, and not only how it is named.
fn is_path(named: &str) -> bool {
    let is_relative = matches!(named, "." | "..") || ["./", "../", ".\\", "..\\"].iter().any(|begin| named.starts_with(begin));
    is_relative || folder::is_absolute(named)
}

/// Finds the root of a project that a known folder belongs to, if it is one of the wanted name.
type RootFinder<'f> = &'f dyn Fn(&FolderKey) -> Option<FolderKey>;

/// The known folders whose path ends with a name, as it is written or else in any case; where there is none, folders above known ones.
/// A folder that lies in another of them is not counted on its own.
fn roots_named(named: &str, known: &KnownFolders) -> Vec<FolderKey> {
    let keys: Vec<FolderKey> = known.used.iter().map(|used| FolderKey::of(&used.folder)).collect();
    let (exact, folded) = (FolderKey::of(&named.replace('\\', "/")), name_key(named));
    let ends = |key: &FolderKey, name: &FolderKey| key.names().ends_with(&name.names());
    let tiers: [RootFinder<'_>; 4] = [
        &|key| ends(key, &exact).then(|| key.clone()),
        &|key| ends(&key.clone().ignoring_case(), &folded).then(|| key.clone()),
        &|key| above(key).find(|above| ends(above, &exact)),
        &|key| above(key).find(|above| ends(&above.clone().ignoring_case(), &folded)),
    ];
    for tier in tiers {
        let mut found: Vec<FolderKey> = Vec::new();
        for root in keys.iter().filter_map(tier).map(|root| known.key(&shown(&root, known))) {
            if !found.iter().any(|known| known.contains(&root)) {
                found.retain(|known| !root.contains(known));
                found.push(root);
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// The folders above one, the topmost first.
fn above(key: &FolderKey) -> impl Iterator<Item = FolderKey> {
    let ends = key.path().match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    ends.map(|end| FolderKey::of(&key.path()[..end]))
}

/// A folder as sessions write it; as it is compared, where none worked right there.
fn shown(root: &FolderKey, known: &KnownFolders) -> String {
    let own = known.used.iter().find(|used| FolderKey::of(&used.folder).is_same(root));
    own.map_or_else(|| root.path().to_owned(), |own| own.folder.clone())
}

/// Known folders that a name might mean: those with a part of it in their own name; else the newest.
pub fn similar(named: &str, known: &KnownFolders) -> Vec<String> {
    let last = |key: &FolderKey| key.clone().ignoring_case().names().last().map(|name| (*name).to_owned());
    let wanted = last(&name_key(named)).unwrap_or_default();
    let begin: String = wanted.chars().take(3).collect();
    let is_near = |used: &&SessionFolder| {
        let name = last(&FolderKey::of(&used.folder)).unwrap_or_default();
        name.contains(&wanted) || (!name.is_empty() && wanted.contains(&name)) || (!begin.is_empty() && name.starts_with(&begin))
    };
    let near: Vec<String> = known.used.iter().filter(is_near).map(|used| used.folder.clone()).collect();
    let mut found = if near.is_empty() { known.used.iter().map(|used| used.folder.clone()).collect() } else { near };
    found.truncate(MAX_NAMED_FOLDERS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(folders: &[&str]) -> KnownFolders {
        let used = folders.iter().map(|folder| SessionFolder { folder: (*folder).to_owned(), sessions: 1 }).collect();
        KnownFolders { used, ..KnownFolders::default() }
    }

    const HERE: &str = if cfg!(windows) { r"C:\nowhere\here" } else { "/nowhere/here" };
    const IN_HERE: &str = if cfg!(windows) { r"C:\nowhere\here\x" } else { "/nowhere/here/x" };

    fn resolve(named: &str, folders: &[&str]) -> Result<Vec<String>, String> {
        let known = known(folders);
        let scope = ProjectScope::resolve(named, Path::new(HERE), &known).map_err(|error| error.to_string())?;
        Ok(folders.iter().filter(|folder| scope.contains(folder)).map(|folder| (*folder).to_owned()).collect())
    }

    #[test]
    fn a_path_is_the_folder_and_what_is_below_it() {
        let folders = ["/w/app", "/w/app/src", "/w/apple", HERE, IN_HERE, r"C:\w\app"];
        for (named, expected) in [
            ("/w/app", &folders[..2]),
            ("/w/app/", &folders[..2]),
            ("/w/./app/src/..", &folders[..2]),
            ("/w", &folders[..3]),
            ("/W", &[]),
            (".", &folders[3..5]),
            ("./x", &folders[4..5]),
            ("..", &folders[3..5]),
            (r"\\?\c:\W", &folders[5..]),
            ("c:/w/app", &folders[5..]),
            ("/", &folders[..if cfg!(windows) { 3 } else { 5 }]),
        ] {
            assert_eq!(resolve(named, &folders).unwrap(), expected, "{named}");
        }
    }

    #[test]
    fn a_name_is_the_end_of_a_known_path() {
        let folders = ["/w/app", "/w/app/src", "/v/Ledger/web", "/v/other", r"D:\work\Tool", "/w/cafe\u{301}"];
        for (named, expected) in [
            ("app", &folders[..2]),
            ("w/app", &folders[..2]),
            ("w\\app", &folders[..2]),
            ("APP/", &folders[..2]),
            ("src", &folders[1..2]),
            ("ledger", &folders[2..3]),
            ("Ledger/web", &folders[2..3]),
            ("tool", &folders[4..5]),
            ("caf\u{e9}", &folders[5..]),
            ("v", &folders[2..4]),
        ] {
            assert_eq!(resolve(named, &folders).unwrap(), expected, "{named}");
        }
        // As it is written comes first, then where sessions worked, then the one that lies above the other.
        assert_eq!(resolve("app", &["/a/APP", "/b/app"]).unwrap(), ["/b/app"]);
        assert_eq!(resolve("app", &["/a/app/web", "/b/app"]).unwrap(), ["/b/app"]);
        assert_eq!(resolve("app", &["/a/app/vendor/app", "/a/app"]).unwrap(), ["/a/app/vendor/app", "/a/app"]);
    }

    #[test]
    fn what_is_unknown_or_ambiguous_names_candidates() {
        let folders = ["/w/api-server", "/v/web", "/u/web"];
        let error = |named: &str| resolve(named, &folders).unwrap_err();
        assert_eq!(error("api"), "no session worked in a folder api; there are /w/api-server");
        assert_eq!(error("xyz"), "no session worked in a folder xyz; there are /w/api-server, /v/web, /u/web");
        assert_eq!(error("web"), "web may be /v/web or /u/web; give more of the path");
        assert_eq!(error(" "), "it names no folder; give a path, or the last part of one");
        assert_eq!(resolve("x", &[]).unwrap_err(), "no session worked in a folder x");
        assert_eq!(error("a\u{1b}[31m"), "no session worked in a folder a[31m; there are /w/api-server, /v/web, /u/web");
    }

    #[test]
    fn colleagues_have_the_project_elsewhere() {
        let known = KnownFolders { has_colleagues: true, ..known(&["/home/ann/api", "/home/bob/api"]) };
        let scope = ProjectScope::resolve("api", Path::new("/nowhere"), &known).unwrap();
        assert!(scope.contains("/home/ann/api/web") && scope.contains("/home/bob/api"));
        assert!(scope.contains_shared("/home/eve/API/web") && !scope.contains("/home/eve/api"));
        assert!(!scope.contains_shared("/home/eve/apis"));
        assert!(!ProjectScope::at("/home/ann/api").contains_shared("/home/eve/api"), "a path is one machine's");
    }

    #[test]
    fn whether_case_counts_is_remembered() {
        let facts =
            |folder: &str, ignores_case| FolderFacts { folder: folder.to_owned(), ignores_case, ..FolderFacts::default() };
        let contains = |facts| {
            let known = KnownFolders { facts, ..known(&["/Volumes/Work/App", "/Volumes/Work/App/src"]) };
            let scope = ProjectScope::resolve("/volumes/work/app", Path::new("/"), &known).unwrap();
            known.used.iter().filter(|used| scope.contains(&used.folder)).count()
        };
        assert_eq!(contains(vec![]), 0);
        assert_eq!(contains(vec![facts("/Volumes/Work/App", false)]), 0);
        assert_eq!(contains(vec![facts("/Volumes/Work/App", true)]), 2);
        assert_eq!(contains(vec![facts("/Volumes/Work/Other", true)]), 0);
    }
}
