//! The path by which hooks call the program that installs them.

use std::ffi::OsStr;
use std::path::Path;

use super::HookSettingsError;
use super::wiring::PROGRAM_NAME;
use ctxbridge_common::paths;

/// Returns the running program as an absolute path. If the `PATH` has a link to it, returns the link: a package manager's link
/// survives upgrades, while its target has the version in its path.
///
/// # Errors
/// If the path is not Unicode, which JSON cannot hold, or the program has another name.
pub fn own_program(current_exe: &Path, path: Option<&OsStr>) -> Result<String, HookSettingsError> {
    let real = paths::real(current_exe).unwrap_or_else(|_| current_exe.to_owned());
    let name = format!("{PROGRAM_NAME}{}", std::env::consts::EXE_SUFFIX);
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let mut links = folders.iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name));
    let program = links.find(|link| paths::real(link).is_ok_and(|to| to == real)).unwrap_or_else(|| current_exe.to_owned());
    // By its name it is recognized as ours, here and by other versions.
    if program.file_name() != Some(OsStr::new(&name)) {
        return Err(HookSettingsError::Renamed { program, name });
    }
    program.to_str().map(str::to_owned).ok_or(HookSettingsError::NotUnicode(program))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_path_is_preferred_to_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let cellar = folder.path().join("cellar-1.0");
        std::fs::create_dir(&cellar).expect("a folder");
        let real = cellar.join("ctxbridge");
        std::fs::write(&real, "").expect("a file");
        assert_eq!(own_program(&real, None).expect("Unicode"), real.to_str().expect("Unicode"));
        let link = folder.path().join("ctxbridge");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let path = std::env::join_paths([folder.path()]).expect("a path");
        assert_eq!(own_program(&real, Some(&path)).expect("Unicode"), link.to_str().expect("Unicode"));
    }
}
