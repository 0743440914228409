//! A PostgreSQL server that ends when its owner ends, for any reason.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Address;
use super::install::{InstalledPostgres, PASSWORD, SUPERUSER, give, program};

/// Maximum time for a server to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks of its state.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a program until the input ends, which happens when the process that holds the other end ends. Then the folder is removed.
/// If a line is read first, the folder stays.
const GUARD: &str = r#"folder=$1; shift; "$@" </dev/null & child=$!
if read -r _; then kill -INT "$child" 2>/dev/null; wait "$child"
else kill -QUIT "$child" 2>/dev/null; wait "$child"; rm -rf "$folder"; fi"#;

/// Settings of a server that is thrown away: no durability, and room for many connections.
const SETTINGS: [&str; 10] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "listen_addresses=127.0.0.1",
    "unix_socket_permissions=0777",
    "max_connections=120",
    "shared_buffers=128MB",
    "max_wal_size=1GB",
    "logging_collector=off",
    "log_line_prefix=%m [%p] %q%u@%d ",
];

/// A server with a folder of its own, on a Unix socket and a port of the loopback.
#[derive(Debug)]
pub struct Server {
    installed: InstalledPostgres,
    folder: TempDir,
    port: u16,
    settings: Vec<String>,
    guard: Option<Child>,
}

impl Server {
    /// Starts a server; `cache` is the folder for downloads.
    ///
    /// # Errors
    /// When it cannot be installed or does not start; with its log.
    pub fn start_new(cache: &Path) -> io::Result<Self> {
        Self::start_with(cache, &[])
    }

    /// Starts a server with further settings (`name=value`).
    ///
    /// # Errors
    /// As [`Self::start_new`].
    pub fn start_with(cache: &Path, settings: &[&str]) -> io::Result<Self> {
        Self::start_in(&std::env::temp_dir(), cache, settings)
    }

    /// Starts a server that has its databases in a folder of its own in `place`.
    ///
    /// # Errors
    /// As [`Self::start_new`].
    pub fn start_in(place: &Path, cache: &Path, settings: &[&str]) -> io::Result<Self> {
        let installed = InstalledPostgres::get(cache)?;
        // Short, since the name of a socket has at most about a hundred bytes.
        let folder = tempfile::Builder::new().prefix("ctxpg-").permissions(Permissions::from_mode(0o755)).tempdir_in(place)?;
        give(folder.path())?;
        copy(&installed.template(), &folder.path().join("data"))?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self { installed, folder, port, settings, guard: None };
        server.start()?;
        Ok(server)
    }

    /// Starts it again, after [`Self::stop`] or [`Self::kill9`].
    ///
    /// # Errors
    /// When it does not start; with its log.
    pub fn start(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        // One that was killed has left its file behind.
        let before = self.pid();
        loop {
            self.guard = Some(self.spawn()?);
            while !has_failed(&self.log()) && begun.elapsed() < PATIENCE {
                if self.pid_file_says("ready").is_some_and(|pid| Some(pid) != before) {
                    return Ok(());
                }
                std::thread::sleep(PAUSE);
            }
            let said = self.log();
            self.end("stop\n")?;
            // Processes of one that was killed may still be there for a moment.
            if begun.elapsed() >= PATIENCE || !said.contains("shared memory block") {
                return Err(io::Error::other(format!("the server does not start: {said}")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        // Another file: processes of one that was killed may still say in theirs that it is gone.
        let path = self.folder.path().join("log");
        fs::remove_file(&path).ok();
        let log = File::create(path)?;
        let mut command = program(Path::new("/bin/sh"));
        command.args(["-c", GUARD, "sh"]).arg(self.folder.path()).arg(self.installed.program("postgres"));
        command.arg("-D").arg(self.data()).arg("-k").arg(self.folder.path()).arg("-p").arg(self.port.to_string());
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        // What ends us, a Ctrl+C among it, is not to end who cleans up behind us.
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()
    }

    /// Shuts it down in order: running work is canceled, committed work is written.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(&mut self) -> io::Result<()> {
        self.end("stop\n")
    }

    /// Kills it, as a power failure would.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill9(&mut self) -> io::Result<()> {
        let pid = self.pid().ok_or_else(|| io::Error::other("it is not running"))?;
        let children = children(pid);
        kill_process(pid, Signal::KILL)?;
        // They would end by themselves a moment later, and answer until then.
        children.into_iter().for_each(|child| {
            kill_process(child, Signal::KILL).ok();
        });
        self.end("stop\n")
    }

    /// Its address.
    pub fn address(&self) -> Address {
        Address {
            socket: Some(self.folder.path().to_owned()),
            host: "127.0.0.1".to_owned(),
            port: self.port,
            superuser: SUPERUSER.to_owned(),
            password: PASSWORD.to_owned(),
        }
    }

    /// Its log since it was started.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The first line of its file, if it says that.
    fn pid_file_says(&self, state: &str) -> Option<Pid> {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let is_so = state.is_empty() || lines.any(|line| line.trim() == state);
        is_so.then(|| Pid::from_raw(pid))?
    }

    fn pid(&self) -> Option<Pid> {
        self.pid_file_says("")
    }

    fn end(&mut self, word: &str) -> io::Result<()> {
        let Some(mut guard) = self.guard.take() else { return Ok(()) };
        if let Some(mut input) = guard.stdin.take() {
            // Who has ended already hears nothing.
            io::Write::write_all(&mut input, word.as_bytes()).ok();
        }
        guard.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("").ok();
    }
}

/// The child processes of a process. Linux lists them in a file, and elsewhere there is a program for it.
fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_else(|_| {
        let found = Command::new("pgrep").args(["-P", &pid.to_string()]).output();
        found.map_or_else(|_| String::new(), |found| String::from_utf8_lossy(&found.stdout).into_owned())
    });
    listed.split_whitespace().filter_map(|child| Pid::from_raw(child.parse().ok()?)).collect()
}

/// `true` if the log says that the server cannot start. Messages to clients that connect too early have the clients' names before
/// them. Processes of a killed server report that it is gone.
fn has_failed(log: &str) -> bool {
    log.lines().any(|line| line.contains("FATAL") && !line.contains('@') && !line.contains("postmaster exit"))
}

/// `true` if a server accepts connections.
pub fn answers(address: &Address) -> bool {
    address.config("postgres", &address.superuser, &address.password).connect(NoTls).map(Client::close).is_ok()
}

/// Copies a folder; the copy belongs to the user who runs the server.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    give(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            give(&target)?;
        }
    }
    Ok(())
}
