/*!
A list of sessions in the terminal: type to filter it, look at the preview, pick a session or a turn.

`picker` is the state, and knows no terminal, thread or clock: keys and replies go in, requests and an outcome come out, and
`view` draws it. [`run`] is the loop around it. All that takes longer than a key may is done by `workers`, in two threads: one lists
sessions and reads previews, the other searches. They ask a [`SessionSource`] and a [`TurnSearch`], which the caller has.

What sources return is foreign text. Control characters are taken out where it comes in (`text::clean`), so none reaches the
terminal.
*/

mod event_loop;
mod filter;
mod keys;
mod listing;
mod messages;
mod picker;
mod query_line;
mod resume;
mod screen;

mod source;
#[cfg(test)]
mod tests;
pub mod text;
mod view;
mod workers;

pub use event_loop::{PickerError, run};
pub use messages::{Decision, Outcome, PickerOptions};
pub use source::{PickableSession, SearchOutcome, Selection, SessionSource, SessionSourceError, TurnHit, TurnSearch};
