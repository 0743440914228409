//! No database can be opened: hooks and commands go on in JSON Lines.

use ctxbridge_testkit::sandbox::{Sandbox, run};
use serde_json::{Value, json};

use super::lines::Lines;
use super::obstacle::{assert_lines_sound, block, lines_folder};

#[test]
fn hooks_and_commands_go_on_without_a_database() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(2));
    sandbox.quiet_hook("stop", &talk.input());
    talk.append(lines.turn("What came later"));
    sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(sandbox.log().len(), 1, "once a session: {:?}", sandbox.log());
    let error = sandbox.log()[0]["error"].as_str().unwrap().to_owned();
    let (database, folder) = (sandbox.database(), lines_folder(&sandbox));
    for said in [database.to_str().unwrap(), folder.to_str().unwrap(), "`ctxbridge archive optimize`"] {
        assert!(error.contains(said), "{said} is not in {error}");
    }
    let other = sandbox.talk(2, Lines::of("t").seed(3).turns(2));
    sandbox.quiet_hook("stop", &other.input());
    assert_eq!(sandbox.log().len(), 2, "and once for another");

    assert!(sandbox.restored(&talk.id, &[]) == talk.bytes());
    let status = run(sandbox.command(&["archive", "status", "--json"]), b"").done();
    assert_eq!((&status.json()["store"], &status.json()["turns"]), (&json!("jsonl"), &json!(5)));
    assert!(status.stderr.contains("JSON Lines"), "{}", status.stderr);
    let compacted = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" })));
    assert!(compacted.context().unwrap().contains("What came later"));
    let optimized = run(sandbox.command(&["archive", "optimize", "--json"]), b"").done();
    assert_eq!((&optimized.json()["damaged"], &optimized.json()["merged"]), (&Value::Null, &Value::Null));
    let doctor = run(sandbox.command(&["doctor", "--json"]), b"").json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = |id: &str| checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {checks:?}"));
    assert_eq!(check("archive")["status"], "ok");
    assert_eq!(check("jsonl")["status"], "warning");
    assert_lines_sound(&sandbox);
}

/// Readers begin no archive elsewhere: they say what is wrong.
#[test]
fn who_reads_makes_no_folder() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    for command in [["archive", "status"], ["archive", "sessions"]] {
        let ran = run(sandbox.command(&command), b"");
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(sandbox.database().to_str().unwrap()), "{}", ran.stderr);
    }
    assert!(!lines_folder(&sandbox).exists());
}

/// A folder in place of the file is damage, which is moved aside: there is a database again.
#[test]
fn a_folder_in_place_of_the_database_is_moved_aside() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.database().join("in-the-way")).unwrap();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    sandbox.hook("stop", &talk.input());
    assert!(!lines_folder(&sandbox).exists());
    assert_eq!(sandbox.aside().len(), 1);
    sandbox.assert_archived(&talk);
}

#[test]
fn an_import_goes_there_as_well() {
    let sandbox = Sandbox::new();
    block(&sandbox);
    let talk = sandbox.talk(1, Lines::of("s").turns(4));
    let imported = run(sandbox.command(&["archive", "import", "--json"]), b"").done();
    assert_eq!(imported.json()["turns"], 4);
    assert!(imported.stderr.contains("JSON Lines"), "{}", imported.stderr);
    assert!(sandbox.restored(&talk.id, &[]) == talk.bytes());
}
