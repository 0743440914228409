//! Conversations of the archive as a page, as Markdown and as JSON, and what two of them have in common: commands of the real binary, and
//! the writers on conversations that are made up.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "export/comparing.rs"]
mod comparing;
#[path = "export/files.rs"]
mod files;
#[path = "export/formats.rs"]
mod formats;
#[path = "export/hostile.rs"]
mod hostile;
#[path = "archive/lines.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod lines;
#[path = "export/page.rs"]
mod page;
#[path = "archive/sandbox.rs"]
#[allow(dead_code, reason = "as above")]
mod sandbox;
#[path = "export/schema.rs"]
mod schema;
#[path = "export/states.rs"]
mod states;
#[path = "export/story.rs"]
mod story;
