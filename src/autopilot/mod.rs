/*!
Usage of the context window: phases, trend and reports.

Everything takes values and returns values, except [`WindowStateStore`], which keeps one small file per session, and
[`usage_at_end`], which reads the end of a transcript. Hooks call [`WindowState::observe`] with a reading, then [`should_report`]
and [`gate()`]; the statusline shows the same from the client's own figures. The formulas are those of the compaction-bridge design.
*/

mod chart;
mod gate;
mod phase;
mod report;
mod state;
mod statusline;
mod store;
mod trend;
mod usage;
mod windows;

pub use chart::{chart, sparkline};
pub use gate::{CLIENT_RESERVE_TOKENS, GateDecision, MAX_BLOCKED_SHARE, Trigger, gate};
pub use phase::Phase;
pub use report::{percent, report, report_of, should_report, tokens_text};
pub use state::{Observation, WindowReading, WindowState};
pub use statusline::{FALLBACK, StatusLine, StatuslineInput, gather};
pub use store::WindowStateStore;
pub use trend::{Point, Trend};
pub use usage::{ContextUsage, usage_at_end};
pub use windows::{compact_window_tokens, window_of};
