//! The path of this program, as it is written into the client's settings and the plugin.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::hook::settings::own_program::own_program;
use ctxbridge_common::{files, paths};
use tempfile::NamedTempFile;

/// Returns the path of the running program that will still be there tomorrow. One that a package runner (`npx`, `bunx`, `pnpm dlx`) brought is
/// copied into the data folder first.
///
/// # Errors
/// If the program cannot be copied, or its path cannot be written down.
pub(super) fn wired_program() -> anyhow::Result<String> {
    let own = std::env::current_exe()?;
    let path = std::env::var_os("PATH");
    if !is_passing(&own) {
        return Ok(own_program(&own, path.as_deref())?);
    }
    Ok(own_program(&copied(&own)?, None)?)
}

/// Brings the copy in the data folder up to date, if there is one and a package runner brought the running program: what was wired before
/// runs the copy.
///
/// # Errors
/// If the program cannot be copied.
pub(super) fn refresh_copy() -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let has_copy = own.file_name().is_some_and(|name| paths::data_path().is_ok_and(|data| data.join("bin").join(name).is_file()));
    if is_passing(&own) && has_copy {
        copied(&own)?;
    }
    Ok(())
}

fn copied(own: &Path) -> anyhow::Result<PathBuf> {
    let folder = paths::data_dir()?.join("bin");
    let copy = own.file_name().map(|name| folder.join(name)).context("the program has no name")?;
    let place = || {
        paths::create_private_dir(&folder)?;
        let new = NamedTempFile::new_in(&folder)?;
        // With its mode.
        fs::copy(own, new.path())?;
        files::persist(new, &copy)
    };
    place().with_context(|| {
        format!("cannot copy the program to {}; `npm install -g ctxbridge` puts it where it stays", copy.display())
    })?;
    Ok(copy)
}

/// `true` for a program in a folder of a package runner, which goes when that cleans up.
fn is_passing(program: &Path) -> bool {
    program
        .iter()
        .filter_map(|part| part.to_str())
        .any(|part| matches!(part, "_npx" | "dlx") || part.starts_with("bunx-") || part.starts_with("dlx-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_runner_brought_goes_again() {
        for passing in [
            "/home/ann/.npm/_npx/1a2b/node_modules/@ctxbridge/linux-x64/bin/ctxbridge",
            "/tmp/bunx-1000-ctxbridge@latest/node_modules/@ctxbridge/linux-x64/bin/ctxbridge",
            "/home/ann/.cache/pnpm/dlx/1a2b/node_modules/@ctxbridge/linux-x64/bin/ctxbridge",
        ] {
            assert!(is_passing(Path::new(passing)), "{passing}");
        }
        for lasting in [
            "/usr/local/lib/node_modules/ctxbridge/node_modules/@ctxbridge/linux-x64/bin/ctxbridge",
            "/home/ann/.local/bin/ctxbridge",
            "/home/ann/.local/share/ctxbridge/bin/ctxbridge",
        ] {
            assert!(!is_passing(Path::new(lasting)), "{lasting}");
        }
    }
}
