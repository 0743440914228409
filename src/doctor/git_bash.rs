//! Git Bash: on Windows, Claude Code runs the hooks that need a shell in it, and in PowerShell where it finds none.

use std::path::{Path, PathBuf};

use super::{HealthCheck, HealthStatus};

/// The places where Claude Code looks for it, in this order.
struct SearchPlaces {
    /// `CLAUDE_CODE_GIT_BASH_PATH`.
    named: Option<PathBuf>,
    /// The folders of installed programs.
    programs: Vec<PathBuf>,
    /// The folders of the `PATH`, one of which may have `git`.
    path: Vec<PathBuf>,
}

/// Checks for it, on Windows. Our hooks need no shell, so that it may well be missing.
pub fn git_bash() -> Option<HealthCheck> {
    if !cfg!(windows) {
        return None;
    }
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let places = SearchPlaces {
        named: folder("CLAUDE_CODE_GIT_BASH_PATH"),
        programs: ["ProgramFiles", "ProgramFiles(x86)"].into_iter().filter_map(folder).collect(),
        path: std::env::var_os("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).collect()),
    };
    Some(check(&places))
}

fn check(places: &SearchPlaces) -> HealthCheck {
    let detail = match find(places) {
        Some(bash) => bash.display().to_string(),
        None => "not found: Claude Code runs hooks in PowerShell, where ours work as well".to_owned(),
    };
    HealthCheck::new("git_bash", HealthStatus::Ok, detail, None)
}

fn find(places: &SearchPlaces) -> Option<PathBuf> {
    let of_programs = places.programs.iter().map(|folder| folder.join("Git"));
    // `git` is in `Git\cmd`.
    let of_path = places.path.iter().filter(|folder| folder.join("git.exe").is_file());
    let folders = of_programs.chain(of_path.filter_map(|folder| folder.parent()).map(Path::to_owned));
    places.named.iter().cloned().chain(folders.map(|folder| folder.join("bin").join("bash.exe"))).find(|bash| bash.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_found_where_claude_code_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let mut places = SearchPlaces { named: None, programs: vec![folder.path().join("Program Files")], path: Vec::new() };
        assert_eq!(find(&places), None);
        assert!(check(&places).detail.contains("PowerShell"));

        make("scoop/Git/cmd/git.exe");
        let by_path = make("scoop/Git/bin/bash.exe");
        assert_eq!(find(&places), None);
        places.path = vec![folder.path().join("empty"), folder.path().join("scoop/Git/cmd")];
        assert_eq!(find(&places), Some(by_path));

        let installed = make("Program Files/Git/bin/bash.exe");
        assert_eq!(find(&places), Some(installed));

        places.named = Some(folder.path().join("gone/bash.exe"));
        assert_ne!(find(&places), places.named);
        places.named = Some(make("mine/bash.exe"));
        assert_eq!(find(&places), places.named);
    }
}
