//! A disk that is full, a database that another process holds, folders that may not be written, clocks that go back.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ctxbridge_testkit::is_full_run;
use ctxbridge_testkit::sandbox::{Sandbox, Talk, behind, finish, run, set_mode, set_modes, start};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::lines::Lines;

/// All that the client runs.
const EVENTS: [&str; 7] =
    ["session-start", "user-prompt-submit", "pre-compact", "post-compact", "stop", "subagent-stop", "session-end"];

fn input_of(talk: &Talk, event: &str) -> Vec<u8> {
    let more = match event {
        "session-start" => json!({ "source": "compact" }),
        "pre-compact" => json!({ "trigger": "auto" }),
        "post-compact" => json!({ "trigger": "auto", "compact_summary": "All of it." }),
        "session-end" => json!({ "reason": "other" }),
        _ => json!({}),
    };
    talk.input_with(more).to_string().into_bytes()
}

/// A full disk, as it is made here: no file may grow beyond some blocks. The signal that comes with that is none of a user's concern.
fn full_beyond(blocks: usize) -> String {
    format!("ulimit -f {blocks}")
}

#[test]
fn a_full_disk() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(20));
    // Nothing at all, then not even the tables, then some of it.
    for blocks in [0, 8, 64, 200] {
        // As many bytes as do not compress to less than that.
        talk.append(lines.turn(&noise(60_000, blocks as u64)));
        for event in EVENTS {
            let command = behind(&full_beyond(blocks), &sandbox.hook_command(event));
            run(command, &input_of(&talk, event)).calm();
        }
        sandbox.hook("stop", &talk.input());
        sandbox.assert_sound();
        sandbox.assert_archived(&talk);
    }
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0], "a full disk is no damage");
}

/// The user hears of it once, and again when it happens again.
#[test]
fn a_full_disk_is_told_once() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3));
    sandbox.hook("stop", &talk.input());
    for _ in 0..2 {
        talk.append(lines.turn(&noise(2_000_000, lines_seed(&talk))));
        let full = || run(behind(&full_beyond(600), &sandbox.hook_command("stop")), &input_of(&talk, "stop")).calm();
        let notice = full().notice().expect("the first failure is told");
        assert!(notice.contains("free some space"), "{notice}");
        assert_eq!(full().stdout, "", "told twice");
        sandbox.quiet_hook("stop", &talk.input());
        sandbox.assert_archived(&talk);
    }
}

fn lines_seed(talk: &Talk) -> u64 {
    talk.bytes().len() as u64
}

/// Text that does not compress below half of its size.
fn noise(length: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + 1 + (state >> 32) as u8 % 90)
    };
    (0..length).map(letter).map(|letter| if letter == '\\' { 'x' } else { letter }).collect()
}

