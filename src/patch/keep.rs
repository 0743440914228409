/*!
Keeping the patch: an upgrade of a patched client is patched in the background.

Hooks that start or end a session ask [`is_due`], and start a process that calls [`keep`]. That process waits until no updater writes, and
patches only with every signature matched and after a test run. What came of it is one line for the user, which the next session's
start tells once ([`take_news`]).
*/

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::attributes::{FileStat, Fingerprint};
use super::install::Target;
use super::journal::seconds_now;
use super::notice::{LostPatch, lost_patch};
use super::patcher::{PatchError, Patcher};
use super::plan::PlanError;
use super::smoke::SmokeError;
use ctxbridge_common::files;

/// Time for which a client has to be unchanged: an updater may still write.
pub const QUIET_TIME: Duration = Duration::from_secs(10);

/// Maximum time to wait for that. After it, the next hook tries again.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// Name of the file in the data folder.
const FILE: &str = "patch-keep.json";
const LOCK_FILE: &str = "patch-keep.lock";

/// Time after which a try is made again that failed for a reason that may pass.
const RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Outcome of the last try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeepResult {
    /// The client's file.
    client: PathBuf,
    /// The file as it was left.
    left: Fingerprint,
    /// The version of ctxbridge that tried: a newer one may know more.
    tool_version: String,
    /// Time of the try, in seconds since 1970.
    tried_at: i64,
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
        self.client == client && FileStat::at(client).is_ok_and(|now| now.fingerprint() == self.left)
    }

    /// `true` if another try may come to more.
    fn may_improve(&self) -> bool {
        let is_old = seconds_now().abs_diff(self.tried_at) > RETRY_AFTER.as_secs();
        self.tool_version != env!("CARGO_PKG_VERSION") || (!self.is_final && is_old)
    }
}

/// `true` if a client that has lost its patch is an upgrade of a patched one, and worth a try: nobody tried, or a later try may do better.
pub fn is_due(data_dir: &Path, lost: &LostPatch) -> bool {
    let known = KeepResult::read(data_dir).filter(|known| known.is_about(&lost.path));
    lost.upgraded_patches.is_some() && known.is_none_or(|known| known.may_improve())
}

/// Returns what came of the last try if the user does not know it yet, and remembers that it was told. What has become of the client
/// since then may be something else: then there is no news.
pub fn take_news(data_dir: &Path) -> Option<String> {
    let unread = || KeepResult::read(data_dir).filter(|known| !known.is_told && known.is_about(&known.client));
    unread()?;
    // One session tells it where several start at once. While a client is being patched, the next start has the news.
    let lock = files::open_lock(data_dir.join(LOCK_FILE)).ok()?;
    lock.try_lock().ok()?;
    let known = unread()?;
    // Silence is better than a refrain.
    KeepResult { is_told: true, ..known.clone() }.write(data_dir).ok()?;
    Some(known.text)
}

