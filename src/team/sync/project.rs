//! Name of a session's project, the same on all machines that have it.

use std::path::Path;

use ctxbridge_common::repository::Repository;

/// The name of the project that a folder is in: that of its repository, as `host/path`. Where there is none, or the folder is
/// gone, it is the folder's own name. So clones under different paths are the same project.
pub(super) fn project_name(folder: &str) -> Option<String> {
    let path = Path::new(folder);
    let repository = Repository::around(path);
    // A path of another system is divided in its way.
    let own = || {
        let root = repository.as_ref().map_or(path, |repository| &repository.top);
        root.to_string_lossy().rsplit(['/', '\\']).find(|part| !part.is_empty()).map(str::to_owned)
    };
    repository.as_ref().and_then(Repository::remote_name).or_else(own)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_in_it_are_of_the_project() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let name_of = |folder: &Path| project_name(&folder.to_string_lossy());
        let root = place.path().join("app");
        fs::create_dir_all(root.join("src/deep")).expect("writable");
        assert_eq!(name_of(&root.join("src")).as_deref(), Some("src"));
        fs::create_dir(root.join(".git")).expect("writable");
        assert_eq!(name_of(&root.join("src/deep")).as_deref(), Some("app"));
        fs::write(root.join(".git/config"), "[remote \"origin\"]\n\turl = git@host:acme/app.git\n").expect("writable");
        assert_eq!(name_of(&root.join("src/deep")).as_deref(), Some("host/acme/app"));
        assert_eq!(name_of(&root.join("gone/since")).as_deref(), Some("host/acme/app"));
        assert_eq!(project_name("C:\\work\\app").as_deref(), Some("app"));
        assert_eq!(project_name(""), None);
    }
}
