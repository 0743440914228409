//! Name of a session's project, the same on all machines that have it.

use std::fs;
use std::io::Read;
use std::path::Path;

/// Bytes of git's configuration that are read.
const MAX_GIT_CONFIG_BYTES: u64 = 64 << 10;

/// The name of the project that a folder is in: that of its repository, as `host/path`. Where there is none, or the folder is
/// gone, it is the folder's own name. So clones under different paths are the same project.
pub(super) fn project_name(folder: &str) -> Option<String> {
    let path = Path::new(folder);
    let root = path.ancestors().take_while(|_| path.is_absolute()).find(|folder| folder.join(".git").exists());
    let repository = root.and_then(|root| origin(&root.join(".git"))).and_then(|url| repository(&url));
    // A path of another system is divided in its way.
    let own = || root.unwrap_or(path).to_string_lossy().rsplit(['/', '\\']).find(|part| !part.is_empty()).map(str::to_owned);
    repository.or_else(own)
}

/// The address of the repository that a clone came from. In a work tree, `.git` is a file that names a folder of the main one.
fn origin(git: &Path) -> Option<String> {
    let config = if git.is_dir() {
        git.join("config")
    } else {
        let named = read(git)?.strip_prefix("gitdir:")?.trim().to_owned();
        let folder = git.parent()?.join(named);
        let common = read(&folder.join("commondir")).map_or_else(|| folder.clone(), |common| folder.join(common.trim()));
        common.join("config")
    };
    let text = read(&config)?;
    let mut is_origin = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_origin = line.replace(' ', "") == "[remote\"origin\"]";
        } else if is_origin
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "url"
        {
            return Some(value.trim().trim_matches('"').to_owned());
        }
    }
    None
}

fn read(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX_GIT_CONFIG_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// `host/path` of an address of any kind, without user, password, port and file extension: these may differ, or be secret.
fn repository(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // As in `git@host:path`; a path of this machine has a slash first, or before the colon.
        None => url.split_once(':').filter(|(host, _)| !host.contains(['/', '\\']) && host.len() > 1)?,
    };
    let host = host.rsplit('@').next()?.split(':').next()?.to_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_name() {
        for url in [
            "https://github.com/acme/app.git",
            "https://ann:secret@github.com/acme/app",
            "git@github.com:acme/app.git",
            "ssh://git@GitHub.com:22/acme/app.git/",
            "git://github.com/acme/app",
        ] {
            assert_eq!(repository(url).as_deref(), Some("github.com/acme/app"), "{url}");
        }
        for none in ["/srv/git/app.git", "../app", "file:///srv/app.git", "C:/work/app", "", "https://", "https://host"] {
            assert_eq!(repository(none), None, "{none}");
        }
    }

    #[test]
    fn folders_in_it_are_of_the_project() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let name_of = |folder: &Path| project_name(&folder.to_string_lossy());
        let root = place.path().join("app");
        fs::create_dir_all(root.join("src/deep")).expect("writable");
        assert_eq!(name_of(&root.join("src")).as_deref(), Some("src"));
        fs::create_dir(root.join(".git")).expect("writable");
        assert_eq!(name_of(&root.join("src/deep")).as_deref(), Some("app"));
        let config = "[core]\n\turl = no\n[remote \"other\"]\n\turl = https://host/other\n[remote \"origin\"]\n\turl = git@host:acme/app.git\n";
        fs::write(root.join(".git/config"), config).expect("writable");
        assert_eq!(name_of(&root.join("src/deep")).as_deref(), Some("host/acme/app"));
        assert_eq!(name_of(&root.join("gone/since")).as_deref(), Some("host/acme/app"));
        // A work tree elsewhere.
        let tree = place.path().join("tree");
        let inside = root.join(".git/worktrees/tree");
        fs::create_dir_all(&inside).expect("writable");
        fs::create_dir(&tree).expect("writable");
        fs::write(inside.join("commondir"), "../..\n").expect("writable");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", inside.display())).expect("writable");
        assert_eq!(name_of(&tree).as_deref(), Some("host/acme/app"));
        assert_eq!(project_name("C:\\work\\app").as_deref(), Some("app"));
        assert_eq!(project_name(""), None);
    }
}
