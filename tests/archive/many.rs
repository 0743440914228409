//! Many short sessions in one import, which writes them many at a time.

use ctxbridge_testkit::sandbox::{Sandbox, Talk, finish, run, start};

use super::lines::Lines;

/// More than are written together.
const SESSIONS: u32 = 300;

fn talks(sandbox: &Sandbox) -> Vec<Talk> {
    let talk = |number: u32| sandbox.talk(number, Lines::of("s").seed(number.into()).turn(&format!("What is {number} times 7?")));
    (1..=SESSIONS).map(talk).collect()
}

fn turns(sandbox: &Sandbox) -> u64 {
    sandbox.json(&["archive", "status"])["turns"].as_u64().unwrap()
}

#[test]
fn each_is_archived_as_it_is() {
    let sandbox = Sandbox::new();
    let talks = talks(&sandbox);
    // Among them one that is too long for that, an empty one, and one that is no transcript.
    let long = sandbox.talk(1_001, Lines::of("s").seed(1_001).turn(&"a long story ".repeat(100_000)));
    let empty = sandbox.talk(1_002, "");
    std::fs::create_dir(sandbox.talk(1_003, "").path.with_file_name("folder.jsonl")).unwrap();
    let imported = sandbox.json(&["archive", "import"]);
    assert_eq!((&imported["turns"], &imported["failed"]), (&(SESSIONS + 1).into(), &serde_json::json!([])), "{imported}");
    for talk in [&talks[0], &talks[127], &talks[128], &talks[299], &long] {
        sandbox.assert_archived(talk);
    }
    assert_eq!(turns(&sandbox), u64::from(SESSIONS) + 1);
    sandbox.assert_sound();

    // What is new is all that is read again; the turn before it was open, and counts as grown.
    talks[7].append(Lines::of("s").seed(5_007).turn("And times 8?"));
    talks[8].write(Lines::of("s").seed(5_008).turn("Another past."));
    empty.write(Lines::of("s").seed(1_002).turn("Not empty any more."));
    let imported = sandbox.json(&["archive", "import"]);
    assert_eq!((&imported["turns"], &imported["rewritten"]), (&4.into(), &1.into()), "{imported}");
    for talk in [&talks[7], &talks[8], &empty] {
        sandbox.assert_archived(talk);
    }
    assert_eq!(sandbox.json(&["archive", "import"])["bytes"], 0);
    sandbox.assert_sound();
}

#[test]
fn imports_at_the_same_time_archive_each_once() {
    let sandbox = Sandbox::new();
    let talks = talks(&sandbox);
    let running: Vec<_> = (0..3).map(|_| start(sandbox.command(&["archive", "import"]), b"")).collect();
    for import in running {
        finish(import).done();
    }
    assert_eq!(turns(&sandbox), u64::from(SESSIONS));
    for talk in talks.iter().step_by(60) {
        sandbox.assert_archived(talk);
    }
    sandbox.assert_sound();
}

/// Whoever searches for the first time after an import waits, and is told for what.
#[test]
fn the_first_search_says_that_it_indexes() {
    let sandbox = Sandbox::new();
    sandbox.talk(1, Lines::of("s").turns(1_200));
    sandbox.cli(&["archive", "import"]);
    let search = || run(sandbox.command(&["archive", "search", "--mode", "lexical", "Question", "1100"]), b"").done();
    let first = search();
    let told = first.stderr.lines().filter(|line| line.starts_with("Indexing 1200 entries first")).count();
    assert!(told == 1 && !first.stdout.contains("Indexing"), "{first:?}");
    let second = search();
    assert_eq!((second.stdout, second.stderr.contains("Indexing")), (first.stdout, false));
}
