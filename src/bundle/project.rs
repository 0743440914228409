/*!
The project of a session, and the names of files in it.

The project is the work tree of git around the folder that the client was started in. Every work tree of a repository has its own
bundles, which branches then carry. But a file has the same name in all of them, and all their sessions belong to the same
project.
*/

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Maximum bytes that are read of one of git's own files.
const MAX_GIT_FILE_BYTES: u64 = 4 << 10;

/// Maximum number of work trees of a repository that are considered.
const MAX_WORK_TREES: usize = 64;

/// The folder in a project that belongs to ctxbridge.
pub const PROJECT_DATA_FOLDER: &str = ".ctxbridge";

/// Digits of the id of a checked-out state.
pub(super) const CHECKOUT_ID_CHARS: usize = 8;

/// Maximum number of ids that are tried for the same state.
const MAX_CHECKOUT_IDS: usize = 64;

/// Maximum bytes of git's index that is searched: enough for tens of thousands of files.
const MAX_GIT_INDEX_BYTES: u64 = 4 << 20;

/// A work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The folder, without symbolic links.
    pub root: PathBuf,
    /// The folder as it was given.
    named: PathBuf,
}

impl Project {
    /// Finds the project around a folder; none if there is no repository, or if it is the user's home. A folder with `.ctxbridge`
    /// in it is a project without git as well. The folders below it are not, since their owner is unknown.
    pub fn around(folder: &Path, home: Option<&Path>) -> Option<Self> {
        let home = home.and_then(|home| paths::real(home).ok());
        let own = folder.join(PROJECT_DATA_FOLDER).is_dir().then_some(folder);
        let repository = folder.ancestors().find(|folder| folder.join(".git").exists());
        let named = repository.or(own).filter(|_| folder.is_absolute())?;
        let root = paths::real(named).ok()?;
        // Somebody who keeps their home in git has projects below it; each session in them would write there.
        let is_too_much = root.parent().is_none() || home.is_some_and(|home| home.starts_with(&root));
        (!is_too_much).then(|| Self { root, named: named.to_owned() })
    }

    /// Paths of all work trees of the repository, this one first.
    pub fn roots(&self) -> Vec<String> {
        let mut roots = vec![text(&self.root)];
        for other in [&self.named].into_iter().chain(&self.other_trees()) {
            let other = text(other);
            if !roots.contains(&other) {
                roots.push(other);
            }
        }
        roots
    }

    /// The name of a file in bundles: relative to the project, with a tilde below the home, and absolute elsewhere.
    pub fn name_of(&self, file: &str, cwd: Option<&Path>, home: Option<&Path>) -> String {
        let file = slashes(file);
        let file = if is_absolute(&file) { file } else { format!("{}/{file}", text(cwd.unwrap_or(&self.root))) };
        let file = normal(&file);
        let inside = |file: &str| [&self.root, &self.named].into_iter().find_map(|root| below(file, &text(root)));
        // A link on the way there, or another work tree, is looked for only where it has to be.
        let linked = || inside(&resolved(&file)?);
        let elsewhere = || self.other_trees().iter().find_map(|root| below(&file, &text(root)));
        let at_home = || home.and_then(|home| below(&file, &text(home))).map(|rest| format!("~/{rest}"));
        inside(&file).or_else(linked).or_else(elsewhere).or_else(at_home).unwrap_or(file)
    }

    /// Shortens paths in a text: the project's become relative, and those below the home begin with a tilde. A colleague's clone
    /// lies elsewhere, and its location here concerns nobody.
    pub fn shorten(&self, text: &str, home: Option<&Path>) -> String {
        // Most have no path that begins at the root, and where work trees lie is not looked up for them.
        let begins = |(at, _): (usize, &str)| !text[..at].ends_with(is_part_of_path);
        let is_absolute = text.match_indices('/').any(begins) || text.contains(":/") || text.contains(":\\");
        if !is_absolute {
            return text.to_owned();
        }
        let mut places: Vec<(String, &str)> = self.roots().into_iter().map(|root| (root, "")).collect();
        // The longest first: one work tree may lie in another.
        places.sort_by_key(|(root, _)| std::cmp::Reverse(root.len()));
        places.extend(home.map(|home| (self::text(home), "~/")));
        places.into_iter().fold(text.to_owned(), |text, (root, stands)| without(&text, &root, stands))
    }

