//! Decision whether a compaction is blocked.

use super::report::percent_text;
use super::{Observation, WindowState};
use ctxbridge_config::{Gate, HookSettings};

/// Share of the window above which nothing is blocked: the next request might not fit.
pub const MAX_BLOCKED_SHARE: f64 = 0.95;

/// Distance to the end of the window, in tokens, within which the client refuses a prompt if its automatic compaction was blocked:
/// "Prompt is too long", without asking the API. It reserves 20,000 for the answer and 3,000 more.
///
/// The window is the one that it compacts by (`CLAUDE_CODE_AUTO_COMPACT_WINDOW` if set, up to 2.1.112 at least), else the model's.
/// Seen in 2.1.105, 2.1.112 and 2.1.330: at 178,500 of 200,000, which is 89 %, a single block costs the user the prompt.
pub const CLIENT_RESERVE_TOKENS: u64 = 23_000;

/// Minimum growth of a turn that the gate assumes, in tokens: the prompt that is being sent is not counted yet.
const MIN_GROWTH_TOKENS: u64 = 2_000;

/// Trigger of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The client, because the window is full.
    Auto,
    /// The user.
    Manual,
}

/// Decision on a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It goes ahead.
    Allow,
    /// It does not.
    Block {
        /// Reason, for the user.
        reason: String,
    },
}

impl Trigger {
    /// Parses the client's word for it. Returns `None` for an unknown one, which must not be blocked.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "manual" => Some(Self::Manual),
            _ => None,
        }
    }
}

/// Decides about a compaction. It is blocked only if it is automatic, if enough room is known to be left, and if there was an
/// answer since the last block: no session is ever stuck.
///
/// Enough room is more than [`CLIENT_RESERVE_TOKENS`] plus the growth of a turn, with the context below [`MAX_BLOCKED_SHARE`].
///
/// The caller stores the state with the block ([`WindowState::record_block`]) before it blocks. If that cannot be stored, it lets
/// the compaction happen.
pub fn gate(config: &HookSettings, trigger: Trigger, seen: Option<&Observation>, state: &WindowState) -> GateDecision {
    let wanted = config.gate == Gate::BlockAuto && trigger == Trigger::Auto && state.blocked_at.is_none();
    match seen.filter(|seen| wanted && leaves_room(seen)) {
        None => GateDecision::Allow,
        Some(seen) => GateDecision::Block {
            reason: format!(
                "ctxbridge held back an automatic compaction at {} of the window (hooks.gate is block-auto); \
                 /compact compacts",
                percent_text(seen.share)
            ),
        },
    }
}

fn leaves_room(seen: &Observation) -> bool {
    let growth = seen.trend.map_or(0, |trend| trend.tokens_per_turn.max(0.0) as u64).max(MIN_GROWTH_TOKENS);
    let room = seen.window.saturating_sub(seen.tokens);
    seen.share < MAX_BLOCKED_SHARE && room > CLIENT_RESERVE_TOKENS + growth
}
