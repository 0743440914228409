//! What an edit looks like in files of several habits.

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::edit::{install, uninstall};
use ctxbridge::hook::settings::wiring::{Hook, HookForm, hooks};
use insta::assert_snapshot;

use crate::hooks_settings::{all, some};

/// One hook wired, as text; and that taking it out gives the text back.
fn wired(text: &str) -> String {
    let only = some("/bin/ctxbridge", |event| event == Event::Stop);
    let new = install(text.as_bytes(), &only).unwrap();
    assert_eq!(String::from_utf8(uninstall(&new).unwrap()).unwrap(), text);
    String::from_utf8(new).unwrap()
}

#[test]
fn a_new_file_is_as_the_client_writes_it() {
    let new = install(b"", &all("/usr/local/bin/ctxbridge")).unwrap();
    let text = String::from_utf8(new).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(text, serde_json::to_string_pretty(&value).unwrap() + "\n");
    assert_snapshot!(text.lines().take(13).collect::<Vec<_>>().join("\n"), @r#"
    {
      "hooks": {
        "SessionStart": [
          {
            "hooks": [
              {
                "type": "command",
                "command": "/usr/local/bin/ctxbridge hook session-start",
                "timeout": 10
              }
            ]
          }
        ],
    "#);
}

#[test]
fn new_text_follows_the_text_around_it() {
    assert_snapshot!(wired("{\n    \"model\": \"opus\"\n}"), @r#"
    {
        "model": "opus",
        "hooks": {
            "Stop": [
                {
                    "hooks": [
                        {
                            "type": "command",
                            "command": "/bin/ctxbridge hook stop",
                            "timeout": 15
                        }
                    ]
                }
            ]
        }
    }
    "#);
    assert_snapshot!(wired("{\"model\":\"opus\",\"env\":{}}"), @r#"{"model":"opus","env":{},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/bin/ctxbridge hook stop","timeout":15}]}]}}"#);
    assert_snapshot!(wired("{ \"model\": \"opus\" }"), @r#"{ "model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/bin/ctxbridge hook stop", "timeout": 15}]}]} }"#);
    // A comma before each line, a blank line, one-line objects among lines.
    assert_snapshot!(wired("{ \"a\": 1\n, \"b\": 2\n\n}"), @r#"
    { "a": 1
    , "b": 2
    , "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/bin/ctxbridge hook stop", "timeout": 15}]}]}

    }
    "#);
    assert_snapshot!(wired("{\n\t\"hooks\": {\n\n\t\t\"Stop\": [ {\"hooks\": []} ]\n\n\t},\n\t\"x\": {\"y\": 1}\n}"), @r#"
    {
    	"hooks": {

    		"Stop": [ {"hooks": []}, {"hooks": [{"type": "command", "command": "/bin/ctxbridge hook stop", "timeout": 15}]} ]

    	},
    	"x": {"y": 1}
    }
    "#);
}

#[test]
fn line_ends_and_the_byte_order_mark_stay() {
    let text = wired("\u{feff}{\r\n  \"a\": 1\r\n}\r\n");
    assert!(text.starts_with("\u{feff}{\r\n  \"a\": 1,\r\n  \"hooks\": {\r\n    \"Stop\": ["), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
}

/// With no record of what it was, an empty list or object that ours came into goes with them.
#[test]
fn empty_lists_are_filled() {
    let only = some("/bin/ctxbridge", |event| event == Event::Stop);
    let new = install(b"{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n", &only).unwrap();
    assert_snapshot!(std::str::from_utf8(&new).unwrap(), @r#"
    {
      "hooks": {
        "Stop": [
          {
            "hooks": [
              {
                "type": "command",
                "command": "/bin/ctxbridge hook stop",
                "timeout": 15
              }
            ]
          }
        ]
      }
    }
    "#);
    assert_eq!(uninstall(&new).unwrap(), b"{}\n");
}

const OLD: &str = r#"{
  "hooks": {
    "Notification": [{"hooks": [{"type": "command", "command": "ctxbridge hook stop"}]}],
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}, {"type": "command", "command": "/old/ctxbridge hook pre-tool-use"}]}
    ],
    "Stop": [
      {
        "hooks": [
          {"type": "command", "command": "say done"},
          {"command": "'/old place/ctxbridge' hook stop --slowly", "timeout": 3, "type": "command", "statusMessage": "…"}
        ]
      },
      {"hooks": [{"type": "command", "command": "/older/ctxbridge hook stop"}]}
    ],
    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "ctxbridge hook user-prompt-submit && date", "timeout": 60}]}]
  }
}
"#;

