//! An installed client in a sandbox: commands on it, and photographs of what must not change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge::common::{digest, sqlite};
use ctxbridge_testkit::is_left_out;
use ctxbridge_testkit::sandbox::{Ran, Sandbox, behind, run, set_mode};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::bundle::{Bundle, VERSION};

pub const DEFAULT_PATCH: &str = "aggressive-text-prune";

/// A client in a package folder.
pub struct Client {
    sandbox: Sandbox,
    data: PathBuf,
}

impl Client {
    /// One that is this bundle.
    pub fn new(bundle: Bundle) -> Self {
        Self::with_bytes(&bundle.into_bytes())
    }

    /// One that is these bytes.
    pub fn with_bytes(bytes: &[u8]) -> Self {
        let sandbox = Sandbox::new();
        let client = Self { data: sandbox.data(), sandbox };
        fs::create_dir_all(client.package()).unwrap();
        client.install(bytes);
        client.manifest(VERSION);
        client
    }

    /// The same, with the data elsewhere.
    pub fn data_in(self, data: &Path) -> Self {
        Self { data: data.to_owned(), ..self }
    }

    /// Writes a `cli.js` the way package managers do: a new file takes the name.
    pub fn install(&self, bytes: &[u8]) {
        let fresh = self.package().join("cli.js.fresh");
        fs::write(&fresh, bytes).unwrap();
        set_mode(&fresh, 0o755);
        fs::rename(fresh, self.target()).unwrap();
    }

    /// Writes the `package.json`.
    pub fn manifest(&self, version: &str) {
        let manifest = format!(r#"{{"name":"@anthropic-ai/claude-code","version":"{version}","type":"module"}}"#);
        fs::write(self.package().join("package.json"), manifest).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path(name)
    }

    pub fn package(&self) -> PathBuf {
        self.path("prefix/node_modules/@anthropic-ai/claude-code")
    }

    pub fn target(&self) -> PathBuf {
        self.package().join("cli.js")
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    /// `ctxbridge patch …` on nothing yet.
    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(&[&["patch"], arguments].concat());
        command.env("CTXBRIDGE_DATA_DIR", &self.data);
        command
    }

    /// `ctxbridge patch …` on the client.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        command.arg(self.target());
        command
    }

    /// `ctxbridge patch …` on the client, run.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments), b"")
    }

    /// The same on something else.
    pub fn run_on(&self, target: &Path, arguments: &[&str]) -> Ran {
        run(self.bare(arguments).arg(target), b"")
    }

    /// The same as a user whom permissions apply to. What nobody needs is made nobody's.
    pub fn run_unprivileged(&self, arguments: &[&str]) -> Ran {
        let folders = [&self.data, &self.sandbox.home(), &self.path("tmp")];
        let mut command = self.sandbox.unprivileged(&[&["patch"], arguments].concat(), &folders.map(PathBuf::as_path));
        run(command.arg(self.target()).env("CTXBRIDGE_DATA_DIR", &self.data), b"")
    }

    /// The same with a shell command in front, such as a `ulimit`.
    pub fn run_behind(&self, shell: &str, arguments: &[&str]) -> Ran {
        run(behind(shell, &self.command(arguments)), b"")
    }

    /// The target's content.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.target()).unwrap()
    }

    /// The state that `verify` tells.
    pub fn state(&self) -> String {
        self.run(&["verify", "--json"]).json()["state"].as_str().unwrap().to_owned()
    }

    /// The path of the backup of these bytes, whether it is there or not.
    pub fn backup_of(&self, original: &[u8]) -> PathBuf {
        self.data.join("backups").join(digest::of_bytes(original))
    }

    /// The client's folder and the backups as they are now.
    pub fn photo(&self) -> Photo {
        Photo { package: entries(&self.package()), backups: entries(&self.data.join("backups")) }
    }

    /// Panics when something is not as it was.
    pub fn assert_untouched(&self, before: &Photo) {
        let now = self.photo();
        assert_eq!(now.package, before.package, "the client's folder has changed");
        for (name, entry) in &before.backups {
            assert_eq!(now.backups.get(name), Some(entry), "the backup {} has changed", name.display());
        }
        // An attempt that failed late may leave a backup more, as long as it is whole.
        for (name, entry) in now.backups.iter().filter(|(name, _)| !before.backups.contains_key(*name)) {
            assert_eq!(entry.sha256.as_deref(), name.to_str(), "a backup that is none");
        }
        // With a journal that cannot be opened there is nothing to look at.
        if let Some(open) = self.open_intents() {
            assert_eq!(open, 0, "an intent is still open");
        }
    }

    /// Files of ours beside the target.
    pub fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.package()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".ctxbridge-")).collect()
    }

    /// Number of intents that nobody closed; `None` without a readable journal.
    pub fn open_intents(&self) -> Option<i64> {
        let path = self.data.join("state.db");
        let count =
            |db: Connection| db.query_row("SELECT count(*) FROM intents WHERE finished_at IS NULL", [], |row| row.get(0)).ok();
        path.exists().then(|| Connection::open(path).ok().and_then(count)).flatten()
    }

    /// The journal, to look into or to break.
    pub fn journal(&self) -> Connection {
        sqlite::open_file(&self.data.join("state.db"), OpenFlags::default()).unwrap()
    }

    /// Panics unless the target is whole, nothing of ours lies beside it and no intent is open.
    pub fn assert_settled(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new());
        assert_eq!(self.open_intents(), Some(0));
    }
}

/// A client as it was, which must not change.
#[derive(Debug)]
pub struct Photo {
    package: BTreeMap<PathBuf, Entry>,
    backups: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Only of a file.
    sha256: Option<String>,
    mode: u32,
    owner: (u32, u32),
    /// Only of a file: a folder's changes with each attempt, and that is nothing.
    modified: Option<(i64, i64)>,
}

fn entries(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let Ok(read) = fs::read_dir(folder) else { return BTreeMap::new() };
    let entry = |path: &Path| {
        let metadata = path.symlink_metadata().unwrap();
        let file = metadata.is_file();
        Entry {
            sha256: file.then(|| digest::of_bytes(&fs::read(path).unwrap_or_default())),
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            modified: file.then(|| (metadata.mtime(), metadata.mtime_nsec())),
        }
    };
    let paths = read.map(|found| found.unwrap().path());
    paths.map(|path| (path.file_name().unwrap().into(), entry(&path))).collect()
}

/// A folder on another file system than the sandboxes, where a hard link to them cannot be. Says so when there is none.
pub fn other_file_system() -> Option<TempDir> {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let here = device(&std::env::temp_dir());
    let elsewhere = ["/dev/shm", "/run/shm", "/var/tmp", env!("CARGO_TARGET_TMPDIR")].map(Path::new);
    let folder = elsewhere.into_iter().filter(|path| device(path) != here).find_map(|path| TempDir::new_in(path).ok());
    if !is_left_out("second-file-system", folder.is_some()) {
        set_mode(folder.as_ref().unwrap().path(), 0o755);
    }
    folder
}
