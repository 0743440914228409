/*!
The smoke run: a patched client must start before it replaces anything.

It is run with `--version`, in a scratch home, with the updater off, cut off from the network and from the user's environment.
If the patched client does not run, the original is tried the same way: if that does not run, either, the patch is not the cause.
*/

use std::path::{Path, PathBuf};

use semver::Version;

use super::container::ContainerKind;
use ctxbridge_client::{Client, ClientError};

/// Errors from the smoke run.
#[derive(Debug, thiserror::Error)]
pub enum SmokeError {
    /// The patched client does not start, but the original does.
    #[error("the patched client does not start: {0}. Nothing was changed; please report this")]
    Patched(String),
    /// It cannot be run here, for this reason.
    #[error("the patched client cannot be tried here: {0}. Nothing was changed; `ctxbridge patch apply` patches it")]
    NotMade(String),
    /// The original does not start, either.
    #[error(
        "the client does not start here, patched or not: {0}. Nothing was changed; see that `{1} --version` works, or use --no-smoke"
    )]
    Original(String, PathBuf),
}

/// Said of a patched executable of Windows that does not start: it is not signed any more.
const UNSIGNED: &str = "Smart App Control, WDAC and AppLocker refuse what its publisher has not signed";

/// The reason why a client cannot be run on this machine; `None` if it can be tried.
pub fn cannot_run(kind: ContainerKind, file: &[u8]) -> Option<String> {
    use object::Architecture::{Aarch64, X86_64};
    let here = match kind {
        ContainerKind::Script => return None,
        ContainerKind::BunElf => cfg!(target_os = "linux"),
        ContainerKind::BunMacho => cfg!(target_os = "macos"),
        ContainerKind::BunPe => cfg!(windows),
    };
    let (architecture, own) = match object::File::parse(file).map(|file| object::Object::architecture(&file)) {
        Ok(X86_64) => ("x86-64", cfg!(target_arch = "x86_64")),
        Ok(Aarch64) => ("arm64", cfg!(target_arch = "aarch64")),
        _ => ("an unknown processor", false),
    };
    if !(here && own) {
        return Some(format!("a {kind} for {architecture} does not run here"));
    }
    // The same system with another C library.
    let loader = interpreter(file).filter(|loader| !Path::new(loader).exists())?;
    Some(format!("it needs {loader}, which is not here"))
}

/// The program interpreter that an ELF file names.
fn interpreter(file: &[u8]) -> Option<String> {
    use object::read::elf::{FileHeader as _, ProgramHeader as _};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let path = segments.iter().find_map(|segment| segment.interpreter(endian, file).ok().flatten())?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// Runs the patched client at `patched`, of this kind; tries `original` if that fails. Returns the output.
///
/// # Errors
/// If it does not start, or prints another version.
pub fn run(kind: ContainerKind, patched: &Path, original: &Path, version: Option<&Version>) -> Result<String, SmokeError> {
    let reason = match attempt(kind, patched, version) {
        Ok(output) => return Ok(output),
        Err(reason) => reason,
    };
    match attempt(kind, original, version) {
        Ok(_) if kind == ContainerKind::BunPe => Err(SmokeError::Patched(format!("{reason} ({UNSIGNED})"))),
        Ok(_) => Err(SmokeError::Patched(reason)),
        Err(reason) => Err(SmokeError::Original(reason, original.to_owned())),
    }
}

fn attempt(kind: ContainerKind, client: &Path, version: Option<&Version>) -> Result<String, String> {
    let output = Client::installed(kind.is_native(), client)
        .and_then(|client| client.version())
        .map_err(|error: ClientError| error.to_string())?;
    match version {
        Some(version) if !output.contains(&version.to_string()) => Err(format!("`--version` says `{output}`, not {version}")),
        _ => Ok(output),
    }
}
