/*!
The smoke run: a patched client has to start before it replaces anything.

It is asked for its version, in a scratch home, with the updater off, cut off from the network and from the user's environment.
Where the patched client does not run, the original is tried the same way: if that does not run either, it is not the patch.
*/

use std::path::{Path, PathBuf};

use semver::Version;

use super::container::Kind;
use ctxbridge_client::{Client, ClientError};

/// A client that does not start.
#[derive(Debug, thiserror::Error)]
pub enum SmokeError {
    /// The patched one does not, the original does.
    #[error("the patched client does not start: {0}. Nothing was changed; please report this")]
    Patched(String),
    /// Not even the original starts.
    #[error(
        "the client does not start here, patched or not: {0}. Nothing was changed; see that `{1} --version` works, or use --no-smoke"
    )]
    Original(String, PathBuf),
}

/// Why a client cannot be run on this machine; nothing when it can be tried.
pub fn cannot_run(kind: Kind, file: &[u8]) -> Option<String> {
    use object::Architecture::{Aarch64, X86_64};
    let here = match kind {
        Kind::Script => return None,
        Kind::BunElf => cfg!(target_os = "linux"),
        Kind::BunMacho => cfg!(target_os = "macos"),
        Kind::BunPe => cfg!(windows),
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

/// The program that an ELF file names to be loaded by.
fn interpreter(file: &[u8]) -> Option<String> {
    use object::read::elf::{FileHeader as _, ProgramHeader as _};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let path = segments.iter().find_map(|segment| segment.interpreter(endian, file).ok().flatten())?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// Runs the patched client at `patched`, of this kind; `original` is tried when that fails. Returns what it printed.
///
/// # Errors
/// When it does not start or says another version.
pub fn run(kind: Kind, patched: &Path, original: &Path, version: Option<&Version>) -> Result<String, SmokeError> {
    let reason = match attempt(kind, patched, version) {
        Ok(output) => return Ok(output),
        Err(reason) => reason,
    };
    match attempt(kind, original, version) {
        Ok(_) => Err(SmokeError::Patched(reason)),
        Err(reason) => Err(SmokeError::Original(reason, original.to_owned())),
    }
}

fn attempt(kind: Kind, client: &Path, version: Option<&Version>) -> Result<String, String> {
    let output = Client::installed(kind.is_native(), client)
        .and_then(|client| client.version())
        .map_err(|error: ClientError| error.to_string())?;
    match version {
        Some(version) if !output.contains(&version.to_string()) => Err(format!("`--version` says `{output}`, not {version}")),
        _ => Ok(output),
    }
}
