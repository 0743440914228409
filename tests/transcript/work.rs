//! What is still to be done.

use serde_json::{Value, json};

use super::lines::{calls, says, user};
use super::turns;

fn open(lines: &[Value]) -> Vec<String> {
    turns(lines).pop().unwrap().open_work
}

fn todos(number: u32, todos: &[(&str, &str)]) -> Value {
    let todos: Vec<_> =
        todos.iter().map(|(content, status)| json!({ "content": content, "status": status, "activeForm": "x" })).collect();
    calls(number, "TodoWrite", json!({ "todos": todos }))
}

#[test]
fn a_list_that_is_written_as_a_whole() {
    let first = todos(2, &[("Read", "in_progress"), ("Write", "pending"), ("Rest", "completed")]);
    assert_eq!(open(&[user(1, "Go."), first.clone()]), ["Read", "Write"]);
    assert_eq!(open(&[user(1, "Go."), first.clone(), todos(3, &[("Read", "completed"), ("Write", "pending")])]), ["Write"]);
    // It is still open when a later turn does not speak of it.
    assert_eq!(open(&[user(1, "Go."), first.clone(), user(3, "What time is it?"), says(4, "Late.")]), ["Read", "Write"]);
    assert!(open(&[user(1, "Go."), first, todos(3, &[])]).is_empty());
}

#[test]
fn a_list_of_tasks_by_number() {
    let create = |number, subject: &str| calls(number, "TaskCreate", json!({ "subject": subject, "description": "x" }));
    let update = |number, task: &str, status: &str| calls(number, "TaskUpdate", json!({ "taskId": task, "status": status }));
    let mut lines = vec![user(1, "Go."), create(2, "One"), create(3, "Two"), create(4, "Three"), update(5, "1", "in_progress")];
    assert_eq!(open(&lines), ["One", "Two", "Three"]);
    lines.extend([update(6, "1", "completed"), update(7, "3", "deleted")]);
    assert_eq!(open(&lines), ["Two"]);
    lines.extend([create(8, "Four"), update(9, "4", "completed"), update(10, "99", "completed"), update(11, "0", "completed")]);
    assert_eq!(open(&lines), ["Two"]);
    lines.push(update(12, "two", "completed"));
    assert_eq!(open(&lines), ["Two"]);
}

#[test]
fn turns_keep_what_was_open_when_they_ended() {
    let lines = [user(1, "Go."), todos(2, &[("A", "pending")]), user(3, "On."), todos(4, &[("A", "completed")])];
    let open: Vec<_> = turns(&lines).into_iter().map(|turn| turn.open_work).collect();
    assert_eq!(open, [vec!["A".to_owned()], vec![]]);
}
