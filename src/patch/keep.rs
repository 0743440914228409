/*!
Keeping the patch: an upgrade of a patched client is patched in the background.

Hooks that start or end a session ask [`is_due`], and start a process that calls [`keep`]. That process waits until no updater writes, and
patches only with every signature matched and after a test run. What came of it is one line for the user, which the next session's
start tells once ([`take_news`]).
*/

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::install::Target;
use super::notice::{LostPatch, lost_patch};
use super::patcher::{PatchError, Patcher};
use super::plan::PlanError;
use super::smoke::SmokeError;
use super::swap::Fingerprint;
use ctxbridge_common::files;

/// Time for which a client has to be unchanged: an updater may still write.
pub const QUIET_TIME: Duration = Duration::from_secs(10);

/// Maximum time to wait for that. After it, the next hook tries again.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Name of the file in the data folder.
const FILE: &str = "patch-keep.json";

/// What came of the last try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeepResult {
    /// The client's file.
    client: PathBuf,
    /// The file as it was left.
    left: Fingerprint,
    /// The version of ctxbridge that tried: a newer one may know more.
    tool_version: String,
    /// `true` if trying again would come to the same.
    is_final: bool,
    /// One line for the user.
    text: String,
    /// `true` if the user was told.
    is_told: bool,
}

impl KeepResult {
    fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_str(&files::read_to_string(data_dir.join(FILE)).ok()?).ok()
    }

    fn write(&self, data_dir: &Path) -> io::Result<()> {
        files::replace(&data_dir.join(FILE), &serde_json::to_vec(self)?)
    }

    /// `true` if it is about this file as it is now.
    fn is_about(&self, client: &Path) -> bool {
        self.client == client && fingerprint(client).is_ok_and(|now| now == self.left)
    }
}

fn fingerprint(client: &Path) -> io::Result<Fingerprint> {
    fs::metadata(client).map(|metadata| Fingerprint::of(&metadata))
}

/// `true` if it is worth trying to patch this client, which has lost its patch: nobody tried, or a later try may do better.
pub fn is_due(data_dir: &Path, lost: &LostPatch) -> bool {
    let known = KeepResult::read(data_dir).filter(|known| known.is_about(&lost.path));
    known.is_none_or(|known| !known.is_final || known.tool_version != env!("CARGO_PKG_VERSION"))
}

/// Returns what came of the last try if the user does not know it yet, and remembers that it was told. What has become of the client
/// since then may be something else: then there is no news.
pub fn take_news(data_dir: &Path) -> Option<String> {
    let known = KeepResult::read(data_dir).filter(|known| !known.is_told && known.is_about(&known.client))?;
    // Silence is better than a refrain.
    KeepResult { is_told: true, ..known.clone() }.write(data_dir).ok()?;
    Some(known.text)
}

/// Patches the `claude` of this `PATH`, if it is an upgrade of a client that the user patched, with the same patches. The
/// file has to be unchanged for `quiet_time`, [`QUIET_TIME`] most often. Returns a line for the user, or `None` if there is nothing to
/// do, another process does it, or an updater is still at work.
///
/// # Errors
/// If the result cannot be written down.
pub fn keep(
    data_dir: &Path,
    path_variable: Option<&OsStr>,
    patcher: Patcher<'_>,
    quiet_time: Duration,
) -> io::Result<Option<String>> {
    let lock = files::open_lock(data_dir.join("patch-keep.lock"))?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    let Some(lost) = when_quiet(data_dir, path_variable, quiet_time) else { return Ok(None) };
    let applied = Target::at(&lost.path)
        .map_err(PatchError::from)
        .and_then(|target| patcher.without_exceptions().apply(&target, &lost.patches, true));
    let version = lost.version.map(|version| format!(" {version}")).unwrap_or_default();
    let (text, is_final) = match applied {
        Ok(_) => (format!("Claude Code{version} patched; `ctxbridge patch revert` undoes it"), true),
        Err(error) => {
            let text = format!(
                "Claude Code{version} is not patched: {}. Hooks, archive and plugin work without the patch",
                reason(&error)
            );
            (text, is_final(&error))
        }
    };
    let left = fingerprint(&lost.path)?;
    let is_told =
        KeepResult::read(data_dir).is_some_and(|known| known.is_told && known.is_about(&lost.path) && known.text == text);
    let tool_version = env!("CARGO_PKG_VERSION").to_owned();
    KeepResult { client: lost.path, left, tool_version, is_final, text: text.clone(), is_told }.write(data_dir)?;
    Ok(Some(text))
}

/// Waits until the client that has lost its patch is unchanged for that long, and returns it.
fn when_quiet(data_dir: &Path, path_variable: Option<&OsStr>, quiet_time: Duration) -> Option<LostPatch> {
    let begun = Instant::now();
    loop {
        // Asked each time: an updater may put another file in its place, or the user patch it.
        let lost = lost_patch(data_dir, path_variable).filter(|lost| is_due(data_dir, lost))?;
        let quiet_for = fingerprint(&lost.path).ok()?.age();
        let Some(missing) = quiet_time.checked_sub(quiet_for).filter(|missing| !missing.is_zero()) else { return Some(lost) };
        if begun.elapsed() + missing > MAX_WAIT {
            return None;
        }
        thread::sleep(missing);
    }
}

/// The reason in a few words, for a line among others.
fn reason(error: &PatchError) -> String {
    match error {
        PatchError::Plan { cause, .. } if matches!(**cause, PlanError::Drift { .. }) => {
            "this ctxbridge does not know its code; a newer one may".to_owned()
        }
        PatchError::Plan { cause, .. } if matches!(**cause, PlanError::NotApplicable { .. }) => {
            "no patch is for this release".to_owned()
        }
        PatchError::Smoke(SmokeError::Patched(what)) => format!("it does not start when it is patched: {what}"),
        PatchError::Smoke(SmokeError::Original(what, _)) => format!("it does not start here, patched or not: {what}"),
        PatchError::Smoke(SmokeError::NotMade(what)) => format!("it cannot be tried here: {what}"),
        _ => error.to_string().lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
    }
}

/// `true` if the same file would fail again.
fn is_final(error: &PatchError) -> bool {
    use PatchError::{Backup, Journal, Lock, Raced, Smoke, Swap, Target};
    // Where the original does not start, either, something is missing here that may come back.
    !matches!(error, Backup(_) | Journal(_) | Lock(_) | Raced { .. } | Smoke(SmokeError::Original(..)) | Swap(_) | Target(_))
}
