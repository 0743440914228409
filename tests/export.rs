//! Conversations of the archive as a page, as Markdown and as JSON, and what two of them have in common: commands of the real binary, and
//! the writers on conversations that are made up.

mod comparing;
mod files;
mod formats;
mod hostile;
use crate::archive::lines;
mod page;
mod schema;
mod states;
mod story;