/// Another process writes and does not end; each hook gives up, and the next one takes in what could not be written.
#[test]
fn a_database_that_is_locked() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3));
    sandbox.hook("stop", &talk.input());
    talk.append(lines.turn("While it is locked"));

    let (locked, is_locked) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let database = sandbox.database();
    let holder = std::thread::spawn(move || {
        let db = Connection::open(database).unwrap();
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        locked.send(()).unwrap();
        is_released.recv().unwrap();
        db.execute_batch("ROLLBACK").unwrap();
    });
    is_locked.recv().unwrap();
    // Nobody lets go before all of these have given up.
    let prompt = sandbox.hook("user-prompt-submit", &talk.input());
    let notice = prompt.notice().expect("the first failure is told");
    assert!(notice.contains("being written by another process"), "{notice}");
    for event in ["stop", "subagent-stop", "pre-compact", "session-end", "session-start"] {
        let input = talk.input_with(json!({ "trigger": "auto", "source": "compact", "reason": "other" }));
        run(sandbox.hook_command(event), input.to_string().as_bytes()).calm();
    }
    release.send(()).unwrap();
    holder.join().unwrap();
    sandbox.hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    assert_eq!(sandbox.count("SELECT count(*) FROM sessions WHERE end_reason = 'other'"), 1, "the end was spooled");

    talk.append(lines.turn("And on"));
    sandbox.quiet_hook("user-prompt-submit", &talk.input());
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    assert!(sandbox.log().iter().all(|line| line["error"].as_str().unwrap().contains("another process")));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// A pipe that nobody writes to is no file, wherever one is looked for: of ours, of git, of a session.
#[test]
fn pipes_in_place_of_files() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    sandbox.write("home/.config/ctxbridge/config.toml", "[hooks]\nevent_log = true\n");
    let project = sandbox.path("work");
    sandbox.git(&project, &["init", "--quiet"]);
    run(sandbox.command(&["bundle", "init"]).current_dir(&project), b"").done();
    let work = |first: usize, stride: usize| {
        for event in EVENTS.into_iter().chain(["pre-tool-use", "post-tool-use"]).skip(first).step_by(stride) {
            let mut input: Value = serde_json::from_slice(&input_of(&talk, event)).unwrap();
            let more = json!({ "cwd": project, "prompt": "Why does the parser hang?", "tool_name": "Bash", "tool_input": { "command": "make" } });
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            // That it ends is what is looked at.
            run(sandbox.hook_command(event), input.to_string().as_bytes()).calm();
        }
    };
    work(0, 1);
    // That makes the index, whatever it finds.
    sandbox.run(&["archive", "search", "parser"]);
    work(0, 1);
    let mut files = vec![project.join(".git/HEAD"), project.join(".git/index"), project.join(".git")];
    files.extend(files_below(&sandbox.data()));
    files.extend(files_below(&project.join(".ctxbridge")));
    files.extend(["archive.db-wal", "told-once", "logs/told"].map(|name| sandbox.data().join(name)));
    files.push(sandbox.path("home/.config/ctxbridge/config.toml"));
    files.push(talk.path.clone());
    assert!(files.len() > 10, "{files:#?}");
    // By day each file meets a third of the hooks, and each hook a third of the files.
    let stride = if is_full_run() { 1 } else { 3 };
    for (number, path) in files.into_iter().enumerate() {
        let aside = sandbox.path("aside");
        let is_there = path.exists();
        if is_there {
            fs::rename(&path, &aside).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success(), "{}", path.display());
        work(number % stride, stride);
        // A mark may have been taken away by then.
        fs::remove_file(&path).ok();
        if is_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    sandbox.hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
}

/// The client keeps the pipe open: what it wrote is all that is waited for.
#[test]
fn input_that_does_not_end() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let mut command = sandbox.hook_command("stop");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(talk.input().to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    drop(pipe);
    sandbox.assert_archived(&talk);
}

#[test]
fn a_home_that_is_read_only() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    for event in EVENTS {
        // The data would be in the home, and there is no place for it.
        let mut command = sandbox.unprivileged(&["hook", event], &[sandbox.root()]);
        set_mode(&sandbox.home(), 0o555);
        command.env_remove("CTXBRIDGE_DATA_DIR");
        let ran = run(command, &input_of(&talk, event)).calm();
        // Nobody can remember that it was told, so only the start of a session tells.
        let told = ran.notice().is_some_and(|notice| notice.contains("CTXBRIDGE_DATA_DIR"));
        assert_eq!((told, ran.stdout.is_empty()), (event == "session-start", event != "session-start"), "{ran:?}");
    }
    assert!(!sandbox.home().join(".local").exists());
    set_mode(&sandbox.home(), 0o755);
    let mut command = sandbox.unprivileged(&["hook", "stop"], &[sandbox.root()]);
    command.env_remove("CTXBRIDGE_DATA_DIR");
    run(command, &input_of(&talk, "stop")).calm();
    assert!(sandbox.home().join(".local/share/ctxbridge/archive.db").exists());
}

#[test]
fn a_data_folder_that_is_read_only() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(3));
    run(sandbox.unprivileged(&["hook", "stop"], &[sandbox.root()]), &input_of(&talk, "stop")).calm();
    talk.append(lines.turn("Not yet"));
    set_modes(&sandbox.data(), 0o555, 0o444);
    for event in EVENTS {
        let ran = run(sandbox.unprivileged(&["hook", event], &[sandbox.root()]), &input_of(&talk, event)).calm();
        // Nobody can remember that it was told: only the start of a session tells.
        if event != "pre-compact" {
            assert_eq!(ran.notice().is_some(), event == "session-start", "{ran:?}");
        }
    }
    set_modes(&sandbox.data(), 0o755, 0o644);
    run(sandbox.unprivileged(&["hook", "stop"], &[sandbox.root()]), &input_of(&talk, "stop")).calm();
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
}

