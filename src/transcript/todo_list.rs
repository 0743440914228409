//! The model's to-do list.

use serde::{Deserialize, Serialize};

use super::input::ToolInput;

/// The list, as the model's tools for it left it: older clients write the whole list at once, newer ones add and change tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TodoList {
    todos: Vec<String>,
    /// Tasks by number, from 1 in order of creation; done or deleted ones are empty.
    tasks: Vec<String>,
    /// `true` if a tool for it was ever used.
    is_used: bool,
}

impl TodoList {
    /// Applies a tool call to the list.
    pub fn note(&mut self, tool: &str, input: &ToolInput<'_>) {
        self.is_used |= matches!(tool, "TodoWrite" | "TaskCreate" | "TaskUpdate");
        match tool {
            "TodoWrite" => {
                let todos = input.todos.0.as_deref().unwrap_or_default().iter();
                let open = todos.filter(|todo| todo.status.0.as_deref() != Some("completed"));
                self.todos = open.filter_map(|todo| todo.content.0.as_deref().map(str::to_owned)).collect();
            }
            "TaskCreate" => self.tasks.push(input.subject.0.as_deref().unwrap_or_default().to_owned()),
            "TaskUpdate" => {
                let number = input.task_id.0.as_ref().and_then(|id| id.parse::<usize>().ok());
                let task = number.and_then(|number| self.tasks.get_mut(number.checked_sub(1)?));
                if let (Some(task), Some("completed" | "deleted")) = (task, input.status.0.as_deref()) {
                    task.clear();
                }
            }
            _ => {}
        }
    }

    /// `true` if a tool for it was ever used.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns the entries that are not done.
    pub fn open(&self) -> Vec<String> {
        self.todos.iter().chain(&self.tasks).filter(|entry| !entry.is_empty()).cloned().collect()
    }
}
