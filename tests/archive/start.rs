//! What a session that starts is told of its project, and what an import starts.

use ctxbridge_testkit::sandbox::{Sandbox, run, session_id, wait_until};
use serde_json::{Value, json};

use super::lines::Lines;

/// What a new session of a sandbox is told.
fn told(sandbox: &Sandbox, input: &Value, is_on: bool) -> Option<String> {
    let mut command = sandbox.hook_command("session-start");
    command.env("CTXBRIDGE_RECALL_START", is_on.to_string());
    run(command, input.to_string().as_bytes()).calm().context()
}

#[test]
fn a_new_session_is_told_of_its_project() {
    let sandbox = Sandbox::new();
    let start = json!({ "source": "startup" });
    let first = sandbox.talk(1, "");
    assert_eq!(told(&sandbox, &first.input_with(start.clone()), true), None, "nothing is archived, and nothing is made for it");
    assert!(!sandbox.database().exists());
    for number in 1..=5 {
        let mut lines = Lines::of(&session_id(number)).seed(u64::from(number));
        let text = lines.prompt(&format!("Build part {number} of the ```tide``` table")) + &lines.answer("It is there.");
        let talk = sandbox.talk(number, text);
        sandbox.hook("stop", &talk.input());
    }
    let new = sandbox.talk(9, "");
    let input = new.input_with(start);
    assert_eq!(told(&sandbox, &input, false), None);
    let told_now = told(&sandbox, &input, true).unwrap();
    assert!(told_now.chars().count() <= 600, "{told_now}");
    assert_eq!(told_now.matches("\n- ").count(), 3, "{told_now}");
    assert_eq!(told_now.matches("```").count(), 2, "what is quoted ends no fence: {told_now}");
    assert!(told_now.contains("Build part 5") && !told_now.contains("Build part 2"), "{told_now}");
    // The rest of the archive has nothing to do with it.
    let mut elsewhere = input.clone();
    elsewhere["cwd"] = json!("/somewhere/else");
    assert_eq!(told(&sandbox, &elsewhere, true), None);
    for source in ["resume", "clear"] {
        assert_eq!(told(&sandbox, &new.input_with(json!({ "source": source })), true), None, "{source}");
    }
}

#[test]
fn an_import_has_the_index_made_in_the_background() {
    let sandbox = Sandbox::new();
    sandbox.talk(1, Lines::of(&session_id(1)).turns(3));
    let import = || {
        let mut command = sandbox.command(&["archive", "import"]);
        command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "true");
        run(command, b"").stderr
    };
    assert!(import().contains("in the background"));
    wait_until("there is an index", || sandbox.data().join("search.db").exists());
    assert!(!import().contains("in the background"), "nothing was new");
}
