/*!
How full the context window is: phases, trend, and what is said about it.

Everything takes values and returns values but for [`Store`], which keeps one small file a session, and [`usage_at_end`], which reads
the end of a transcript. Hooks call [`State::observe`] with what they know and ask [`should_say`] and [`gate`]; the statusline shows
the same from the client's own figures. The formulas are those of the compaction-bridge design.
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

pub use chart::{chart, sparkline};
pub use gate::{Decision, HIGHEST_BLOCKED, REFUSES_WITHIN_TOKENS, Trigger, gate};
pub use phase::Phase;
pub use report::{percent, report, report_of, should_say, tokens_text};
pub use state::{Observation, Point, Seen, State};
pub use statusline::{FALLBACK, Input, Line, gather};
pub use store::Store;
pub use trend::Trend;
pub use usage::{Usage, usage_at_end};
