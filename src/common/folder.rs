/*!
Folders as projects: two spellings of a path are compared as the same folder if a system would open the same with both.

A client writes the folder that it works in as its system gives it to it. The same folder may be `C:\Work` and `\\?\c:\work`, or have
its accents composed (NFC) or apart (NFD). [`FolderKey`] is what is left of a path without such differences. What is stored and shown
stays as the client wrote it.
*/

use std::path::{MAIN_SEPARATOR, Path};

#[cfg(not(unix))]
use crate::paths;
use unicode_normalization::UnicodeNormalization;

/// A folder's path in the form in which paths are compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderKey {
    /// The normalized path: slashes, no dots, none at the end; composed characters; small letters if case does not count.
    path: String,
    /// `true` if the case of letters does not count.
    ignores_case: bool,
}

impl FolderKey {
    /// The key of a path. On drives and shares of Windows case never counts.
    pub fn of(path: &str) -> Self {
        let (path, is_windows) = normalize(path);
        let path: String = path.nfc().collect();
        if is_windows { Self { path: fold(&path), ignores_case: true } } else { Self { path, ignores_case: false } }
    }

    /// The key of a folder of this machine: case does not count if its file system ignores it.
    pub fn of_existing(folder: &Path) -> Self {
        let key = Self::of(&folder.to_string_lossy());
        if ignores_case(folder) == Some(true) { key.ignoring_case() } else { key }
    }

    /// The same key, without regard to case.
    pub fn ignoring_case(self) -> Self {
        if self.ignores_case { self } else { Self { path: fold(&self.path), ignores_case: true } }
    }

    /// `true` if the case of letters does not count.
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// The normalized path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The normalized names of the folders that lead here, the topmost first.
    pub fn names(&self) -> Vec<&str> {
        self.path.split('/').filter(|name| !name.is_empty()).collect()
    }

    /// `true` if this is another folder, or above it. Case counts only if it does for both.
    pub fn contains(&self, other: &Self) -> bool {
        if self.ignores_case == other.ignores_case {
            return is_at_or_below(&other.path, &self.path);
        }
        is_at_or_below(&other.clone().ignoring_case().path, &self.clone().ignoring_case().path)
    }

    /// `true` if both are one folder. Case counts only if it does for both.
    pub fn is_same(&self, other: &Self) -> bool {
        self.contains(other) && other.contains(self)
    }