    /// Eight hexadecimal digits for the name of a file that git does not know. They change with each commit and change of branch,
    /// and when git knows a file of that name already. None without git.
    pub fn checkout_id(&self, name: &dyn Fn(&str) -> String) -> Option<String> {
        let mut seen = self.checked_out()?;
        let index = self.own_git()?.join("index");
        let stamp = files::stamp(&index);
        let names = stamp.filter(|(bytes, _)| *bytes <= MAX_GIT_INDEX_BYTES).and_then(|_| files::read(&index).ok());
        // Later versions keep only what differs from the name before.
        let names = names.filter(|names| matches!(names.get(..8), Some([b'D', b'I', b'R', b'C', 0, 0, 0, 2 | 3])));
        if names.is_none() {
            seen = format!("{seen} {stamp:?}");
        }
        let is_known = |name: &str| names.as_ref().is_some_and(|names| memchr::memmem::find(names, name.as_bytes()).is_some());
        let states = (0..MAX_CHECKOUT_IDS)
            .map(|number| digest::of_bytes(format!("{seen} {number}").as_bytes())[..CHECKOUT_ID_CHARS].to_owned());
        states.into_iter().find(|state| !is_known(&name(state)))
    }

    /// A text that changes when something else is checked out.
    fn checked_out(&self) -> Option<String> {
        let (own, common) = (self.own_git()?, self.common()?);
        let head = own.join("HEAD");
        let mut seen = read(&head)?;
        let branch = seen.strip_prefix("ref:").map(|branch| branch.trim().to_owned());
        if let Some(branch) = branch.filter(|branch| branch.starts_with("refs/") && !branch.contains("..")) {
            // All branches may be in one file, which is too long to be read here; it changes when one does.
            seen.extend(read(&common.join(branch)).or_else(|| Some(format!("{:?}", files::stamp(&common.join("packed-refs"))))));
        }
        for git in [&own, &common] {
            seen.extend(read(&git.join("reftable/tables.list")));
        }
        // Whoever comes back to a branch finds there what was committed on another one meanwhile, or does not.
        Some(format!("{seen} {:?} {:?}", files::stamp(&head), files::stamp(&own.join("logs/HEAD"))))
    }

    /// The repository's other work trees, as git lists them.
    fn other_trees(&self) -> Vec<PathBuf> {
        let Some(common) = self.common() else { return Vec::new() };
        let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().take(MAX_WORK_TREES);
        let linked = linked.filter_map(|tree| Some(PathBuf::from(read(&tree.path().join("gitdir"))?).parent()?.to_owned()));
        let main = common.file_name().is_some_and(|name| name == ".git").then(|| common.parent().map(Path::to_owned)).flatten();
        main.into_iter().chain(linked).filter(|tree| *tree != self.root).collect()
    }

    /// The repository's main work tree, if this one is linked to it.
    pub(super) fn main_tree(&self) -> Option<Self> {
        let (own, common) = (paths::real(&self.own_git()?).ok()?, self.common()?);
        let is_linked = own != common && common.file_name().is_some_and(|name| name == ".git");
        let root = common.parent().filter(|_| is_linked)?.to_owned();
        Some(Self { named: root.clone(), root })
    }

    /// Git's folder for this work tree.
    fn own_git(&self) -> Option<PathBuf> {
        let git = self.root.join(".git");
        if git.is_dir() { Some(git) } else { Some(self.root.join(read(&git)?.strip_prefix("gitdir:")?.trim())) }
    }

