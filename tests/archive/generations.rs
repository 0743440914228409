//! Transcripts that are rewritten: what they are now is what comes back, what they were is kept.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run, wait_until};
use serde_json::json;

use super::lines::Lines;

/// A session of so many turns of about 10 KB, archived.
fn archived(turns: usize) -> (Sandbox, Talk, Vec<String>) {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let turns: Vec<String> =
        (0..turns).map(|turn| lines.turn(&format!("Turn {turn} {}", "words and words ".repeat(250)))).collect();
    let talk = sandbox.talk(1, turns.concat());
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    (sandbox, talk, turns)
}

/// Panics unless the archive has both, and the database is in order.
#[track_caller]
fn assert_generations(sandbox: &Sandbox, talk: &Talk, generations: &[&[u8]]) {
    sandbox.assert_sound();
    sandbox.assert_archived(talk);
    for (number, bytes) in generations.iter().enumerate() {
        let restored = sandbox.restored(&talk.id, &["--generation", &number.to_string()]);
        assert!(restored == *bytes, "generation {number} has {} bytes of {}", restored.len(), bytes.len());
    }
    assert_eq!(
        sandbox.json(&["archive", "sessions"])["sessions"][0]["rewritten"].as_u64().unwrap() as usize,
        generations.len() - 1
    );
    let ran = run(sandbox.command(&["archive", "restore", &talk.id, "--generation", &generations.len().to_string()]), b"");
    assert!(ran.with_code(3).stderr.contains("newest generation"));
}

fn superseded(sandbox: &Sandbox) -> i64 {
    sandbox.count("SELECT count(*) FROM turns WHERE superseded IS NOT NULL")
}

/// The client takes the last lines back and writes others.
#[test]
fn the_last_lines_are_taken_back() {
    for (kept, turns) in [(19, 20), (0, 1), (0, 3), (100, 102)] {
        let (sandbox, talk, before) = archived(turns);
        let old = talk.bytes();
        let mut others = Lines::of("s").seed(5);
        talk.write(before[..kept].concat() + &others.turn("Another way") + &others.turn("And on"));
        sandbox.quiet_hook("user-prompt-submit", &talk.input());
        assert_generations(&sandbox, &talk, &[&old, &talk.bytes()]);
        let shown = sandbox.json(&["archive", "show", &talk.id]);
        let listed = shown["turns"].as_array().unwrap();
        assert_eq!(listed.len(), kept + 2);
        assert!(listed[kept]["summary"].as_str().unwrap().starts_with("Another way"));
        assert!(superseded(&sandbox) >= (turns - kept) as i64);
        // And what comes then is only added.
        talk.append(others.turn("Added"));
        sandbox.quiet_hook("stop", &talk.input());
        assert_generations(&sandbox, &talk, &[&old, &talk.bytes()]);
    }
}

/// Shorter than before, and nothing new.
#[test]
fn it_shrinks() {
    let (sandbox, talk, turns) = archived(30);
    let mut generations = vec![talk.bytes()];
    for kept in [29, 10, 0] {
        talk.write(turns[..kept].concat());
        sandbox.quiet_hook("stop", &talk.input());
        generations.push(talk.bytes());
        let all: Vec<&[u8]> = generations.iter().map(Vec::as_slice).collect();
        assert_generations(&sandbox, &talk, &all);
    }
    // To grow from nothing is no rewrite.
    talk.write(turns.concat());
    sandbox.quiet_hook("stop", &talk.input());
    generations[3] = talk.bytes();
    let all: Vec<&[u8]> = generations.iter().map(Vec::as_slice).collect();
    assert_generations(&sandbox, &talk, &all);
    // The same bytes several times, and the same turns: their content is kept once.
    assert_eq!(sandbox.count("SELECT count(DISTINCT entry) FROM turns"), 30);
}

/// A torn line is taken back: what it was is kept, too.
#[test]
fn in_the_middle_of_a_line() {
    let (sandbox, talk, turns) = archived(3);
    talk.append(&turns[0][..5_000]);
    sandbox.quiet_hook("stop", &talk.input());
    let old = talk.bytes();
    talk.write(turns.concat() + &Lines::of("s").seed(9).turn("Instead"));
    sandbox.quiet_hook("stop", &talk.input());
    assert_generations(&sandbox, &talk, &[&old, &talk.bytes()]);
}

