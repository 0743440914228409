//! Work that nobody has to wait for: a process of its own, detached from the client's terminal, at low priority.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Log;
use ctxbridge_archive::heal;

/// How nice it is: lower than anything that a person waits for.
#[cfg(unix)]
const NICENESS: i32 = 10;

/// Starts ctxbridge with these arguments and does not wait for it.
///
/// # Errors
/// When it cannot be started.
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
        std::os::windows::process::CommandExt::creation_flags(&mut command, DETACHED_PROCESS | BELOW_NORMAL_PRIORITY_CLASS);
    }
    command.spawn().map(drop)
}

/// A damaged archive was moved aside: the user is going to be told, and the new one is filled. Where that cannot be started, the
/// user knows what else there is.
pub fn refill(data: &Path, program: &Path, aside: &Path) {
    tell_of_damage(data, aside);
    start(program, &["archive", "import", "--background"]).ok();
}

/// Has the next hook tell the user that a damaged archive was moved aside.
pub fn tell_of_damage(data: &Path, aside: &Path) {
    Log::in_dir(data).owe(&format!("ctxbridge: {}", heal::told(aside)));
}

/// What a process does first that was started so: leaves the client's session and steps back.
pub fn settle() {
    #[cfg(unix)]
    {
        // Neither is worth failing for: the first fails for whoever leads a group already.
        rustix::process::setsid().ok();
        rustix::process::nice(NICENESS).ok();
    }
}
