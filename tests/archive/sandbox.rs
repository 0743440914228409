//! Where a test happens: a home with the client's transcripts, a data folder, and the commands that are run on them.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ctxbridge_testkit::transcript::{Kind, Session, Spec, generate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for something that has to happen. No assertion hangs on how long it took.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The user and group that nobody is.
const NOBODY: u32 = 65534;

/// The folder that the client works in, in all transcripts.
pub const FOLDER: &str = "/home/dev/src/ledger";

pub struct Sandbox {
    root: PathBuf,
    _folder: TempDir,
}

/// A session of the client.
#[derive(Clone, Debug)]
pub struct Talk {
    pub id: String,
    pub path: PathBuf,
}

impl From<&Session> for Talk {
    fn from(session: &Session) -> Self {
        Self { id: session.id.clone(), path: session.path.clone() }
    }
}

impl Talk {
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        fs::write(&self.path, bytes).unwrap();
    }

    pub fn append(&self, bytes: impl AsRef<[u8]>) {
        fs::OpenOptions::new().append(true).open(&self.path).unwrap().write_all(bytes.as_ref()).unwrap();
    }

    /// What the client tells every hook.
    pub fn input(&self) -> Value {
        json!({ "session_id": self.id, "transcript_path": self.path, "cwd": FOLDER, "permission_mode": "default" })
    }

    /// The same with more fields.
    pub fn input_with(&self, more: Value) -> Value {
        let mut input = self.input();
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    }
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ctxbridge-archive-").tempdir().unwrap();
        // Others have to get through to what belongs to them.
        set_mode(folder.path(), 0o755);
        let root = folder.path().canonicalize().unwrap();
        let sandbox = Self { root, _folder: folder };
        for path in [sandbox.project(), sandbox.path("tmp")] {
            fs::create_dir_all(path).unwrap();
        }
        sandbox
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub fn database(&self) -> PathBuf {
        self.data().join("archive.db")
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The client's folder of transcripts for the folder that it works in.
    pub fn project(&self) -> PathBuf {
        self.path("home/.claude/projects/-home-dev-src-ledger")
    }

    /// A session of these bytes; each number is another one.
    pub fn talk(&self, number: u32, bytes: impl AsRef<[u8]>) -> Talk {
        let id = session_id(number);
        let talk = Talk { path: self.project().join(format!("{id}.jsonl")), id };
        talk.write(bytes);
        talk
    }

    /// Sessions of the generator.
    pub fn generate(&self, kind: Kind, messages: u64, seed: u64) -> Vec<Session> {
        generate(&Spec::new(kind, messages, seed), &self.project()).unwrap().sessions
    }

    /// `ctxbridge …`
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.program(Path::new(env!("CARGO_BIN_EXE_ctxbridge")), arguments)
    }

    fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.home()).env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
        command.env("HOME", self.home()).env("TMPDIR", self.path("tmp")).env("CTXBRIDGE_DATA_DIR", self.data());
        // What is started in the background would still be at work when the next thing is looked at.
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false");
        command
    }

    /// `ctxbridge hook EVENT`
    pub fn hook_command(&self, event: &str) -> Command {
        self.command(&["hook", event])
    }

    /// Runs a hook, which has to be content with the world: exit code 0, and nothing on stderr.
    #[track_caller]
    pub fn hook(&self, event: &str, input: &Value) -> Ran {
        run(self.hook_command(event), input.to_string().as_bytes()).calm()
    }

    /// Runs a hook that has nothing to say.
    #[track_caller]
    pub fn quiet_hook(&self, event: &str, input: &Value) {
        let ran = self.hook(event, input);
        assert_eq!(ran.stdout, "", "{event}");
    }

    /// Runs a command that succeeds.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments), b"").done()
    }

    /// The same, with what it prints as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.cli(&[arguments, &["--json"]].concat()).json()
    }

    /// What the archive has of a session's transcript.
    #[track_caller]
    pub fn restored(&self, session: &str, more: &[&str]) -> Vec<u8> {
        let output = self.command(&[&["archive", "restore", session], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Behind a shell command such as a `ulimit`.
    pub fn behind(&self, shell: &str, command: &Command) -> Command {
        let mut behind = Command::new("sh");
        behind.arg("-c").arg(format!("{shell}; exec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
        behind.current_dir(self.home()).env_clear();
        behind.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        behind
    }

    /// A command as a user whom permissions apply to: ourselves, or nobody when we are root. All that is there is made nobody's.
    pub fn unprivileged(&self, arguments: &[&str]) -> Command {
        if !is_root() {
            return self.command(arguments);
        }
        // The folder of the build may be one that nobody can enter.
        let program = self.path("ctxbridge");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_ctxbridge"), &program).unwrap();
            set_mode(&program, 0o755);
        }
        give_away_all(&self.root);
        let mut command = self.program(&program, arguments);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// The lines of the log of failures.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.data().join("logs/errors.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Databases that were moved aside.
    pub fn aside(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.data()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let is_aside = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.contains("damaged") && !name.ends_with("-wal") && !name.ends_with("-shm")
        };
        names.filter(is_aside).collect()
    }

    /// Waits until it is so.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut it: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !it() {
            assert!(begun.elapsed() < PATIENCE, "it never came to pass: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn session_id(number: u32) -> String {
    format!("5e551040-0000-4000-8000-{number:012x}")
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Exit code 0 and no panic.
    #[track_caller]
    pub fn done(self) -> Self {
        self.with_code(0)
    }

    #[track_caller]
    pub fn with_code(self, code: i32) -> Self {
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Exit code 0, nothing on stderr; on stdout nothing, or JSON.
    #[track_caller]
    pub fn calm(self) -> Self {
        let ran = self.done();
        assert_eq!(ran.stderr, "");
        ran
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What the user is told.
    #[track_caller]
    pub fn notice(&self) -> Option<String> {
        if self.stdout.is_empty() {
            return None;
        }
        self.json()["systemMessage"].as_str().map(str::to_owned)
    }

    /// What the model gets to read.
    #[track_caller]
    pub fn context(&self) -> Option<String> {
        if self.stdout.is_empty() {
            return None;
        }
        self.json()["hookSpecificOutput"]["additionalContext"].as_str().map(str::to_owned)
    }
}

/// Starts a command and hands it its input, which it need not read.
pub fn start(mut command: Command, stdin: &[u8]) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    if stdin.len() < 4096 {
        pipe.write_all(&stdin).ok();
    } else {
        std::thread::spawn(move || pipe.write_all(&stdin).ok());
    }
    child
}

/// Waits for its end; one that hangs is killed, and the test fails.
#[track_caller]
pub fn finish(mut child: Child) -> Ran {
    fn read(pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
        let mut pipe = pipe;
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        })
    }
    let (stdout, stderr) = (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    Ran { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

#[track_caller]
pub fn run(command: Command, stdin: &[u8]) -> Ran {
    finish(start(command, stdin))
}

/// Whether permissions do not apply to us.
pub fn is_root() -> bool {
    // Whoever makes a file owns it.
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Sets the mode of all files and folders in a folder, and of itself.
pub fn set_modes(path: &Path, folders: u32, files: u32) {
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { set_modes(&path, folders, files) } else { set_mode(&path, files) }
    }
    set_mode(path, folders);
}

fn give_away_all(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_away_all(&entry.unwrap().path());
        }
    }
}