#[test]
fn a_log_that_cannot_be_written() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    fs::create_dir_all(sandbox.data().join("logs/errors.log")).unwrap();
    run(sandbox.hook_command("stop"), b"garbage").calm();
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    fs::remove_dir_all(sandbox.data().join("logs")).unwrap();
    fs::write(sandbox.data().join("logs"), "a file where a folder should be").unwrap();
    for event in EVENTS {
        run(sandbox.hook_command(event), b"garbage").calm();
        run(sandbox.hook_command(event), &input_of(&talk, event)).calm();
    }
}

/// Whatever the user's mask is.
#[test]
fn all_files_are_private() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(3));
    for event in EVENTS {
        run(behind("umask 000", &sandbox.hook_command(event)), &input_of(&talk, event)).calm();
    }
    fs::remove_file(sandbox.data().join("archive.db-wal")).unwrap();
    fs::write(sandbox.database(), "garbage".repeat(1_000)).unwrap();
    run(behind("umask 000", &sandbox.hook_command("pre-compact")), &input_of(&talk, "pre-compact")).calm();
    run(behind("umask 000", &sandbox.hook_command("pre-compact")), b"garbage").calm();
    let mut folders = vec![sandbox.data()];
    let mut seen = Vec::new();
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder) & 0o077, 0, "{}", folder.display());
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
            seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
            folders.extend(path.is_dir().then_some(path));
        }
    }
    for name in ["archive.db", "archive.db-wal", "archive.lock", "errors.log", "told", "owed", "archive.db.damaged-1"] {
        assert!(seen.iter().any(|seen| seen == name), "{name} is not among {seen:?}");
    }
}

fn mode(path: &std::path::Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::symlink_metadata(path).unwrap().permissions())
}

/// A log does not grow for ever, and each line of it is whole.
#[test]
fn a_log_that_is_long() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.data().join("logs")).unwrap();
    let log = sandbox.data().join("logs/errors.log");
    fs::write(&log, "{}\n".repeat(400_000)).unwrap();
    let children: Vec<_> = (0..8).map(|_| start(sandbox.hook_command("stop"), b"{}")).collect();
    for child in children {
        finish(child).calm();
    }
    assert!(fs::metadata(&log).unwrap().len() < 10_000);
    assert!(log.with_extension("log.1").exists());
    assert!(!sandbox.log().is_empty());
}

/// Lines from the future and lines that go back; a state file and an archive from the future, too.
#[test]
fn a_clock_that_goes_back() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let mut at = |time: &str, text: &str| {
        let prompt = lines.prompt(text) + &lines.answer_of("Yes.", 150_000);
        prompt.replace("2026-", time)
    };
    let talk = sandbox.talk(1, at("2199-", "From the future") + &at("2026-", "From now") + &at("1971-", "From long ago"));
    sandbox.hook("user-prompt-submit", &talk.input());
    // Both remember a time that has not come yet.
    let state = sandbox.data().join(format!("autopilot/{}.json", talk.id));
    let mut known: serde_json::Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    known["lastCheck"] = json!(9_000_000_000_000_u64);
    known["history"][0]["ts"] = json!(9_000_000_000_000_u64);
    fs::write(&state, known.to_string()).unwrap();
    sandbox.cli(&["archive", "optimize"]);
    let db = Connection::open(sandbox.database()).unwrap();
    assert_eq!(db.execute("UPDATE notes SET value = '9000000000000' WHERE key = 'last_optimize_ms'", []).unwrap(), 1);
    drop(db);
    talk.append(at("2026-", "And on"));
    for event in EVENTS {
        run(sandbox.hook_command(event), &input_of(&talk, event)).calm();
    }
    sandbox.cli(&["archive", "optimize"]);
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    let confidence = |turn: &serde_json::Value| turn["confidence"].as_f64().unwrap();
    assert!(shown["turns"].as_array().unwrap().iter().all(|turn| (0.79..=1.0).contains(&confidence(turn))), "{shown}");
    let context = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    for text in ["From the future", "From now", "From long ago", "And on"] {
        assert!(context.contains(text), "{context}");
    }
}
