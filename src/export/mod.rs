/*!
Export of an archived conversation for people and other programs: as one page of HTML, as Markdown, or as JSON.

[`session_ref`] parses the reference to a session or an earlier state of it. [`conversation`] reads it into a model with all content
to show. The writers [`html`], [`markdown`] and [`json`] turn that into text. [`diff`](mod@diff) compares two conversations. Nothing
is written to the archive.

A transcript may hold anything. So every text is either escaped (HTML, JSON), or put in a fence that is longer than any inside
(Markdown). Invisible characters are made visible first ([`visible`]).
*/

mod code;
pub mod conversation;
pub mod diff;
mod escape;
pub mod html;
pub mod json;
pub mod markdown;
mod prose;
mod redact;
pub mod session_ref;
pub mod tool;
pub mod turns;
pub mod visible;

use std::io::{self, Write};

use conversation::ExportedConversation;

use ctxbridge_archive::entry::format_timestamp;

/// Output format of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// For a code host, or any other reader of Markdown
    Markdown,
    /// For programs; docs/export.md has the schema
    Json,
    /// One page with all that it needs
    Html,
}

/// Writes a conversation.
///
/// # Errors
/// If the sink cannot be written.
pub fn write(conversation: &ExportedConversation, format: ExportFormat, sink: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::Markdown => markdown::write(conversation, sink),
        ExportFormat::Json => json::write(conversation, sink),
        ExportFormat::Html => html::write(conversation, sink),
    }
}

/// Formats a time for people, in UTC, since readers may be anywhere.
fn clock(ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0)?;
    Some(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
