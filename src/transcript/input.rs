//! Parts of a tool call's input that are read.

use std::borrow::Cow;

use serde::Deserialize;

use super::lenient::{Lenient, lenient_object};

/// The parts of a tool's input that tell its subject.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case", default)]
pub(super) struct ToolInput<'a> {
    #[serde(borrow)]
    file_path: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    notebook_path: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    pub todos: Lenient<Vec<Todo<'a>>>,
    #[serde(borrow)]
    pub subject: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    pub status: Lenient<Cow<'a, str>>,
    #[serde(borrow, rename = "taskId")]
    pub task_id: Lenient<Cow<'a, str>>,
}

/// An entry of a to-do list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Todo<'a> {
    #[serde(borrow)]
    pub content: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    pub status: Lenient<Cow<'a, str>>,
}

lenient_object!(ToolInput<'a>, Todo<'a>);

impl ToolInput<'_> {
    /// The file that the tool reads or writes.
    pub fn file(&self) -> Option<&str> {
        self.file_path.0.as_deref().or(self.notebook_path.0.as_deref()).filter(|file| !file.is_empty())
    }
}

/// Reads an input; one that is no object has no parts.
pub(super) fn read(json: &str) -> ToolInput<'_> {
    serde_json::from_str::<Lenient<ToolInput<'_>>>(json).ok().and_then(|input| input.0).unwrap_or_default()
}
