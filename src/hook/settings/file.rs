//! Reading a settings file, and replacing it atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::HookSettingsError;
use ctxbridge_common::files;
use ctxbridge_common::paths;
use ctxbridge_patch::swap::sync_folder;

/// Maximum size of a settings file, in bytes.
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

/// Settings file as it was read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Path with links resolved: settings may be a link into a folder of dotfiles, which must stay a link.
    pub path: PathBuf,
    /// Its content; `None` if the file does not exist.
    pub content: Option<Vec<u8>>,
}

pub(super) fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HookSettingsError {
    let path = path.to_owned();
    move |cause| HookSettingsError::Io { step, path, cause }
}

impl SettingsFile {
    pub fn read(named: &Path) -> Result<Self, HookSettingsError> {
        let path = match paths::real(named) {
            Ok(path) => path,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return match fs::read_link(named) {
                    Ok(to) => Err(HookSettingsError::Dangling { link: named.to_owned(), to }),
                    Err(_) => Ok(Self { path: resolve_missing_file(named), content: None }),
                };
            }
            Err(cause) => return Err(io("read", named)(cause)),
        };
        let metadata = fs::metadata(&path).map_err(io("read", &path))?;
        // Before it is opened: a pipe would wait for somebody to write into it.
        if !metadata.is_file() {
            return Err(HookSettingsError::NotAFile {
                path,
                what: if metadata.is_dir() { "a folder" } else { "no regular file" },
            });
        }
        if metadata.len() > MAX_SETTINGS_BYTES {
            return Err(HookSettingsError::NotAFile { path, what: "larger than 16 MB, which no settings are" });
        }
        let content = files::read(&path).map_err(io("read", &path))?;
        Ok(Self { path, content: Some(content) })
    }

    /// Returns the bytes; empty if the file does not exist.
    pub fn bytes(&self) -> &[u8] {
        self.content.as_deref().unwrap_or_default()
    }

    /// Checks that the file may be changed. A rename needs only the folder, but a read-only file is read-only on purpose.
    pub fn check_writable(&self) -> Result<(), HookSettingsError> {
        if self.content.is_none() {
            return Ok(());
        }
        let metadata = fs::metadata(&self.path).map_err(io("read", &self.path))?;
        if metadata.permissions().readonly() {
            return Err(HookSettingsError::ReadOnly(self.path.clone()));
        }
        match OpenOptions::new().append(true).open(&self.path) {
            Ok(_) => Ok(()),
            Err(cause) => Err(io("write", &self.path)(cause)),
        }
    }

    /// Replaces the content with `new`. A new file is readable by the user alone if `private`. Returns `false`, with nothing done,
    /// if the file has changed since it was read.
    pub fn replace(&self, new: &[u8], private: bool) -> Result<bool, HookSettingsError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".ctxbridge-").suffix(".tmp");
        #[cfg(unix)]
        if !private {
            // Less what the user's mask takes away.
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        #[cfg(not(unix))]
        let _ = private;
        let mut file = builder.tempfile_in(folder).map_err(io("write a new file in", folder))?;
        file.write_all(new).map_err(io("write", file.path()))?;
        // What is gone has no owner to take over.
        if self.content.is_some() && self.is_unchanged()? {
            adopt(file.as_file(), &self.path)?;
        }
        file.as_file().sync_all().map_err(io("sync", file.path()))?;
        if !self.is_unchanged()? {
            return Ok(false);
        }
        let placed = match self.content {
            Some(_) => files::persist(file, &self.path),
            None => file.persist_noclobber(&self.path).map_err(|failed| failed.error),
        };
        match placed {
            Ok(_) => sync_folder(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(io("replace", &self.path)(error)),
        }
        Ok(true)
    }

    /// Removes it, and with `with_folder` also its folder if that is empty. Returns `false` if the file has changed since it was
    /// read.
    pub fn remove(&self, with_folder: bool) -> Result<bool, HookSettingsError> {
        if !self.is_unchanged()? {
            return Ok(false);
        }
        fs::remove_file(&self.path).map_err(io("remove", &self.path))?;
        if let Some(folder) = self.path.parent() {
            // Only an empty one can be: then nobody misses it.
            if with_folder && fs::remove_dir(folder).is_ok() {
                return Ok(true);
            }
            sync_folder(folder);
        }
        Ok(true)
    }

    fn is_unchanged(&self) -> Result<bool, HookSettingsError> {
        match files::read(&self.path) {
            Ok(now) => Ok(self.content.as_ref() == Some(&now)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(self.content.is_none()),
            Err(cause) => Err(io("read", &self.path)(cause)),
        }
    }
}

/// Resolves the path of a missing file: links are resolved as far as its folders exist.
fn resolve_missing_file(named: &Path) -> PathBuf {
    let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
    let real = named.ancestors().skip(1).find_map(|folder| Some((paths::real(folder).ok()?, named.strip_prefix(folder).ok()?)));
    real.map_or_else(|| named.clone(), |(folder, rest)| folder.join(rest))
}

#[cfg(unix)]
fn adopt(file: &File, from: &Path) -> Result<(), HookSettingsError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let of = fs::metadata(from).map_err(io("read", from))?;
    let own = file.metadata().map_err(io("read", from))?;
    if (own.uid(), own.gid()) != (of.uid(), of.gid()) {
        fchown(file, Some(of.uid()), Some(of.gid())).map_err(io("keep the owner of", from))?;
    }
    file.set_permissions(fs::Permissions::from_mode(of.mode() & 0o7777)).map_err(io("keep the mode of", from))
}

#[cfg(not(unix))]
fn adopt(_: &File, _: &Path) -> Result<(), HookSettingsError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Between reading and renaming, another program writes, creates or removes the file: none of that may be lost.
    #[test]
    fn what_another_program_did_meanwhile_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        let read = || SettingsFile::read(&path).expect("readable");
        let now = || fs::read_to_string(&path).ok();

        let absent = read();
        fs::write(&path, "theirs").expect("writable");
        assert!(!absent.replace(b"ours", true).expect("no error"));
        assert_eq!(now().as_deref(), Some("theirs"));

        let before = read();
        fs::write(&path, "theirs, too").expect("writable");
        assert!(!before.replace(b"ours", true).expect("no error") && !before.remove(true).expect("no error"));
        assert_eq!(now().as_deref(), Some("theirs, too"));

        let before = read();
        fs::remove_file(&path).expect("removable");
        assert!(!before.replace(b"ours", true).expect("no error"));
        assert_eq!(now(), None);
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0, "nothing is left beside it");

        assert!(read().replace(b"ours", true).expect("no error"));
        assert_eq!(now().as_deref(), Some("ours"));
    }
}
