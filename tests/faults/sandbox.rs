//! Where a test happens: a client in a package folder, a data directory and a home, all in one temporary folder; the commands
//! that are run on them, and photographs of what must not change.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ctxbridge::common::digest;
use ctxbridge_testkit::is_left_out;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::bundle::{Bundle, VERSION};

/// The user and group that nobody is.
pub const NOBODY: u32 = 65534;

pub const DEFAULT_PATCH: &str = "aggressive-text-prune";

pub struct Sandbox {
    root: PathBuf,
    data: PathBuf,
    _folder: TempDir,
}

impl Sandbox {
    /// With this client installed.
    pub fn new(bundle: Bundle) -> Self {
        Self::with_bytes(&bundle.into_bytes())
    }

    /// With these bytes in the place of the client.
    pub fn with_bytes(bytes: &[u8]) -> Self {
        let folder = tempfile::Builder::new().prefix("ctxbridge-faults-").tempdir().unwrap();
        // Others have to get through to what belongs to them; and the real path, since that is what messages name.
        set_mode(folder.path(), 0o755);
        let root = folder.path().canonicalize().unwrap();
        let sandbox = Self { data: root.join("data"), root, _folder: folder };
        for path in [sandbox.package(), sandbox.path("home"), sandbox.path("tmp")] {
            fs::create_dir_all(path).unwrap();
        }
        sandbox.install(bytes);
        sandbox.manifest(VERSION);
        sandbox
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
        self.root.join(name)
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
        self.program(Path::new(env!("CARGO_BIN_EXE_ctxbridge")), arguments)
    }

    fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.arg("patch").args(arguments).current_dir(self.path("home")).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("CTXBRIDGE_DATA_DIR", &self.data);
        // Of killed commands, scratch folders stay behind: they shall go with the sandbox.
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
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
        Ran::of(&mut self.command(arguments))
    }

    /// The same on something else.
    pub fn run_on(&self, target: &Path, arguments: &[&str]) -> Ran {
        Ran::of(self.bare(arguments).arg(target))
    }

    /// The same as a user whom permissions apply to: ourselves, or nobody when we are root. What nobody needs is made nobody's.
    pub fn run_unprivileged(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.unprivileged(arguments))
    }

    fn unprivileged(&self, arguments: &[&str]) -> Command {
        use std::os::unix::process::CommandExt;
        if !is_root() {
            return self.command(arguments);
        }
        // The folder of the build may be one that nobody can enter.
        let program = self.path("ctxbridge");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_ctxbridge"), &program).unwrap();
            set_mode(&program, 0o755);
        }
        fs::create_dir_all(&self.data).unwrap();
        for folder in [&self.data, &self.path("home"), &self.path("tmp")] {
            give_away(folder);
        }
        let mut command = self.program(&program, arguments);
        command.arg(self.target()).uid(NOBODY).gid(NOBODY);
        command
    }

    /// The same with a shell command in front, such as a `ulimit`.
    pub fn run_behind(&self, shell: &str, arguments: &[&str]) -> Ran {
        let command = self.command(arguments);
        let mut behind = Command::new("sh");
        behind.arg("-c").arg(format!("{shell}; exec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
        behind.current_dir(self.path("home")).env_clear();
        behind.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ran::of(&mut behind)
    }

    /// What is in the target.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.target()).unwrap()
    }

    /// The state that `verify` tells.
    pub fn state(&self) -> String {
        self.run(&["verify", "--json"]).json()["state"].as_str().unwrap().to_owned()
    }

    /// Where the backup of these bytes is, or would be.
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

    /// How many intents nobody closed; nothing without a readable journal.
    pub fn open_intents(&self) -> Option<i64> {
        let path = self.data.join("state.db");
        let count =
            |db: Connection| db.query_row("SELECT count(*) FROM intents WHERE finished_at IS NULL", [], |row| row.get(0)).ok();
        path.exists().then(|| Connection::open(path).ok().and_then(count)).flatten()
    }

    /// The journal, to look into or to break.
    pub fn journal(&self) -> Connection {
        Connection::open(self.data.join("state.db")).unwrap()
    }

    /// Panics unless the target is whole, nothing of ours lies beside it and no intent is open.
    pub fn assert_settled(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new());
        assert_eq!(self.open_intents(), Some(0));
    }
}

/// What must not change.
#[derive(Debug)]
pub struct Photo {
    package: BTreeMap<PathBuf, Entry>,
    backups: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Of a file.
    sha256: Option<String>,
    mode: u32,
    owner: (u32, u32),
    /// Of a file: a folder's changes with each attempt, and that is nothing.
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

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// It did what it was asked for, or says yes.
    #[track_caller]
    pub fn done(self) -> Self {
        self.with_code(0)
    }

    /// It says no.
    #[track_caller]
    pub fn says_no(self) -> Self {
        self.with_code(1)
    }

    /// It refused; stderr has each of `words`, one of which should be the cause and one the next step.
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> Self {
        let ran = self.with_code(3);
        assert_eq!(ran.stdout, "", "a failure has no result");
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
        }
        ran
    }

    #[track_caller]
    fn with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Whether permissions do not apply to us.
pub fn is_root() -> bool {
    // Whoever makes a file owns it.
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a file or folder nobody's, when we may; else it stays ours, and we are whom permissions apply to.
pub fn give_away(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
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
