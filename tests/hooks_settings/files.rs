//! Settings as files: what is kept, what comes back, what is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::editor::{Editor, Installed, InstalledState, Uninstalled, UninstalledState};
use ctxbridge::hook::settings::wiring::WIRED;
use ctxbridge::hook::settings::{DocumentError, HookSettingsError};
use tempfile::TempDir;

use crate::hooks_settings::{all, some};

struct Home {
    root: TempDir,
    settings: PathBuf,
}

/// What a test's settings are: something of the user's, oddly written.
const TEXT: &str = "{ \"model\" : \"opus\",\n\n  \"hooks\": { \"Stop\": [ ] } }";

impl Home {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let settings = ctxbridge::common::paths::real(root.path()).unwrap().join("home/.claude/settings.json");
        fs::create_dir(root.path().join("home")).unwrap();
        Self { root, settings }
    }

    fn with(text: &str) -> Self {
        let home = Self::new();
        fs::create_dir(home.settings.parent().unwrap()).unwrap();
        fs::write(&home.settings, text).unwrap();
        home
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn try_install(&self) -> Result<Installed, HookSettingsError> {
        Editor::new(&self.data(), &|_| {}).install(&self.settings, &all("/bin/ctxbridge"), true)
    }

    #[track_caller]
    fn install(&self) -> Installed {
        self.try_install().unwrap()
    }

    #[track_caller]
    fn uninstall(&self) -> Uninstalled {
        Editor::new(&self.data(), &|_| {}).uninstall(&self.settings).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.settings).unwrap()
    }

    /// What is kept of settings files.
    fn kept(&self) -> Vec<PathBuf> {
        files_in(&self.data().join("backups/settings"))
    }
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).map_or_else(|_| Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn the_original_comes_back_to_the_byte() {
    for text in [TEXT, "", "  \n", "{}", "{ }\r\n", "\u{feff}{\r\n\t\"a\": 1 }", "{\"hooks\":{}}"] {
        let home = Home::with(text);
        fs::set_permissions(&home.settings, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(home.install().state, InstalledState::Installed);
        assert_ne!(home.text(), text);
        assert_eq!(mode(&home.settings), 0o640, "{text:?}");
        let again = home.install();
        assert_eq!((again.state, again.backup), (InstalledState::Unchanged, None));
        let gone = home.uninstall();
        assert_eq!((gone.state, gone.removed, gone.backup), (UninstalledState::Restored, WIRED.len(), None), "{text:?}");
        assert_eq!(home.text(), text);
        assert_eq!(mode(&home.settings), 0o640);
        assert!(home.kept().is_empty(), "a backup may hold secrets, and nobody needs it any more");
        assert_eq!(home.uninstall().state, UninstalledState::NotInstalled);
        assert_eq!(files_in(home.settings.parent().unwrap()), std::slice::from_ref(&home.settings));
    }
}

#[test]
fn what_the_install_made_is_gone_after_the_uninstall() {
    let home = Home::new();
    let installed = home.install();
    assert_eq!((installed.state, &installed.backup), (InstalledState::Installed, &None));
    assert_eq!((mode(&home.settings), mode(home.settings.parent().unwrap())), (0o600, 0o700));
    assert_eq!(home.uninstall().state, UninstalledState::Deleted);
    assert!(files_in(&home.root.path().join("home")).is_empty() && home.kept().is_empty());

    // Its folder stays when it was there before.
    fs::create_dir(home.settings.parent().unwrap()).unwrap();
    home.install();
    assert_eq!(home.uninstall().state, UninstalledState::Deleted);
    assert!(home.settings.parent().unwrap().is_dir());

    // And the file, with what a user put into it meanwhile.
    home.install();
    fs::write(&home.settings, home.text().replacen('{', "{\"model\": \"opus\", ", 1)).unwrap();
    assert_eq!(home.uninstall().state, UninstalledState::Removed);
    assert_eq!(home.text(), "{\"model\": \"opus\"\n}\n");
}

/// Settings for colleagues are as readable as any file that is committed.
#[test]
fn a_project_s_settings_are_no_secret() {
    let home = Home::new();
    let editor_data = home.data();
    Editor::new(&editor_data, &|_| {}).install(&home.settings, &all("ctxbridge"), false).unwrap();
    let plain = home.root.path().join("plain");
    fs::write(&plain, "").unwrap();
    assert_eq!(mode(&home.settings), mode(&plain));
}

#[test]
fn updates_keep_the_first_original() {
    let home = Home::with(TEXT);
    let data = home.data();
    let editor = Editor::new(&data, &|_| {});
    editor.install(&home.settings, &some("/old/ctxbridge", |event| event != Event::PostCompact), true).unwrap();
    assert_eq!(home.install().state, InstalledState::Updated);
    assert!(!home.text().contains("/old/") && home.text().contains("PostCompact"));
    let [backup, record] = &{
        let mut kept = home.kept();
        kept.sort();
        kept
    }[..] else {
        panic!("{:?}", home.kept())
    };
    assert_eq!(fs::read_to_string(backup).unwrap(), TEXT);
    assert_eq!((mode(backup), mode(record), mode(backup.parent().unwrap())), (0o600, 0o600, 0o700));
    assert_eq!(home.uninstall().state, UninstalledState::Restored);
    assert_eq!(home.text(), TEXT);
}

#[test]
fn what_was_changed_since_keeps_its_changes() {
    let home = Home::with("{\n  \"model\": \"opus\"\n}\n");
    home.install();
    fs::write(&home.settings, home.text().replace("opus", "haiku")).unwrap();
    let gone = home.uninstall();
    assert_eq!(gone.state, UninstalledState::Removed);
    assert_eq!(home.text(), "{\n  \"model\": \"haiku\"\n}\n");
    assert_eq!(fs::read_to_string(gone.backup.unwrap()).unwrap(), "{\n  \"model\": \"opus\"\n}\n");

    // An install over the change takes that as what is to come back.
    home.install();
    fs::write(&home.settings, home.text().replace("haiku", "sonnet").replace("/bin/", "/old/")).unwrap();
    assert_eq!(home.install().state, InstalledState::Updated);
    assert_eq!(home.uninstall().state, UninstalledState::Restored);
    assert_eq!(home.text(), "{\n  \"model\": \"sonnet\"\n}\n");
}

/// The record is a help, no need.
#[test]
fn without_record_or_backup_ours_are_taken_out() {
    type Damage = fn(&Path);
    let damages: [Damage; 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, "{").unwrap(),
        |path| fs::write(path, "{\"something\": \"else\"}").unwrap(),
    ];
    for ending in ["record.json", "original.json"] {
        for damage in damages {
            let text = "{\n  \"model\": \"opus\"\n}";
            let home = Home::with(text);
            home.install();
            damage(home.kept().iter().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap());
            assert_eq!(home.uninstall().state, UninstalledState::Removed);
            assert_eq!(home.text(), text);
        }
    }
}

#[test]
fn a_link_into_a_folder_of_dotfiles_stays_one() {
    let home = Home::with(TEXT);
    let dotfile = home.root.path().join("dotfiles.json");
    fs::rename(&home.settings, &dotfile).unwrap();
    symlink("../../dotfiles.json", &home.settings).unwrap();
    let installed = home.install();
    assert_eq!(installed.file, ctxbridge::common::paths::real(&dotfile).unwrap());
    assert!(home.settings.is_symlink() && fs::read_to_string(&dotfile).unwrap().contains("ctxbridge"));
    assert_eq!(home.uninstall().state, UninstalledState::Restored);
    assert!(home.settings.is_symlink());
    assert_eq!(fs::read_to_string(&dotfile).unwrap(), TEXT);
}

/// Refused, with what was there as it was, and nothing left beside it.
#[track_caller]
fn refused(home: &Home) -> String {
    let before = fs::read(&home.settings).ok();
    let error = home.try_install().unwrap_err();
    assert_eq!(fs::read(&home.settings).ok(), before);
    assert!(files_in(home.settings.parent().unwrap()).len() <= 1 && home.kept().is_empty());
    error.to_string().replace(&*ctxbridge::common::paths::real(home.root.path()).unwrap().to_string_lossy(), "[ROOT]")
}

#[test]
fn what_cannot_be_edited_is_left_alone() {
    insta::assert_snapshot!(refused(&Home::with("{ // mine\n}")), @"[ROOT]/home/.claude/settings.json was not changed: it is not valid JSON (key must be a string at line 1 column 3), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas");
    insta::assert_snapshot!(refused(&Home::with("{\"hooks\": {\"Stop\": {}}}")), @"[ROOT]/home/.claude/settings.json was not changed: `hooks.Stop` is no list, so that the client ignores the file; correct it");
    let home = Home::with(TEXT);
    fs::set_permissions(&home.settings, fs::Permissions::from_mode(0o444)).unwrap();
    insta::assert_snapshot!(refused(&home), @"[ROOT]/home/.claude/settings.json is read-only; make it writable (some tools for dotfiles make it so: then add the hooks there)");
    let home = Home::with(TEXT);
    fs::remove_file(&home.settings).unwrap();
    fs::create_dir(&home.settings).unwrap();
    insta::assert_snapshot!(refused(&home), @"[ROOT]/home/.claude/settings.json is a folder; put it out of the way");
    fs::remove_dir(&home.settings).unwrap();
    symlink("gone", &home.settings).unwrap();
    insta::assert_snapshot!(refused(&home), @"[ROOT]/home/.claude/settings.json is a link to gone, which does not exist; make that file (`{}` is enough) or remove the link");
    let home = Home::with(TEXT);
    fs::write(home.data(), "a file where a folder should be").unwrap();
    insta::assert_snapshot!(refused(&home), @"ctxbridge's own folder cannot be used: cannot create [ROOT]/data/locks: Not a directory (os error 20); set CTXBRIDGE_DATA_DIR to a folder that you may write to");
}

/// Taking ours out does not need the rest to be right.
#[test]
fn ours_leave_a_file_that_the_client_would_refuse() {
    let text =
        r#"{"hooks": {"Stop": {}, "SessionEnd": [{"hooks": [{"type": "command", "command": "ctxbridge hook session-end"}]}]}}"#;
    let home = Home::with(text);
    assert!(matches!(home.try_install(), Err(HookSettingsError::Document { cause: DocumentError::Shape { .. }, .. })));
    assert_eq!(home.uninstall().state, UninstalledState::Removed);
    assert_eq!(home.text(), r#"{"hooks": {"Stop": {}}}"#);
}

/// Many at once: each waits for its turn, and the file is what one of them alone would have made.
#[test]
fn a_crowd_leaves_one_install() {
    let home = Home::with(TEXT);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| home.install());
        }
    });
    let crowded = home.text();
    assert_eq!(home.uninstall().state, UninstalledState::Restored);
    home.install();
    assert_eq!(home.text(), crowded);
}