/// Patches what `claude` of this `PATH` leads to, if it is an upgrade of a client that the user patched, with those of its patches that
/// are for the release. The file has to be unchanged for `quiet_time`, [`QUIET_TIME`] most often. Returns a line for the user, or `None` if
/// there is nothing to do, another process does it, or an updater is still at work.
///
/// # Errors
/// If the result cannot be written down.
pub fn keep(
    data_dir: &Path,
    path_variable: Option<&OsStr>,
    patcher: Patcher<'_>,
    quiet_time: Duration,
) -> io::Result<Option<String>> {
    let lock = files::open_lock(data_dir.join(LOCK_FILE))?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    let Some(lost) = when_quiet(data_dir, path_variable, quiet_time) else { return Ok(None) };
    let has_ended = |id: &&String| {
        let known = patcher.catalog().patches().iter().find(|patch| patch.id == **id);
        known.is_some_and(|patch| !patch.applies_to(lost.version.as_ref()))
    };
    let patches = lost.upgraded_patches.unwrap_or_default();
    let (ended, wanted): (Vec<_>, Vec<_>) = patches.iter().partition(has_ended);
    // Where none is left, the reason is that of all.
    let wanted = if wanted.is_empty() { patches.clone() } else { wanted.into_iter().cloned().collect() };
    let without = match ended.as_slice() {
        [] => String::new(),
        ended => format!(" (without {}, which is not for it)", ended.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")),
    };
    let applied = Target::at(&lost.path)
        .map_err(PatchError::from)
        .and_then(|target| patcher.without_exceptions().apply(&target, &wanted, true));
    let version = lost.version.map(|version| format!(" {version}")).unwrap_or_default();
    let (text, is_final) = match applied {
        Ok(_) => (format!("Claude Code{version} patched{without}; `ctxbridge patch revert` undoes it"), true),
        Err(error) => {
            let reason = reason(&error);
            (
                format!("Claude Code{version} is not patched: {reason}. Hooks, archive and plugin work without the patch"),
                is_final(&error),
            )
        }
    };
    let left = FileStat::at(&lost.path)?.fingerprint();
    let is_told =
        KeepResult::read(data_dir).is_some_and(|known| known.is_told && known.is_about(&lost.path) && known.text == text);
    let tool_version = env!("CARGO_PKG_VERSION").to_owned();
    let tried_at = seconds_now();
    KeepResult { client: lost.path, left, tool_version, tried_at, is_final, text: text.clone(), is_told }.write(data_dir)?;
    Ok(Some(text))
}

/// Waits until the client that has lost its patch is unchanged for that long, and returns it.
fn when_quiet(data_dir: &Path, path_variable: Option<&OsStr>, quiet_time: Duration) -> Option<LostPatch> {
    let begun = Instant::now();
    let mut seen: Option<(Fingerprint, Instant)> = None;
    loop {
        // Asked each time: an updater may put another file in its place, or the user patch it.
        let lost = lost_patch(data_dir, path_variable).filter(|lost| is_due(data_dir, lost))?;
        let now = FileStat::at(&lost.path).ok()?.fingerprint();
        // A file from an archive may have a time that is yet to come; then our own clock counts.
        let watched = match &seen {
            Some((before, since)) if *before == now => since.elapsed(),
            _ => {
                seen = Some((now, Instant::now()));
                Duration::ZERO
            }
        };
        let missing = quiet_time.saturating_sub(now.age().max(watched));
        if missing.is_zero() {
            return Some(lost);
        }
        if begun.elapsed() + missing > MAX_WAIT {
            return None;
        }
        thread::sleep(missing);
    }
}

/// The reason in a few words, the same each time, for a line among others.
fn reason(error: &PatchError) -> String {
    match error {
        PatchError::Plan { cause, .. } if matches!(**cause, PlanError::Drift { .. }) => {
            "this ctxbridge does not know its code; a newer one may".to_owned()
        }
        PatchError::Plan { cause, .. } if matches!(**cause, PlanError::NotApplicable { .. }) => {
            "no patch is for this release".to_owned()
        }
        PatchError::Smoke(SmokeError::Patched(what)) => format!("it does not start when it is patched: {what}"),
        PatchError::Smoke(SmokeError::Original(..)) => "it does not start here, patched or not".to_owned(),
        PatchError::Smoke(SmokeError::NotMade(what)) => format!("it cannot be tried here: {what}"),
        // The file has a name of its own each time.
        PatchError::Swap(error) => format!("its file cannot be replaced ({})", error.cause.kind()),
        _ => error.to_string().lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
    }
}

/// `true` if the same file would fail again.
fn is_final(error: &PatchError) -> bool {
    use PatchError::{Backup, Journal, Lock, Raced, Smoke, Swap, Target};
    match error {
        Swap(error) => matches!(error.cause.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem),
        // Where the original does not start, either, something is missing here that may come back.
        Backup(_) | Journal(_) | Lock(_) | Raced { .. } | Smoke(SmokeError::Original(..)) | Target(_) => false,
        _ => true,
    }
}
