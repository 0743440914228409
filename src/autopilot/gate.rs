//! Whether a compaction is blocked.

use super::report::percent_text;
use super::{Observation, State};
use ctxbridge_config::{Gate, Hooks};

/// Above this share of the window nothing is blocked: the next request might not fit any more.
pub const HIGHEST_BLOCKED: f64 = 0.95;

/// How close to the end of the window, in tokens, the client refuses a prompt when its automatic compaction was blocked: "Prompt is
/// too long", without asking the API. It keeps 20,000 for the answer and 3,000 more. The window is the one that it compacts by
/// (`CLAUDE_CODE_AUTO_COMPACT_WINDOW` where that is set, up to 2.1.112 at least), else the model's. Seen in 2.1.105, 2.1.112 and
/// 2.1.330: at 178,500 of 200,000, which is 89 %, a single block costs the user the prompt.
pub const REFUSES_WITHIN_TOKENS: u64 = 23_000;

/// What a turn adds at least, in tokens, as far as the gate is concerned: the prompt that is being sent is not counted yet.
const LEAST_GROWTH: u64 = 2_000;

/// Who wants to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The client, since the window is full.
    Auto,
    /// The user.
    Manual,
}

/// What becomes of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It goes ahead.
    Allow,
    /// It does not.
    Block {
        /// Why, for the user.
        reason: String,
    },
}

impl Trigger {
    /// The client's word for it; nothing for one that is not known, which is not to be blocked.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "manual" => Some(Self::Manual),
            _ => None,
        }
    }
}

/// Decides about a compaction. Blocked is only what is automatic, known to leave room enough, and not the second one without an answer
/// in between: no session is ever stuck.
///
/// Room enough is more than [`REFUSES_WITHIN_TOKENS`] and what a turn adds, and the context is below [`HIGHEST_BLOCKED`].
///
/// Whoever blocks stores [`State::blocked`] first, and lets the compaction happen when that cannot be stored.
pub fn gate(config: &Hooks, trigger: Trigger, seen: Option<&Observation>, state: &State) -> Decision {
    let wanted = config.gate == Gate::BlockAuto && trigger == Trigger::Auto && state.blocked_at.is_none();
    match seen.filter(|seen| wanted && leaves_room(seen)) {
        None => Decision::Allow,
        Some(seen) => Decision::Block {
            reason: format!(
                "ctxbridge held back an automatic compaction at {} of the window (hooks.gate is block-auto); \
                 /compact compacts",
                percent_text(seen.share)
            ),
        },
    }
}

fn leaves_room(seen: &Observation) -> bool {
    let growth = seen.trend.map_or(0, |trend| trend.tokens_per_turn.max(0.0) as u64).max(LEAST_GROWTH);
    let room = seen.window.saturating_sub(seen.tokens);
    seen.share < HIGHEST_BLOCKED && room > REFUSES_WITHIN_TOKENS + growth
}
