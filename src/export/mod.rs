/*!
A conversation of the archive for people and programs outside: as one page of HTML, as Markdown, as JSON.

[`which`] says what is meant (a session, or a session as it was), [`conversation`] reads it into a model that has everything that is
shown, and the writers turn that into text: [`html`], [`markdown`], [`json`]. [`diff`](mod@diff) compares two of them. Nothing is written to the archive.

A transcript may hold anything. So every text goes out through one of two doors: a writer that escapes (HTML, JSON), or a fence that is
longer than any inside (Markdown); and what a reader could not see is made visible first ([`visible`]).
*/

mod code;
pub mod conversation;
pub mod diff;
pub mod html;
pub mod json;
pub mod markdown;
mod prose;
mod redact;
mod tool;
pub mod visible;
pub mod which;

use std::io::{self, Write};

use conversation::Conversation;

use ctxbridge_archive::entry::stamp;

/// What a conversation is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
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
/// When the sink cannot be written.
pub fn write(conversation: &Conversation, format: Format, sink: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Markdown => markdown::write(conversation, sink),
        Format::Json => json::write(conversation, sink),
        Format::Html => html::write(conversation, sink),
    }
}

/// A time for people: UTC, since whoever reads it may be anywhere.
fn clock(ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0)?;
    Some(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
