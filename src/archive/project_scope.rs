//! The folders of a project, which stores are given and ask about those that they have.

use std::path::Path;

use ctxbridge_common::folder::FolderKey;

/// A project: one folder, or several names of it, with all below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectScope {
    roots: Vec<FolderKey>,
    /// The name by which colleagues' folders are found as well: theirs lie elsewhere.
    shared_name: Option<FolderKey>,
}

impl ProjectScope {
    /// The project in a folder, which need not be there.
    pub fn at(folder: &str) -> Self {
        Self::of_folders([folder])
    }

    /// The project in a folder that is gone, of which it is known whether case counted there.
    pub fn of_known(folder: &str, ignores_case: bool) -> Self {
        let key = FolderKey::of(folder);
        Self::of_roots(vec![if ignores_case { key.ignoring_case() } else { key }], None)
    }

    /// The project in several folders, such as the work trees of a repository.
    pub fn of_folders<'f>(folders: impl IntoIterator<Item = &'f str>) -> Self {
        Self::of_roots(folders.into_iter().map(|folder| FolderKey::of_existing(Path::new(folder))).collect(), None)
    }

    /// The projects with this name, wherever they are. Case does not count.
    pub fn named(name: &str) -> Self {
        Self::of_roots(Vec::new(), Some(name))
    }

    /// The project with these roots, and colleagues' of this name if one is given.
    pub(crate) fn of_roots(roots: Vec<FolderKey>, shared_name: Option<&str>) -> Self {
        Self { roots, shared_name: shared_name.map(name_key) }
    }

    /// The folders, as they are compared.
    pub fn roots(&self) -> &[FolderKey] {
        &self.roots
    }

    /// `true` if a folder of this user belongs to the project.
    pub fn contains(&self, folder: &str) -> bool {
        let folder = FolderKey::of(folder);
        self.roots.iter().any(|root| root.contains(&folder))
    }

    /// `true` if a folder belongs to the project, or to one of the same name on a colleague's machine.
    pub fn contains_shared(&self, folder: &str) -> bool {
        let has_name = |name: &FolderKey| {
            let folder = FolderKey::of(folder).ignoring_case();
            let (names, wanted) = (folder.names(), name.names());
            !wanted.is_empty() && names.windows(wanted.len()).any(|some| some == wanted)
        };
        self.contains(folder) || self.shared_name.as_ref().is_some_and(has_name)
    }
}

/// A name, as it is compared with those of folders.
pub(crate) fn name_key(name: &str) -> FolderKey {
    FolderKey::of(&name.replace('\\', "/")).ignoring_case()
}