    /// Git's folder that all work trees share.
    fn common(&self) -> Option<PathBuf> {
        let own = self.own_git()?;
        match read(&own.join("commondir")) {
            Some(common) => paths::real(own.join(common)).ok(),
            // A submodule has one of its own, too.
            None => Some(own),
        }
    }
}

fn is_part_of_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '/' | '\\')
}

/// Replaces a folder in a text by `stands`, if a path goes on behind it; the folder alone becomes a dot.
fn without(text: &str, root: &str, stands: &str) -> String {
    let root = root.trim_end_matches('/');
    let spellings = if has_drive(root) { vec![root.to_owned(), root.replace('/', "\\")] } else { vec![root.to_owned()] };
    let mut text = text.to_owned();
    for spelling in spellings.iter().filter(|spelling| spelling.len() > 1) {
        let mut short = String::with_capacity(text.len());
        let mut done = 0;
        for (at, _) in text.match_indices(spelling.as_str()) {
            let behind = &text[at + spelling.len()..];
            let is_part = is_part_of_path;
            let is_inside = behind.starts_with(['/', '\\']);
            // A full stop ends a sentence as well.
            let is_folder = is_inside || !behind.strip_prefix('.').unwrap_or(behind).starts_with(is_part);
            if at < done || text[..at].ends_with(is_part) || !is_folder {
                continue;
            }
            short.push_str(&text[done..at]);
            let goes_on = is_inside && behind[1..].starts_with(|c: char| is_part(c) && !matches!(c, '/' | '\\'));
            short.push_str(if goes_on { stands } else { stands.strip_suffix('/').unwrap_or(".") });
            done = at + spelling.len() + usize::from(goes_on);
        }
        short.push_str(&text[done..]);
        text = short;
    }
    text
}

/// Reads the text of a short file, without the space around it.
fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    files::open(path).ok()?.take(MAX_GIT_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

fn text(path: &Path) -> String {
    normal(&slashes(&path.to_string_lossy()))
}

/// Converts to the slashes that all systems read. On Unix a backslash is part of a name, except in a path that has a drive.
fn slashes(path: &str) -> String {
    let path = path.strip_prefix(r"\\?\").unwrap_or(path);
    if cfg!(windows) || has_drive(path) { path.replace('\\', "/") } else { path.to_owned() }
}

fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [drive, b':', b'/' | b'\\', ..] if drive.is_ascii_alphabetic())
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || has_drive(path)
}

/// Removes `.`, `..` and doubled slashes.
fn normal(path: &str) -> String {
    let (drive, rest) = if has_drive(path) { path.split_at(2) } else { ("", path) };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{drive}/{}", parts.join("/"))
}

/// The path below a folder. Paths on drives are compared without case.
fn below(file: &str, root: &str) -> Option<String> {
    let (begin, rest) = file.split_at_checked(root.len())?;
    let is_same = if has_drive(root) { begin.eq_ignore_ascii_case(root) } else { begin == root };
    let rest = rest.strip_prefix('/').filter(|rest| is_same && !rest.is_empty())?;
    Some(rest.to_owned())
}