/// Ours stay where they are, with what a user put into them; doubles, lost ones and those that are no longer wired go.
#[test]
fn what_is_there_is_brought_up_to_date_in_place() {
    let wanted = some("/new/ctxbridge", |event| event == Event::Stop);
    let new = install(OLD.as_bytes(), &wanted).unwrap();
    assert_snapshot!(std::str::from_utf8(&new).unwrap(), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}
        ],
        "Stop": [
          {
            "hooks": [
              {"type": "command", "command": "say done"},
              {"command": "/new/ctxbridge hook stop --slowly", "timeout": 15, "type": "command", "statusMessage": "…"}
            ]
          }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "ctxbridge hook user-prompt-submit && date", "timeout": 60}]}]
      }
    }
    "#);
    assert_eq!(install(&new, &wanted).unwrap(), new);
}

#[test]
fn ours_are_taken_out_from_among_others() {
    let rest = uninstall(OLD.as_bytes()).unwrap();
    assert_snapshot!(std::str::from_utf8(&rest).unwrap(), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}
        ],
        "Stop": [
          {
            "hooks": [
              {"type": "command", "command": "say done"}
            ]
          }
        ],
        "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "ctxbridge hook user-prompt-submit && date", "timeout": 60}]}]
      }
    }
    "#);
}

/// A time limit that is longer than ours was set by somebody who had a reason.
#[test]
fn a_longer_time_limit_stays() {
    let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/x/ctxbridge hook stop","timeout":90}]}]}}"#;
    let wanted = some("/x/ctxbridge", |event| event == Event::Stop);
    assert_eq!(install(text.as_bytes(), &wanted).unwrap(), text.as_bytes());
}

/// The hook at the end of an answer, which is started without a shell.
fn exec(program: &str) -> Vec<Hook> {
    hooks(&[Event::Stop], program, HookForm::Exec)
}

#[test]
fn a_new_client_starts_the_program_without_a_shell() {
    let installed = install(b"{}", &exec("/opt/my tools/ctxbridge")).unwrap();
    assert_snapshot!(String::from_utf8_lossy(&installed), @r#"
    {
      "hooks": {
        "Stop": [
          {
            "hooks": [
              {
                "type": "command",
                "command": "/opt/my tools/ctxbridge",
                "args": [
                  "hook",
                  "stop"
                ],
                "timeout": 15
              }
            ]
          }
        ]
      }
    }
    "#);
    assert_eq!(install(&installed, &exec("/opt/my tools/ctxbridge")).unwrap(), installed, "once more changes nothing");
    let moved = install(&installed, &exec("/usr/bin/ctxbridge")).unwrap();
    assert!(String::from_utf8_lossy(&moved).contains(r#""command": "/usr/bin/ctxbridge""#));
    assert_eq!(uninstall(&installed).unwrap(), b"{}");
    // What only a shell finds is for a shell.
    assert!(!String::from_utf8_lossy(&install(b"{}", &exec("ctxbridge")).unwrap()).contains("args"));
}

#[test]
fn hooks_change_their_form_with_the_client() {
    let shell = some("/opt/my tools/ctxbridge", |event| event == Event::Stop);
    let exec = exec("/opt/my tools/ctxbridge");
    let (old, new) =
        (install(b"{\n  \"model\": \"opus\"\n}\n", &shell).unwrap(), install(b"{\n  \"model\": \"opus\"\n}\n", &exec).unwrap());
    let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    assert_eq!(value(&install(&old, &exec).unwrap()), value(&new));
    assert_eq!(install(&new, &shell).map(|back| value(&back)).unwrap(), value(&old));
    // What a user added for a shell stays with one; what was added to arguments stays, too.
    let more = String::from_utf8(old).unwrap().replace("hook stop", "hook stop --verbose \\\"$HOME\\\"");
    assert_eq!(install(more.as_bytes(), &exec).unwrap(), more.as_bytes());
    let more = String::from_utf8(new).unwrap().replace("\"stop\"", "\"stop\", \"--data dir\"");
    assert_eq!(install(more.as_bytes(), &exec).unwrap(), more.as_bytes());
}
