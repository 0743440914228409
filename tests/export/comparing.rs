//! Two conversations, turn by turn.

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};
use ctxbridge_testkit::transcript::Kind;

use super::lines::Lines;

fn diff(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    run(sandbox.command(&[&["archive", "diff"], arguments].concat()), b"")
}

/// The same session twice, but for one answer and one turn.
fn pair(sandbox: &Sandbox) -> (String, String) {
    let text = |other: bool| {
        let mut lines = Lines::of("s");
        let mut text = lines.turn("one") + &lines.turn("two");
        text += &lines.prompt("three");
        text += &lines.answer(if other { "Yes.\nQuite so." } else { "No.\nQuite so." });
        text += &lines.turn("four");
        if other {
            text += &lines.turn("five");
        }
        text
    };
    let (a, b) = (sandbox.talk(1, text(false)), sandbox.talk(2, text(true)));
    sandbox.cli(&["archive", "import"]);
    (a.id, b.id)
}

#[test]
fn what_changed_is_shown() {
    let sandbox = Sandbox::new();
    let (a, b) = pair(&sandbox);
    let ran = diff(&sandbox, &[&a, &b]).with_code(1);
    insta::assert_snapshot!(ran.stdout, @r"
    --- 5e551040-0000-4000-8000-000000000001, 4 turns
    +++ 5e551040-0000-4000-8000-000000000002, 5 turns
      turns 0–1: the same
    ~ turn 2 → 2 ctx:1715609f three
        @@ -1,4 +1,4 @@
         Prompt: three
         Answer:
        -  No.
        +  Yes.
           Quite so.
      turn 3: the same
    + turn 4 ctx:8ff34785 five
    3 turns the same, 1 changed, 0 only in A, 1 only in B
    ");
    assert_eq!(ran.stderr, "");
}

#[test]
fn equal_ones_are_equal() {
    let sandbox = Sandbox::new();
    let (a, _) = pair(&sandbox);
    let ran = diff(&sandbox, &[&a, &a]).with_code(0);
    insta::assert_snapshot!(ran.stdout.replace(&a, "ID"), @r"
    --- ID, 4 turns
    +++ ID, 4 turns
      turns 0–3: the same
    4 turns the same, 0 changed, 0 only in A, 0 only in B
    ");
    let value = diff(&sandbox, &[&a, &a, "--json"]).with_code(0).json();
    assert_eq!(value["is_equal"], true);
}

#[test]
fn numbers_alone_and_json() {
    let sandbox = Sandbox::new();
    let (a, b) = pair(&sandbox);
    assert_eq!(
        diff(&sandbox, &[&a, &b, "--stat"]).with_code(1).stdout,
        "3 turns the same, 1 changed, 0 only in A, 1 only in B\n"
    );
    let value = diff(&sandbox, &[&b, &a, "--json"]).with_code(1).json();
    assert_eq!((&value["changed"], &value["only_a"], &value["only_b"]), (&1.into(), &1.into(), &0.into()));
    let states: Vec<_> = value["turns"].as_array().unwrap().iter().map(|turn| turn["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["same", "same", "changed", "same", "only_a"]);
    assert!(value["turns"][2]["diff"].as_str().unwrap().contains("+  No.\n"));
}

#[test]
fn one_that_is_not_there_is_no_difference() {
    let sandbox = Sandbox::new();
    let (a, _) = pair(&sandbox);
    assert!(diff(&sandbox, &[&a, "0000"]).with_code(3).stderr.contains("no session begins with 0000"));
    assert!(diff(&sandbox, &[&a, &format!("{a}@1")]).with_code(3).stderr.contains("it has none"));
    diff(&sandbox, &[&a, &format!("{a}@never")]).with_code(2);
}

#[test]
fn generated_sessions() {
    let sandbox = Sandbox::new();
    let resumed = sandbox.generate(Kind::Resumed, 300, 3);
    let compacted = sandbox.generate(Kind::Compacted, 900, 4);
    sandbox.cli(&["archive", "import"]);
    let (first, second) = (&resumed[0], &resumed[1]);
    let value = diff(&sandbox, &[&first.id, &second.id, "--json"]).json();
    assert_eq!(value["same"], second.copied_turns, "what was copied is the same");
    assert_eq!(value["only_b"].as_u64().unwrap(), second.human_turns - second.copied_turns);
    let id = &compacted[0].id;
    let value = diff(&sandbox, &[&format!("{id}@1"), id, "--json"]).with_code(1).json();
    assert_eq!(value["only_a"], 0, "what was there before a compaction still is");
    assert!(value["same"].as_u64().unwrap() > 0 && value["only_b"].as_u64().unwrap() > 0, "{value}");
}