/// Resolves symbolic links, as far as the path exists.
fn resolved(file: &str) -> Option<String> {
    let path = Path::new(file);
    let known = path.ancestors().find_map(|known| Some((paths::real(known).ok()?, path.strip_prefix(known).ok()?)));
    known.map(|(known, rest)| text(&known.join(rest)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn project(root: &str) -> Project {
        Project { root: PathBuf::from(root), named: PathBuf::from(root) }
    }

    #[test]
    fn names_are_relative_wherever_the_file_is() {
        let project = project("/nowhere/work/app");
        let name = |file: &str| project.name_of(file, Some(Path::new("/nowhere/work/app/web")), Some(Path::new("/nowhere/me")));
        assert_eq!(name("/nowhere/work/app/src/a.rs"), "src/a.rs");
        assert_eq!(name("/nowhere/work/app/./src/../src//a.rs"), "src/a.rs");
        assert_eq!(name("index.ts"), "web/index.ts");
        assert_eq!(name("../src/a b.rs"), "src/a b.rs");
        assert_eq!(name("/nowhere/work/apple/a.rs"), "/nowhere/work/apple/a.rs");
        assert_eq!(name("/nowhere/me/.bashrc"), "~/.bashrc");
        assert_eq!(name("/nowhere/else/hosts"), "/nowhere/else/hosts");
        if cfg!(unix) {
            assert_eq!(name("/nowhere/work/app/a\\b"), "a\\b", "a backslash is a letter here");
        }
    }

    #[test]
    fn windows_has_backslashes_drives_and_no_case() {
        let project = project("C:/Work/App");
        assert_eq!(project.name_of(r"c:\work\app\src\a.rs", None, None), "src/a.rs");
        assert_eq!(project.name_of(r"\\?\C:\Work\App\src\a.rs", None, None), "src/a.rs");
        assert_eq!(project.name_of(r"D:\other\a.rs", None, None), "D:/other/a.rs");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_work_trees_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = paths::real(folder.path()).expect("there");
        let (main, tree) = (base.join("main"), base.join("tree"));
        for made in [main.join(".git/worktrees/tree"), main.join("src"), tree.join("src")] {
            fs::create_dir_all(made).expect("a folder");
        }
        fs::write(tree.join(".git"), format!("gitdir: {}\n", main.join(".git/worktrees/tree").display())).expect("written");
        fs::write(main.join(".git/worktrees/tree/commondir"), "../..\n").expect("written");
        fs::write(main.join(".git/worktrees/tree/gitdir"), format!("{}\n", tree.join(".git").display())).expect("written");
        std::os::unix::fs::symlink(&tree, base.join("link")).expect("a link");

        let project = Project::around(&base.join("link/src"), None).expect("a project");
        assert_eq!(project.root, tree);
        let name = |file: PathBuf| project.name_of(&file.to_string_lossy(), None, None);
        assert_eq!(name(base.join("link/src/new.rs")), "src/new.rs");
        assert_eq!(name(tree.join("src/new.rs")), "src/new.rs");
        assert_eq!(name(main.join("src/new.rs")), "src/new.rs");
        let roots: Vec<PathBuf> = project.roots().into_iter().map(PathBuf::from).collect();
        assert_eq!(roots, [tree.clone(), base.join("link"), main.clone()]);
        let of_main = Project::around(&main, None).expect("a project");
        assert_eq!(of_main.roots(), [text(&main), text(&tree)]);
        assert_eq!((project.main_tree().map(|tree| tree.root), of_main.main_tree()), (Some(main), None));
    }

    #[test]
    fn texts_do_not_say_where_the_project_lies() {
        let project = project("/nowhere/me/app");
        let short = |text: &str| project.shorten(text, Some(Path::new("/nowhere/me")));
        for (text, expected) in [
            ("cd /nowhere/me/app && cargo test", "cd . && cargo test"),
            ("cat /nowhere/me/app/src/a.rs /nowhere/me/app/", "cat src/a.rs ./"),
            ("diff '/nowhere/me/app/a' /nowhere/me/apple/a", "diff 'a' ~/apple/a"),
            ("ls /nowhere/me; ls /nowhere/me/.ssh/", "ls ~; ls ~/.ssh/"),
            ("ls /nowhere/meadow /else/nowhere/me/app", "ls /nowhere/meadow /else/nowhere/me/app"),
            ("It is in /nowhere/me/app. So", "It is in .. So"),
            ("cat /nowhere/me/app.rs", "cat ~/app.rs"),
            ("PATH=/nowhere/me/app/bin:$PATH", "PATH=bin:$PATH"),
            ("no path", "no path"),
        ] {
            assert_eq!(short(text), expected, "{text}");
        }
        let windows = self::project("C:/Work/App");
        assert_eq!(windows.shorten(r"type C:\Work\App\a.rs C:/Work/App/b.rs", None), "type a.rs b.rs");
    }

    #[test]
    fn another_branch_or_commit_is_another_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = folder.path().join(".git");
        fs::create_dir_all(git.join("refs/heads")).expect("a folder");
        let project = Project::around(folder.path(), None).expect("a project");
        assert_eq!(project.checkout_id(&str::to_owned), None, "no repository that git would know");
        let put = |name: &str, text: &str| fs::write(git.join(name), text).expect("written");
        let mut states = std::collections::BTreeSet::new();
        let mut is_new = || states.insert(project.checkout_id(&str::to_owned).expect("a state"));
        put("HEAD", "ref: refs/heads/main\n");
        assert!(is_new() && !is_new(), "before the first commit");
        put("refs/heads/main", "1111\n");
        assert!(is_new());
        put("refs/heads/main", "2222\n");
        assert!(is_new() && !is_new());
        put("HEAD", "ref: refs/heads/other\n");
        put("refs/heads/other", "2222\n");
        assert!(is_new());
        put("HEAD", "2222\n");
        assert!(is_new(), "no branch");
        put("HEAD", "ref: refs/heads/main\n");
        fs::remove_file(git.join("refs/heads/main")).expect("removed");
        put("packed-refs", "3333 refs/heads/main\n");
        assert!(is_new());
        put("packed-refs", "3333 refs/heads/main\n4444 refs/heads/x\n");
        assert!(is_new());
        put("index", "DIRC\0\0\0\u{2}");
        assert!(is_new() && !is_new());
        let known = project.checkout_id(&str::to_owned).expect("a state");
        put("index", &format!("DIRC\0\0\0\u{2} .ctxbridge/bundles/{known}"));
        assert!(is_new() && !is_new(), "git knows a file of that name");
        put("index", "DIRC\0\0\0\u{4}");
        assert!(is_new() && !is_new(), "of a version whose names are cut");
    }

    #[test]
    fn a_home_in_git_is_no_project_and_neither_is_a_folder_without() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("me");
        fs::create_dir_all(home.join("notes/.git")).expect("a folder");
        assert_eq!(Project::around(&home.join("plain"), Some(&home)), None);
        assert!(Project::around(&home.join("notes/deep/er"), Some(&home)).is_some());
        fs::create_dir(home.join(".git")).expect("a folder");
        assert_eq!(Project::around(&home.join("plain"), Some(&home)), None);
        fs::remove_dir(home.join(".git")).expect("removed");
        fs::create_dir_all(home.join("plain").join(crate::bundle::PROJECT_DATA_FOLDER)).expect("a folder");
        fs::create_dir_all(home.join("plain/below")).expect("a folder");
        assert!(Project::around(&home.join("plain"), Some(&home)).is_some());
        assert_eq!(Project::around(&home.join("plain/below"), Some(&home)), None, "that may be somebody else's");
        assert_eq!(Project::around(Path::new("relative"), None), None);
    }

    proptest! {
        #[test]
        fn a_name_below_the_root_leads_back(parts in proptest::collection::vec("[a-z .éß]{1,6}", 1..5)) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !matches!(*part, "." | "..")).collect();
            prop_assume!(!parts.is_empty());
            let file = format!("/nowhere/root/{}", parts.join("/"));
            prop_assert_eq!(project("/nowhere/root").name_of(&file, None, None), parts.join("/"));
        }

        #[test]
        fn any_text_is_no_panic_and_never_climbs(file in "\\PC{0,40}") {
            let name = project("/nowhere/root").name_of(&file, None, Some(Path::new("/nowhere")));
            prop_assert!(!name.split('/').any(|part| part == ".."), "{name}");
        }
    }
}