    /// `true` if nothing is above it: a root, or no path at all.
    pub fn is_root(&self) -> bool {
        self.path.trim_matches('/').is_empty()
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    let is_share = |path: &str| path.starts_with("//");
    // Shares lie below no folder of the same machine.
    if folder.is_empty() || is_share(path) != is_share(folder) {
        return path == folder;
    }
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Small letters, one character at a time: the whole would make a sigma depend on what follows it.
fn fold(path: &str) -> String {
    path.chars().flat_map(char::to_lowercase).nfc().collect()
}

/// `true` if a path is absolute on some system: it begins with a slash, a drive or a share.
pub fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || is_windows(path)
}

/// `true` if a path is one of Windows: it has a drive, or begins with two slashes of either kind.
pub fn is_windows(path: &str) -> bool {
    let has_drive = |path: &str| {
        matches!(path.as_bytes(), [drive, b':'] if drive.is_ascii_alphabetic())
            || matches!(path.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic())
    };
    path.starts_with(r"\\") || has_drive(path) || (path.starts_with("//") && !path.starts_with("///"))
}

/// Removes what may differ between two paths of a folder, except for the forms of its letters. Also returns whether it is a path of
/// Windows; on other systems a backslash is a letter.
fn normalize(path: &str) -> (String, bool) {
    let is_windows = is_windows(path);
    let slashed = if is_windows { path.replace('\\', "/") } else { path.to_owned() };
    // Any number of slashes before a share is two.
    let share = slashed.strip_prefix("//").filter(|_| is_windows).map(|share| format!("//{}", share.trim_start_matches('/')));
    let rest = share.as_deref().unwrap_or(&slashed);
    let (head, rest) = if !is_windows {
        (if rest.starts_with('/') { "/" } else { "" }, rest)
    } else if let Some(share) = strip_prefix_ignoring_case(rest, "//?/unc/") {
        ("//", share)
    } else if let Some(verbatim) = rest.strip_prefix("//?/").or_else(|| rest.strip_prefix("//./")) {
        ("", verbatim)
    } else if rest.starts_with("//") {
        ("//", rest)
    } else {
        ("", rest)
    };
    let mut names: Vec<&str> = Vec::new();
    for name in rest.split('/') {
        match name {
            "" | "." => {}
            // Nothing is above a drive.
            ".." if names.len() <= usize::from(is_windows) => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    (format!("{head}{}", names.join("/")), is_windows)
}

fn strip_prefix_ignoring_case<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let (begin, rest) = path.split_at_checked(prefix.len())?;
    begin.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The path of a folder after one above it was moved: `folder` is at or below `from`, which is `to` now. What is below keeps its
/// spelling. `None` if the folder is elsewhere.
pub fn rebased(folder: &str, from: &FolderKey, to: &str) -> Option<String> {
    if !from.contains(&FolderKey::of(folder)) {
        return None;
    }
    let (spelled, _) = normalize(folder);
    let below: Vec<&str> = spelled.split('/').filter(|name| !name.is_empty()).skip(from.names().len()).collect();
    let slash = if is_windows(to) { '\\' } else { '/' };
    let mut path = to.trim_end_matches(['/', slash]).to_owned();
    for name in below {
        path.push(slash);
        path.push_str(name);
    }
    Some(if path.is_empty() { MAIN_SEPARATOR.to_string() } else { path })
}

/// `true` if the file system of a folder ignores the case of letters: with other letters, its path is that of the same folder.
/// `None` if there is no such folder, or nothing in its path has two cases.
pub fn ignores_case(folder: &Path) -> Option<bool> {
    let own = identity(folder)?;
    for one in folder.ancestors() {
        let Some(name) = one.file_name().and_then(|name| name.to_str()) else { continue };
        let swapped = swap_case(name);
        if swapped == name {
            continue;
        }
        let rest = folder.strip_prefix(one).ok()?;
        let other = one.with_file_name(swapped);
        let other = if rest.as_os_str().is_empty() { other } else { other.join(rest) };
        return Some(identity(&other) == Some(own));
    }
    None
}

fn swap_case(name: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    name.chars().map(swap).collect()
}

/// Key of a folder: the same for all its paths, and another for each other folder.
#[cfg(unix)]
fn identity(folder: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(folder).ok()?;
    Some((std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata)))
}

#[cfg(not(unix))]
fn identity(folder: &Path) -> Option<std::path::PathBuf> {
    paths::real(folder).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn is_same(one: &str, other: &str) -> bool {
        FolderKey::of(one) == FolderKey::of(other)
    }

    #[test]
    fn spellings_of_one_folder_have_one_key() {
        for (one, other) in [
            ("/work/app", "/work/app/"),
            ("/work/app", "/work//./src/../app"),
            ("/work/caf\u{e9}", "/work/cafe\u{301}"),
            (r"C:\Work\App", r"c:\work\app\"),
            (r"C:\Work\App", "C:/Work/App"),
            (r"C:\Work\App", r"\\?\C:\Work\App"),
            (r"C:\Work\App", "//?/c:/work/app"),
            (r"\\server\share\app", r"\\?\UNC\Server\Share\App"),
            (r"\\server\share\app", "//server/share/app"),
            (r"C:\", "c:"),
            (r"C:\Größe", "c:\\GRO\u{308}ße"),
        ] {
            assert!(is_same(one, other), "{one} {other}: {:?} {:?}", FolderKey::of(one), FolderKey::of(other));
        }
        for (one, other) in [
            ("/work/app", "/work/App"),
            ("/work/app", "/work/apple"),
            ("/work/app", "work/app"),
            ("/work/a\\b", "/work/a/b"),
            (r"\\server\share", r"C:\server\share"),
            (r"\\server\share", "/server/share"),
            ("", "/"),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
        assert!(FolderKey::of("/work/app").ignoring_case().contains(&FolderKey::of("/Work/APP/src")));
    }

    #[test]
    fn a_folder_contains_what_is_below_it() {
        let contains = |folder: &str, other: &str| FolderKey::of(folder).contains(&FolderKey::of(other));
        for (folder, other) in [
            ("/", "/work"),
            ("/work", "/work"),
            ("/work/", "/work/app/src"),
            (r"C:\", r"c:\work"),
            (r"\\server\share", r"\\SERVER\share\x"),
        ] {
            assert!(contains(folder, other), "{folder} {other}");
        }
        for (folder, other) in [
            ("/work", "/workshop"),
            ("/work/app", "/work"),
            (r"C:\", r"D:\work"),
            ("/", r"C:\work"),
            ("/", r"\\server\share"),
            ("", "/"),
        ] {
            assert!(!contains(folder, other), "{folder} {other}");
        }
    }

    #[test]
    fn what_is_below_a_moved_folder_moves_with_it() {
        let moved = |folder: &str, from: &str, to: &str| rebased(folder, &FolderKey::of(from), to);
        assert_eq!(moved("/a/b", "/a/b/", "/c"), Some("/c".to_owned()));
        assert_eq!(moved("/a/b/Src/deep", "/a/b", "/c/"), Some("/c/Src/deep".to_owned()));
        assert_eq!(moved("/a/bc", "/a/b", "/c"), None);
        assert_eq!(moved(r"\\?\C:\Work\App\Web", r"c:\work\app", r"D:\App"), Some(r"D:\App\Web".to_owned()));
        assert_eq!(moved("/mnt/c/app/web", "/mnt/c/app", r"C:\app"), Some(r"C:\app\web".to_owned()));
    }

    #[test]
    fn case_is_tried_where_the_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Some Folder");
        fs::create_dir(&path).unwrap();
        let is_there = folder.path().join("sOME fOLDER").exists();
        assert_eq!(ignores_case(&path), Some(is_there));
        assert_eq!(ignores_case(&folder.path().join("none")), None);
        fs::create_dir_all(path.join("2024")).unwrap();
        assert_eq!(ignores_case(&path.join("2024")), Some(is_there), "its name has no letters");
        if !is_there {
            fs::create_dir(folder.path().join("sOME fOLDER")).unwrap();
            assert_eq!(ignores_case(&path), Some(false), "that is another one");
        }
    }

    proptest! {
        #[test]
        fn a_key_is_that_of_itself(path in "(/|C:\\\\|\\\\\\\\|//\\?/|[a-z])[a-zA-Z/\\\\.?:é\u{301}ÄİΣ ]{0,24}") {
            let key = FolderKey::of(&path);
            let again = FolderKey::of(key.path());
            prop_assert_eq!(again.path(), key.path());
            prop_assert!(key.contains(&key) && again.contains(&key));
            let folded = key.clone().ignoring_case();
            prop_assert_eq!(folded.clone().ignoring_case(), folded);
        }

        #[test]
        fn forms_of_letters_do_not_count(names in proptest::collection::vec("[a-zäöüéñ가각Å]{1,5}", 1..4)) {
            let path = format!("/{}", names.join("/"));
            let (composed, apart): (String, String) = (path.nfc().collect(), path.nfd().collect());
            prop_assert_eq!(FolderKey::of(&composed), FolderKey::of(&apart));
        }

        #[test]
        fn below_is_what_has_the_folder_before_it(
            names in proptest::collection::vec("[a-c]{1,2}", 1..4), other in proptest::collection::vec("[a-c]{1,2}", 1..5)
        ) {
            let (folder, path) = (FolderKey::of(&format!("/{}", names.join("/"))), FolderKey::of(&format!("/{}/", other.join("/"))));
            prop_assert_eq!(folder.contains(&path), other.starts_with(&names));
        }

        #[test]
        fn a_move_can_be_taken_back(below in proptest::collection::vec("[a-zA-Z é]{1,4}", 0..4)) {
            let below: Vec<&str> = below.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
            let old = format!("/home/me/old{}", below.iter().map(|name| format!("/{name}")).collect::<String>());
            let new = rebased(&old, &FolderKey::of("/home/me/old"), "/srv/new").unwrap();
            prop_assert!(FolderKey::of("/srv/new").contains(&FolderKey::of(&new)));
            prop_assert_eq!(rebased(&new, &FolderKey::of("/srv/new"), "/home/me/old").unwrap(), old);
        }
    }
}
