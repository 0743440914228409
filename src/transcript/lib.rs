/*!
Claude Code's transcripts: JSON lines of which new kinds come with every release.

[`Record`] reads a line, [`Interpreter`] finds the lines in bytes that come in pieces, makes turns of them, and never
stops at one that is damaged. Nothing here opens a file.
*/

pub mod blank;
mod branches;
mod content;
mod input;
mod interpret;
pub mod lenient;
mod lines;
mod record;
mod repair;
mod repeated;
mod searchable_text;
mod side_files;
pub mod summary;
mod todo_list;
mod turn_digest;
mod turns;

pub use branches::{History, NoHistory, PathChange, TurnSpan, WholeFile};
pub use content::{PIN_TAG, answers_of, asks_to_pin, is_typed, text_of};
pub use content::{as_typed, records};
pub use interpret::{InterpretedLines, Interpreter, MAX_LINE_BYTES, SessionMetadata, SessionTitle};
pub use lines::{LineCondition, read_line};
pub use record::{CompactionDetails, Content, Link, MessageBlock, Record, RecordKind, TitleRank};
pub use repair::replace_lone_surrogates;
pub use repeated::RepeatedRows;
pub use searchable_text::SearchableText;
pub use side_files::{SideTexts, side_files_of};
pub use turn_digest::TurnDigest;
pub use turns::{CompactSummary, FirstContext, Turn, records_from, turn_id};
