/*!
What the client runs at its events: one file an event, or two that belong together.

A hook must never be noticed but for what it has to say. Whatever goes wrong ends in the log and with exit code 0; the user is told
once. The only other exit code is 2, from `pre-compact`, when it means to block.
*/

mod background;
mod compact;
mod event;
mod event_log;
mod input;
pub mod known;
mod log;
mod metrics;
mod note;
mod prompt;
mod recall;
mod reply;
mod scene;
mod session_start;
pub mod settings;
mod shown;
mod spool;
mod stop;
mod tool;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

pub use background::{refill, settle, tell_of_damage};
pub use event::Event;
pub use event_log::{Entries, Entry, EventLog, SessionLog};
pub use input::Input;
pub use known::known;
pub use log::Log;
pub use metrics::{Measured, Metrics};
pub use reply::{Printed, Reply};
pub use scene::{HookError, Scene};
pub use spool::{Owed, Spool};

use ctxbridge_archive::store::sqlite::Patience;

/// How hooks open the archive that save what would be lost otherwise.
const SAFETY: Patience = Patience::Patient;

/// Bytes of input at most: a prompt may be long, but not this long.
pub const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Does what an event asks for, whatever happens on the way.
pub fn run(event: Event, scene: &Scene) -> Printed {
    let begun = Instant::now();
    let work = || match event {
        Event::SessionStart => session_start::run(scene),
        Event::UserPromptSubmit => prompt::run(scene),
        Event::PreCompact => compact::before(scene),
        Event::PostCompact => compact::after(scene),
        Event::Stop => stop::answer(scene),
        Event::SubagentStop => stop::agent(scene),
        Event::SessionEnd => stop::session(scene),
        Event::PreToolUse => tool::before(scene),
        Event::PostToolUse => tool::after(scene),
    };
    let result = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => {
            scene.measured().error = Some(error.to_string());
            Err(scene.failed(event, &error))
        }
        Err(_) => {
            let bug = format!("a bug in ctxbridge {}; please report it", env!("CARGO_PKG_VERSION"));
            scene.measured().error = Some(bug.clone());
            Err(scene.told_of(event, &bug))
        }
    };
    // Whoever measures must not be in the way: where it cannot be written, it is not known.
    Metrics::in_dir(&scene.data)
        .add(event, scene.input.session.as_deref(), (scene.now_ms, begun.elapsed()), &scene.measured())
        .ok();
    let mut reply = result.unwrap_or_else(|told| told.map(Reply::notice).unwrap_or_default());
    // What pre-compact says goes to the model.
    if event != Event::PreCompact
        && let Some(owed) = scene.log().settle()
    {
        reply.tell(&owed);
    }
    reply.print(event)
}