/// With the same length, so that only the bytes tell. What hooks compare is the end; an import and the end of a session compare all.
#[test]
fn something_in_the_middle_is_changed() {
    let (sandbox, talk, mut turns) = archived(40);
    let old = talk.bytes();
    // Near the end, a hook sees it.
    turns[38] = turns[38].replace("words and words", "other and words");
    talk.write(turns.concat());
    sandbox.quiet_hook("stop", &talk.input());
    let near = talk.bytes();
    assert_generations(&sandbox, &talk, &[&old, &near]);
    // Far from it, the import does.
    turns[2] = turns[2].replace("words and words", "other and words");
    talk.write(turns.concat());
    sandbox.cli(&["archive", "import"]);
    assert_generations(&sandbox, &talk, &[&old, &near, &talk.bytes()]);
    let far = talk.bytes();
    // And the optimize cycle at the end of a session.
    turns[3] = turns[3].replace("words and words", "other and words");
    talk.write(turns.concat());
    let mut command = sandbox.hook_command("session-end");
    command.env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "true");
    run(command, talk.input_with(json!({ "reason": "other" })).to_string().as_bytes()).calm();
    wait_until("the archive was compared", || sandbox.count("SELECT generation FROM transcripts") == 3);
    assert_generations(&sandbox, &talk, &[&old, &near, &far, &talk.bytes()]);
}

/// A new file takes the name, with the same begin and another end, longer than before.
#[test]
fn another_file_with_the_same_begin() {
    let (sandbox, talk, turns) = archived(30);
    let old = talk.bytes();
    let mut others = Lines::of("s").seed(5);
    let fresh = talk.path.with_extension("fresh");
    fs::write(&fresh, turns[..15].concat() + &others.turns(200)).unwrap();
    fs::rename(fresh, &talk.path).unwrap();
    sandbox.quiet_hook("user-prompt-submit", &talk.input());
    assert_generations(&sandbox, &talk, &[&old, &talk.bytes()]);
    let handles = |arguments: &[&str]| -> Vec<String> {
        let shown = sandbox.json(arguments);
        shown["turns"].as_array().unwrap().iter().map(|turn| turn["handle"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(handles(&["archive", "show", &talk.id]).len(), 215);
}

/// What was replaced can still be read by its handle.
#[test]
fn turns_that_were_replaced_stay() {
    let (sandbox, talk, turns) = archived(4);
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    let handle = shown["turns"][3]["handle"].as_str().unwrap().to_owned();
    talk.write(turns[..3].concat() + &Lines::of("s").seed(5).turn("Another way"));
    sandbox.quiet_hook("stop", &talk.input());
    let recalled = sandbox.json(&["recall", &handle]);
    assert!(recalled["text"].as_str().unwrap().starts_with("Human: Turn 3 words"), "{recalled}");
    assert_eq!(superseded(&sandbox), i64::from(4 - recalled_from(&sandbox)));
}

/// The first turn that had to be read again: pieces are compared as a whole.
fn recalled_from(sandbox: &Sandbox) -> i32 {
    sandbox.db().query_row("SELECT min(idx) FROM turns WHERE superseded IS NOT NULL", [], |row| row.get(0)).unwrap()
}

/// It is gone: what was archived stays. It comes back: it is the same one.
#[test]
fn it_vanishes() {
    let (sandbox, talk, _) = archived(5);
    let old = talk.bytes();
    fs::remove_file(&talk.path).unwrap();
    for event in ["user-prompt-submit", "stop", "session-end"] {
        sandbox.quiet_hook(event, &talk.input());
    }
    assert_eq!(sandbox.restored(&talk.id, &[]), old);
    let context = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    assert!(context.contains("Turn 4"), "{context}");
    talk.write(&old);
    talk.append(Lines::of("s").seed(5).turn("Back again"));
    sandbox.quiet_hook("stop", &talk.input());
    assert_generations(&sandbox, &talk, &[&talk.bytes()]);
}

/// Lines that could not be read are counted as often as the transcript has them.
#[test]
fn bad_lines_are_counted_once() {
    let (sandbox, talk, turns) = archived(2);
    talk.write(turns.concat() + "garbage\n" + &Lines::of("s").seed(5).turn("One"));
    sandbox.quiet_hook("stop", &talk.input());
    for seed in 6..9 {
        talk.write(turns.concat() + "garbage\n" + &Lines::of("s").seed(seed).turn("Another"));
        sandbox.quiet_hook("stop", &talk.input());
        assert_eq!(sandbox.json(&["archive", "sessions"])["sessions"][0]["bad_lines"], 1);
    }
    sandbox.assert_archived(&talk);
}

/// Somebody rewrites it again and again while hooks look at it.
#[test]
fn rewritten_while_it_is_read() {
    let (sandbox, talk, turns) = archived(60);
    let done = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (talk, turns) = (&talk, &turns);
        scope.spawn(move || {
            for round in 0..200 {
                let mut others = Lines::of("s").seed(round);
                // In place, as the client does it: the file is short for a moment.
                talk.write(turns[..(round as usize * 7) % 60].concat() + &others.turns(3));
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            sandbox.quiet_hook("stop", &talk.input());
        }
    });
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
}
