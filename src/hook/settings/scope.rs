//! Paths of the client's settings files and of the project.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::HookSettingsError;
use super::wiring::PROGRAM_NAME;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Scope of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsScope {
    /// The user, in all projects.
    User,
    /// All who work on a project: the file is committed.
    Project,
    /// The user, in one project.
    Local,
}

impl SettingsScope {
    /// All scopes, in the order in which the client reads them: later ones take precedence.
    pub const ALL: [Self; 3] = [Self::User, Self::Project, Self::Local];

    /// Returns its name as an argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
        }
    }

    /// `true` if its file is for the user alone.
    pub fn is_private(self) -> bool {
        self != Self::Project
    }

    /// Returns the program for its commands: `own`, or the bare name if colleagues have the program elsewhere.
    pub fn program(self, own: &str) -> &str {
        if self == Self::Project { PROGRAM_NAME } else { own }
    }
}

/// Paths of the settings, seen from the current folder.
#[derive(Debug, Clone)]
pub struct SettingsPaths {
    home: Option<PathBuf>,
    config_dir: Option<PathBuf>,
    /// The project's folder.
    pub project: PathBuf,
}

impl SettingsPaths {
    /// Derives the paths from the home directory, the value of `CLAUDE_CONFIG_DIR` and the current folder. The project is the
    /// nearest folder above with a `.claude` or `.git`; the `.claude` in the home directory does not count.
    pub fn new(home: Option<PathBuf>, config_dir: Option<PathBuf>, current: &Path) -> Self {
        let is_home = |folder: &&Path| home.as_deref().is_some_and(|home| same(home, folder));
        let is_project = |folder: &&Path| folder.join(".git").exists() || folder.join(".claude").is_dir() && !is_home(folder);
        let project = current.ancestors().find(is_project).unwrap_or(current).to_owned();
        let config_dir = config_dir.filter(|folder| !folder.as_os_str().is_empty());
        Self { home, config_dir, project }
    }

    /// Returns a scope's file, which may not exist.
    ///
    /// # Errors
    /// If there is no home directory, or the project is the home directory.
    pub fn file(&self, scope: SettingsScope) -> Result<PathBuf, HookSettingsError> {
        let user = || match (&self.config_dir, &self.home) {
            (Some(folder), _) => Ok(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).join("settings.json")),
            (None, Some(home)) => Ok(home.join(".claude").join("settings.json")),
            (None, None) => Err(HookSettingsError::NoHome),
        };
        let in_project = |name| self.project.join(".claude").join(name);
        match scope {
            SettingsScope::User => user(),
            SettingsScope::Local => Ok(in_project("settings.local.json")),
            SettingsScope::Project => {
                let file = in_project("settings.json");
                match user() {
                    Ok(user) if same(&user, &file) => Err(HookSettingsError::ProjectIsHome(self.project.clone())),
                    _ => Ok(file),
                }
            }
        }
    }

    /// `true` if the client trusts the project, and so uses its settings; `None` if unknown.
    pub fn is_trusted(&self) -> Option<bool> {
        let folder = self.config_dir.as_ref().or(self.home.as_ref())?;
        let state: Value = serde_json::from_slice(&files::read(folder.join(".claude.json")).ok()?).ok()?;
        let is_true = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
        let projects = state.get("projects");
        let real = paths::real(&self.project).unwrap_or_else(|_| self.project.clone());
        // Trust in a folder is trust in those below it.
        let mut folders = self.project.ancestors().chain(real.ancestors());
        let trusted = folders.any(|folder| {
            // On Windows, newer clients write slashes there.
            let slashed = || folder.to_str().filter(|_| cfg!(windows)).map(|folder| folder.replace('\\', "/"));
            let project = folder.to_str().and_then(|folder| projects?.get(folder));
            let project = project.or_else(|| projects?.get(slashed()?));
            is_true(project.and_then(|project| project.get("hasTrustDialogAccepted")))
        });
        Some(trusted || is_true(state.get("bypassPermissionsModeAccepted")))
    }
}

/// `true` if two paths are the same, with links resolved.
fn same(one: &Path, other: &Path) -> bool {
    one == other || paths::real(one).is_ok_and(|one| paths::real(other).is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_the_nearest_folder_that_is_one() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(&path).expect("a folder");
            path
        };
        let home = folder("home");
        folder("home/.claude");
        let places = |current: &Path, config_dir: Option<&str>| {
            SettingsPaths::new(Some(home.clone()), config_dir.map(PathBuf::from), current)
        };
        // The user's own settings make no project of the home directory.
        let plain = folder("home/notes/today");
        assert_ne!(places(&plain, None).project, home);
        let repository = folder("home/code/app");
        folder("home/code/app/.git");
        let deep = folder("home/code/app/src/deep");
        let found = places(&deep, None);
        assert_eq!(found.file(SettingsScope::Local).expect("a file"), repository.join(".claude/settings.local.json"));
        assert_eq!(found.file(SettingsScope::User).expect("a file"), home.join(".claude/settings.json"));
        let elsewhere = folder("elsewhere");
        assert_eq!(places(&deep, elsewhere.to_str()).file(SettingsScope::User).expect("a file"), elsewhere.join("settings.json"));
        assert_eq!(places(&deep, Some("")).file(SettingsScope::User).expect("a file"), home.join(".claude/settings.json"));
        // Where the folder for temporary files is in the home of who runs this, there is a project around it.
        let at_home = SettingsPaths { project: home.clone(), ..places(&home, None) };
        assert!(matches!(at_home.file(SettingsScope::Project), Err(HookSettingsError::ProjectIsHome(_))));
        assert!(matches!(SettingsPaths::new(None, None, &deep).file(SettingsScope::User), Err(HookSettingsError::NoHome)));
    }

    #[test]
    fn trust_in_a_folder_is_trust_below() {
        let root = tempfile::tempdir().expect("a folder");
        let project = root.path().join("a/b");
        std::fs::create_dir_all(project.join(".git")).expect("a folder");
        let places = SettingsPaths::new(Some(root.path().to_owned()), None, &project);
        assert_eq!(places.is_trusted(), None);
        let state = |folder: &Path, trusted: bool| {
            let state =
                serde_json::json!({ "projects": { folder.to_str().expect("Unicode"): { "hasTrustDialogAccepted": trusted } } });
            std::fs::write(root.path().join(".claude.json"), state.to_string()).expect("writable");
        };
        state(&project, false);
        assert_eq!(places.is_trusted(), Some(false));
        state(&root.path().join("a"), true);
        assert_eq!(places.is_trusted(), Some(true));
    }
}
