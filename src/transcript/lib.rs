/*!
Claude Code's transcripts: JSON lines of which new kinds come with every release.

[`Record`] reads a line, [`Splitter`] makes turns of lines, [`Interpreter`] finds the lines in bytes that come in pieces and never
stops at one that is damaged. Nothing here opens a file.
*/

mod content;
mod fields;
mod input;
mod interpret;
pub mod lenient;
mod record;
mod repair;
pub mod summary;
mod told;
mod turns;
mod work;

pub use content::{KEEP, answers_of, asks_to_keep, is_typed, text_of};
pub use content::{as_typed, records};
pub use fields::Fields;
pub use interpret::{Interpreter, MAX_LINE_BYTES, Seen};
pub use record::{Block, Compacted, Content, Kind, Record};
pub use repair::whole_characters;
pub use told::Told;
pub use turns::{CompactSummary, FirstContext, Splitter, Turn};
