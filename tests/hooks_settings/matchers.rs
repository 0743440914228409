//! Groups with a matcher: which are ours, and which are the user's.

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::edit::{install, uninstall};
use insta::assert_snapshot;

use crate::hooks_settings::some;

fn installed(groups: &str) -> String {
    let text = format!("{{\n  \"hooks\": {{\n    \"PreToolUse\": [\n      {groups}\n    ]\n  }}\n}}\n");
    let wanted = some("/bin/ctxbridge", |event| event == Event::PreToolUse);
    let new = install(text.as_bytes(), &wanted).unwrap();
    assert_eq!(install(&new, &wanted).unwrap(), new);
    String::from_utf8(new).unwrap()
}

const OURS: &str = r#"{"type": "command", "command": "/bin/ctxbridge hook pre-tool-use --mine", "timeout": 9}"#;

/// Whether it is from another version or changed by hand: with another list something would be lost.
#[test]
fn a_matcher_is_brought_up_to_date_where_only_ours_is_behind_it() {
    assert_snapshot!(installed(&format!(r#"{{"matcher": "Task", "hooks": [{OURS}]}}"#)), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "hooks": [{"type": "command", "command": "/bin/ctxbridge hook pre-tool-use --mine", "timeout": 9}]}
        ]
      }
    }
    "#);
    // With none, ours would run for every tool.
    assert_snapshot!(installed(&format!(r#"{{"hooks": [{OURS}]}}"#)), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {
            "matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent",
            "hooks": [
              {
                "type": "command",
                "command": "/bin/ctxbridge hook pre-tool-use",
                "timeout": 5
              }
            ]
          }
        ]
      }
    }
    "#);
}

/// The group is the user's, and so is its matcher.
#[test]
fn ours_leave_a_group_of_somebody_else_with_another_matcher() {
    let guard = r#"{"type": "command", "command": "guard"}"#;
    assert_snapshot!(installed(&format!(r#"{{"matcher": "Bash", "hooks": [{guard}, {OURS}]}}"#)), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]},
          {
            "matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent",
            "hooks": [
              {
                "type": "command",
                "command": "/bin/ctxbridge hook pre-tool-use",
                "timeout": 5
              }
            ]
          }
        ]
      }
    }
    "#);
    assert_snapshot!(installed(&format!(r#"{{"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "hooks": [{guard}, {OURS}]}}"#)), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "hooks": [{"type": "command", "command": "guard"}, {"type": "command", "command": "/bin/ctxbridge hook pre-tool-use --mine", "timeout": 9}]}
        ]
      }
    }
    "#);
}

#[test]
fn what_is_taken_out_leaves_no_empty_group_but_the_user_s() {
    let gone = |groups: &str| {
        let text = format!(r#"{{"hooks": {{"PreToolUse": [{groups}]}}}}"#);
        String::from_utf8(uninstall(text.as_bytes()).unwrap()).unwrap()
    };
    assert_eq!(gone(&format!(r#"{{"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "hooks": [{OURS}]}}"#)), "{}");
    let commented =
        format!(r#"{{"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "comment": "why", "hooks": [{OURS}]}}"#);
    assert_snapshot!(gone(&commented), @r#"{"hooks": {"PreToolUse": [{"matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent", "comment": "why", "hooks": []}]}}"#);
    assert_snapshot!(gone(&format!(r#"{{"matcher": "Bash", "hooks": []}}, {{"hooks": [{OURS}]}}"#)), @r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}}"#);
    // Where we write no matcher, whoever wrote one had a reason.
    let start = r#"{"hooks": {"SessionStart": [{"matcher": "resume", "hooks": [{"type": "command", "command": "ctxbridge hook session-start"}]}]}}"#;
    assert_snapshot!(String::from_utf8(uninstall(start.as_bytes()).unwrap()).unwrap(), @r#"{"hooks": {"SessionStart": [{"matcher": "resume", "hooks": []}]}}"#);
}
