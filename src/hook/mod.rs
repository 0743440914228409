/*!
Hooks that the client runs at its events: one file per event, or per pair of related events.

A hook must not be noticed except for its reply. Any failure is logged and the exit code is 0; the user is told once. The only other
exit code is 2, from `pre-compact`, to block a compaction.

Every event ends in [`run`]. What could not be written goes to the [`Spool`], and the next hook that nobody waits for takes it in.
[`HookMetrics`] records the duration and the work of each run, and [`HookRunReport`] sums them up.
*/

mod background;
mod bundle_recorder;
mod compact;
mod context;
mod event;
mod event_log;
pub mod event_support;
mod forget;
#[cfg(windows)]
mod handles;
mod input;
mod log;
mod metrics;
pub mod mod_state;
mod patch_keep;
mod placeholder;
mod project_watch;
mod prompt;
mod recall;
mod recall_history;
mod reply;
mod run_report;
mod session_start;
pub mod settings;
mod spool;
mod stop;
mod told;
mod tool;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

pub use background::{detach_and_renice, queue_damage_notice, start_reimport, start_upkeep};
pub use context::{HookContext, HookError};
pub use event::Event;
pub use event_log::{EventLog, LoggedEvent, LoggedEvents, SessionLog};
pub use event_support::supported_events;
pub use forget::{RemovedTraces, remove_traces};
pub use input::HookInput;
pub use log::Log;
pub use metrics::{HookMeasurement, HookMetrics};
pub use project_watch::{look_at_project, queue_move_notice};
pub use recall::RECALL_TIMEOUT;
pub use recall_history::AlreadyRecalled;
pub use reply::{HookReply, Printed};
pub use run_report::{HookRunReport, HookRunStats};
pub use spool::{PendingWrite, Spool};

use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_config::{LeftOut, SettingSource};
use told::Told;

/// Lock wait of hooks whose data would be lost otherwise.
const WRITE_LOCK_POLICY: LockPolicy = LockPolicy::Background;

/// Maximum size of the input, in bytes: no prompt is that long.
pub const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Handles an event of a session that is left out: nothing is read, written or said. Only that a project has switched the archive off
/// is said once, since its user may not know.
pub fn left_out(event: Event, context: &HookContext, reason: &LeftOut) -> Printed {
    match reason {
        LeftOut::Disabled(SettingSource::Project(file)) if event == Event::SessionStart => {
            let is_told = Told::in_dir(&context.data).is_first(&file.to_string_lossy());
            let text = "ctxbridge: this project's .ctxbridge/config.toml has `archive.enabled = false`, so nothing of it is archived. (Told once.)";
            if is_told { HookReply::notice(text).print(event) } else { Printed::default() }
        }
        LeftOut::Disabled(_) | LeftOut::Excluded | LeftOut::Forgotten => Printed::default(),
    }
}

/// Handles an event. Never fails and never panics.
pub fn run(event: Event, context: &HookContext) -> Printed {
    let begun = Instant::now();
    let work = || match event {
        Event::SessionStart => session_start::run(context),
        Event::UserPromptSubmit => prompt::run(context),
        Event::PreCompact => compact::before(context),
        Event::PostCompact => compact::after(context),
        Event::Stop => stop::answer(context),
        Event::SubagentStop => stop::agent(context),
        Event::SessionEnd => stop::session(context),
        Event::PreToolUse => tool::before(context),
        Event::PostToolUse => tool::after(context),
    };
    let result = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => {
            context.measured().error = Some(error.to_string());
            Err(context.handle_failure(event, &error))
        }
        Err(_) => {
            let bug = format!("a bug in ctxbridge {}; please report it", env!("CARGO_PKG_VERSION"));
            context.measured().error = Some(bug.clone());
            Err(context.log_failure(event, &bug))
        }
    };
    // Whoever measures must not be in the way: where it cannot be written, it is not known.
    HookMetrics::in_dir(&context.data)
        .add(event, context.input.session.as_deref(), (context.now_ms, begun.elapsed()), &context.measured())
        .ok();
    let mut reply = result.unwrap_or_else(|told| told.map(HookReply::notice).unwrap_or_default());
    // What pre-compact says goes to the model.
    if event != Event::PreCompact
        && let Some(notices) = context.log().take_notices()
    {
        reply.tell(&notices);
    }
    reply.print(event)
}
