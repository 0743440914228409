/*!
The git repository around a folder, and its identity: what stays the same when its folder is renamed.

Most is read from git's own files. Only the root commits need a process ([`Repository::root_commits`]), which may take seconds in a long history:
no hook waits for it.
*/

use crate::files;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of one of git's files that are read.
const MAX_GIT_FILE_BYTES: u64 = 64 << 10;

/// Maximum number of root commits that are told apart: histories that were merged have several.
const MAX_ROOT_COMMITS: usize = 16;

/// Pause between looks whether git is done.
const PAUSE: Duration = Duration::from_millis(5);

/// A work tree, and its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The folder of the work tree, as it was given.
    pub top: PathBuf,
    /// Git's folder that all work trees of the repository share.
    common: PathBuf,
    /// Name of a work tree that is not the main one; git keeps it when the folder is moved.
    pub tree: Option<String>,
}

impl Repository {
    /// The repository around a folder, which must be absolute.
    pub fn around(folder: &Path) -> Option<Self> {
        let top = folder.ancestors().take_while(|_| folder.is_absolute()).find(|folder| folder.join(".git").exists())?;
        let git = top.join(".git");
        if git.is_dir() {
            return Some(Self { top: top.to_owned(), common: git, tree: None });
        }
        // In a linked work tree, it is a file that names a folder of the main one.
        let own = top.join(read(&git)?.strip_prefix("gitdir:")?.trim());
        Some(match read(&own.join("commondir")) {
            Some(common) => {
                let tree = own.file_name().map(|name| name.to_string_lossy().into_owned());
                Self { top: top.to_owned(), common: own.join(common.trim()), tree }
            }
            // A submodule has one of its own, too.
            None => Self { top: top.to_owned(), common: own, tree: None },
        })
    }

    /// The address that it was cloned from, in a form that is the same for all ways to reach it; `None` if it has none.
    pub fn remote(&self) -> Option<String> {
        self.origin().map(|url| remote_name(&url).unwrap_or_else(|| local_remote(&url)))
    }

    /// `host/path` of the server that it was cloned from; `None` if that is no server.
    pub fn remote_name(&self) -> Option<String> {
        self.origin().and_then(|url| remote_name(&url))
    }

    /// The address of the remote `origin`, as git's configuration has it.
    fn origin(&self) -> Option<String> {
        let text = read(&self.common.join("config"))?;
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

    /// `true` if only the newest commits are there, so that nobody can say which was the first.
    fn is_shallow(&self) -> bool {
        self.common.join("shallow").exists()
    }

    /// Asks git for the ids of the commits that the history begins with, sorted. Empty if there are none, or git does not tell
    /// within `timeout`.
    pub fn root_commits(&self, timeout: Duration) -> Vec<String> {
        if self.is_shallow() {
            return Vec::new();
        }
        let mut command = Command::new("git");
        command.arg("--no-pager").arg("-C").arg(&self.top);
        command.args(["rev-list", "--max-parents=0", &format!("--max-count={MAX_ROOT_COMMITS}"), "HEAD", "--"]);
        // Whoever runs in a hook of git has another repository named there.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES"] {
            command.env_remove(name);
        }
        // Nothing is written, asked for, or fetched.
        command.envs([("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")]);
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        let mut commits: Vec<String> = output(&mut command, timeout).unwrap_or_default().lines().map(str::to_owned).collect();
        let is_id = |id: &String| matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        commits.retain(is_id);
        commits.sort_unstable();
        commits
    }
}

/// Runs a command, and returns its output if it succeeds in time. The output must fit into a pipe.
fn output(command: &mut Command, timeout: Duration) -> Option<String> {
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(command, 0x0800_0000); // CREATE_NO_WINDOW
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(None) if begun.elapsed() < timeout => std::thread::sleep(PAUSE),
            Ok(Some(status)) => break status,
            _ => {
                child.kill().ok();
                child.wait().ok();
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.take(MAX_GIT_FILE_BYTES).read_to_string(&mut text).ok()?;
    status.success().then_some(text)
}

fn read(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    files::open(path).ok()?.take(MAX_GIT_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// `host/path` of an address of any kind, without user, password, port and file extension: these may differ, or be secret.
fn remote_name(url: &str) -> Option<String> {
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // As in `git@host:path`; a path of this machine has a slash first, or before the colon.
        None => url.split_once(':').filter(|(host, _)| !host.contains(['/', '\\']) && host.len() > 1)?,
    };
    let host = host.rsplit('@').next()?.split(':').next()?.to_lowercase();
    let path = without_extension(path.trim_matches('/'));
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

/// The address of a repository on this machine.
fn local_remote(url: &str) -> String {
    without_extension(url.strip_prefix("file://").unwrap_or(url).trim_end_matches('/')).to_owned()
}

fn without_extension(path: &str) -> &str {
    path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/')
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
            assert_eq!(remote_name(url).as_deref(), Some("github.com/acme/app"), "{url}");
        }
        for none in ["/srv/git/app.git", "../app", "file:///srv/app.git", "C:/work/app", "", "https://", "https://host"] {
            assert_eq!(remote_name(none), None, "{none}");
        }
        assert_eq!(local_remote("file:///srv/app.git"), local_remote("/srv/app/"));
    }

    #[test]
    fn a_linked_work_tree_is_of_the_same_repository() {
        let place = tempfile::tempdir().unwrap();
        let (root, tree) = (place.path().join("app"), place.path().join("tree"));
        let inside = root.join(".git/worktrees/tree");
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(tree.join("src")).unwrap();
        fs::write(inside.join("commondir"), "../..\n").unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", inside.display())).unwrap();
        let config = "[core]\n\turl = no\n[remote \"other\"]\n\turl = https://host/other\n[remote \"origin\"]\n\turl = git@host:acme/app.git\n";
        fs::write(root.join(".git/config"), config).unwrap();
        let (main, linked) = (Repository::around(&root).unwrap(), Repository::around(&tree.join("src")).unwrap());
        assert_eq!(linked.top, tree);
        assert_eq!([main.remote(), linked.remote()], [Some("host/acme/app".to_owned()), Some("host/acme/app".to_owned())]);
        assert_eq!([main.tree, linked.tree.clone()], [None, Some("tree".to_owned())]);
        assert!(linked.root_commits(Duration::from_secs(60)).is_empty(), "it has no commit");
        assert_eq!(Repository::around(Path::new("relative")), None);
    }
}
