//! Background work: a separate process, detached from the client's terminal, at low priority.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Log;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::recovery;
use ctxbridge_config::ArchiveSettings;

/// Niceness of background processes: lower priority than anything that a person waits for.
#[cfg(unix)]
const NICENESS: i32 = 10;

/// Starts ctxbridge with these arguments without waiting for it.
///
/// # Errors
/// If it cannot be started.
pub fn start(program: &Path, arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The client's folder may be removed or unmounted while this still runs.
    if let Some(root) = program.ancestors().last() {
        command.current_dir(root);
    }
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    #[cfg(windows)]
    {
        const DETACHED_PROCESS: u32 = 0x8;
        const BELOW_NORMAL_PRIORITY_CLASS: u32 = 0x4000;
        super::handles::keep_to_ourselves();
        std::os::windows::process::CommandExt::creation_flags(&mut command, DETACHED_PROCESS | BELOW_NORMAL_PRIORITY_CLASS);
    }
    command.spawn().map(drop)
}

/// Starts an import into the new archive after a damaged one was moved aside to `aside`, and queues a notice for the user. If the
/// import cannot be started, the notice says what else to do.
pub fn start_reimport(data: &Path, program: &Path, aside: &Path) {
    queue_damage_notice(data, aside);
    start(program, &["archive", "import", "--background"]).ok();
}

/// Starts the upkeep that new turns or a new model make necessary: the search index, vectors, learnings. Returns `true` if it was
/// started: not without an archive, nor where `archive.auto_optimize` is off.
pub fn start_upkeep(data: &Path, settings: &ArchiveSettings) -> bool {
    let is_due = settings.auto_optimize && Location::of(data, settings).is_begun();
    is_due && std::env::current_exe().and_then(|program| start(&program, &["archive", "optimize", "--background"])).is_ok()
}

/// Queues a notice that a damaged archive was moved aside. The next hook shows it.
pub fn queue_damage_notice(data: &Path, aside: &Path) {
    Log::in_dir(data).queue_notice(&format!("ctxbridge: {}", recovery::quarantine_message(aside)));
}

/// Detaches a background process: leaves the client's session and lowers the priority. Call it first.
pub fn detach_and_renice() {
    #[cfg(unix)]
    {
        // Neither is worth failing for: the first fails for whoever leads a group already.
        rustix::process::setsid().ok();
        rustix::process::nice(NICENESS).ok();
    }
}
