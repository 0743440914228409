//! Folders whose sessions are left out of the archive or of recall.

use std::path::Path;

use ctxbridge_common::folder::FolderKey;
use glob::{MatchOptions, Pattern};

use super::{Config, SettingSource};
use ctxbridge_common::paths;

/// Reason why nothing of a folder's sessions is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The user's `archive.exclude` names the folder, or one above it.
    Excluded,
    /// The user had the session forgotten.
    Forgotten,
    /// `archive.enabled` is off, by this source.
    Disabled(SettingSource),
}

impl Config {
    /// Returns why sessions of a folder are not archived, if they are not. The settings are those of the folder.
    pub fn left_out(&self, folder: &Path, home: Option<&Path>) -> Option<LeftOut> {
        if is_in(&self.archive.exclude, folder, home) {
            return Some(LeftOut::Excluded);
        }
        (!self.archive.enabled).then(|| LeftOut::Disabled(self.source("archive.enabled")))
    }

    /// `true` if sessions of a folder recall nothing.
    pub fn is_without_recall(&self, folder: &Path, home: Option<&Path>) -> bool {
        is_in(&self.recall.exclude, folder, home)
    }
}

/// `true` if one of the globs names a folder or one above it, by the path as it is given or without links.
fn is_in(globs: &[String], folder: &Path, home: Option<&Path>) -> bool {
    if globs.is_empty() {
        return false;
    }
    let real = paths::real(folder).ok();
    let folders = [Some(folder), real.as_deref()].into_iter().flatten().map(FolderKey::of_existing);
    let folders: Vec<FolderKey> = folders.collect();
    globs.iter().filter_map(|glob| compile_folder_glob(glob, home).ok()).any(|pattern| {
        folders.iter().any(|folder| {
            let options = MatchOptions {
                case_sensitive: !folder.ignores_case(),
                require_literal_separator: true,
                require_literal_leading_dot: false,
            };
            Path::new(folder.path()).ancestors().any(|above| pattern.matches_with(&above.to_string_lossy(), options))
        })
    })
}

/// Compiles a glob of folders: `*` is a name, `**` any folders, `~` the home.
///
/// # Errors
/// If it is no glob, or no absolute path, which the text says.
pub(super) fn compile_folder_glob(glob: &str, home: Option<&Path>) -> Result<Pattern, String> {
    let at_home =
        |rest: &str| home.map(|home| format!("{}{rest}", Pattern::escape(FolderKey::of(&home.to_string_lossy()).path())));
    let text = match glob.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => at_home(rest).ok_or("there is no home directory")?,
        _ => glob.to_owned(),
    };
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text };
    let is_absolute = text.starts_with(['/', '*']) || text.get(1..3) == Some(":/");
    if !is_absolute {
        return Err("it has to begin with `/`, `~/` or `**/`".to_owned());
    }
    let text = if text.len() > 1 { text.trim_end_matches('/') } else { &text };
    Pattern::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_left_out(glob: &str, folder: &str) -> bool {
        is_in(&[glob.to_owned()], Path::new(folder), Some(Path::new("/home/[ann]")))
    }

    #[test]
    fn a_glob_names_a_folder_with_all_below_it() {
        for (glob, folder) in [
            ("~/clients/acme", "/home/[ann]/clients/acme"),
            ("~/clients/acme/", "/home/[ann]/clients/acme/app/web"),
            ("~/clients/*", "/home/[ann]/clients/acme/app"),
            ("**/secret-*", "/srv/work/secret-plan/app"),
            ("/srv/**/private", "/srv/a/b/private"),
            ("~", "/home/[ann]/anything"),
        ] {
            assert!(is_left_out(glob, folder), "{glob} {folder}");
        }
        for (glob, folder) in [
            ("~/clients/acme", "/home/[ann]/clients/acmes"),
            ("~/clients/acme", "/home/[ann]/clients"),
            ("~/clients/*", "/home/[ann]/clients"),
            ("/srv/*", "/srv"),
            ("clients/acme", "/home/[ann]/clients/acme"),
            ("~/[", "/home/[ann]/["),
            ("~clients", "/home/[ann]/clients"),
        ] {
            assert!(!is_left_out(glob, folder), "{glob} {folder}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = paths::real(folder.path()).expect("there");
        std::fs::create_dir(base.join("secret")).expect("a folder");
        std::os::unix::fs::symlink(base.join("secret"), base.join("link")).expect("a link");
        let glob = [format!("{}/secret", base.display())];
        assert!(is_in(&glob, &base.join("link"), None) && !is_in(&glob, &base, None));
    }
}
