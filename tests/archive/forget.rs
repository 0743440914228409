//! Forgetting: what goes is in no byte of any file of ours afterwards, does not come back, and costs nothing else.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::reader::{Comparison, TranscriptReader};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{AppendOutcome, Transcript, TranscriptAppender};
use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, start};
use ctxbridge_testkit::{Rng, share_of};
use serde_json::{Value, json};

use super::lines::Lines;

/// Words of what goes, in each place that text can be in.
const GONE: [&str; 6] = ["quokkaprompt", "quokkaanswer", "quokkainput", "quokkaresult", "quokkafile", "quokkaagent"];

const PROMPT: &str = "Please keep the quokkaprompt plan to yourself and decide on a cache";

fn config(sandbox: &Sandbox, text: &str) {
    sandbox.write("home/.config/ctxbridge/config.toml", text);
}

/// A session of three turns, of which the second goes, with a sub-agent, a file beside the transcript, and the client's bookkeeping.
fn talk(sandbox: &Sandbox, number: u32) -> Talk {
    let talk = sandbox.talk(number, "");
    let mut lines = Lines::of(&session(number)).seed(1);
    let beside = talk.path.with_extension("");
    fs::create_dir_all(beside.join("tool-results")).unwrap();
    fs::create_dir_all(beside.join("subagents")).unwrap();
    let file = beside.join("tool-results/b1.txt");
    fs::write(&file, "the whole quokkafile output\n").unwrap();
    let mut agent = Lines::of(&session(number)).seed(2);
    let of_agent = agent.prompt("Look at the quokkaagent thing") + &agent.answer("The quokkaagent thing is fine.");
    fs::write(beside.join("subagents/agent-a1.jsonl"), of_agent).unwrap();
    let text = lines.turn("How does the tokenizer treat wombats?")
        + &lines.prompt(PROMPT)
        + &lines.call("Bash", json!({ "command": "echo quokkainput" }))
        + &lines.result(&format!("quokkaresult, and more\nFull output saved to: {}", file.display()))
        + &lines.call("Task", json!({ "prompt": "Look at the quokkaagent thing", "subagent_type": "x", "description": "quokkaagent" }))
        + &lines.other(json!({
            "type": "user", "toolUseResult": { "agentId": "a1" },
            "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_00000000000000000006", "content": "done" }] },
        }))
        + &lines.answer("We decided to use the quokkaanswer cache instead of a map because it is smaller.");
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let last =
        json!({ "type": "last-prompt", "lastPrompt": &PROMPT[..40], "leafUuid": last["uuid"], "sessionId": session(number) });
    let text = text
        + &format!("{last}\n{}\n", json!({ "type": "queue-operation", "content": PROMPT, "sessionId": session(number) }))
        + &lines.turn("And how does the lexer treat numbats?");
    talk.append(text);
    talk
}

fn session(number: u32) -> String {
    ctxbridge_testkit::sandbox::session_id(number)
}

/// What a user and hooks do with it before.
fn live(sandbox: &Sandbox, talk: &Talk) {
    let input = |more: Value| talk.input_with(more);
    sandbox.hook("session-start", &input(json!({ "source": "startup" })));
    sandbox.hook("user-prompt-submit", &input(json!({ "prompt": PROMPT })));
    sandbox.hook(
        "post-tool-use",
        &input(json!({ "tool_name": "Bash", "tool_input": { "command": "echo quokkainput" }, "tool_response": {} })),
    );
    sandbox.hook("pre-compact", &input(json!({ "trigger": "manual" })));
    sandbox.hook("stop", &talk.input());
    sandbox.hook("session-end", &input(json!({ "reason": "exit" })));
    sandbox.cli(&["archive", "import"]).done();
    sandbox.cli(&["archive", "optimize"]).done();
    sandbox.cli(&["archive", "search", "wombats"]).done();
}

/// The files below a folder that have a text, to the byte.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if memchr::memmem::find(&fs::read(&path).unwrap(), text.as_bytes()).is_some() {
            found.push(path.display().to_string());
        }
    }
    found
}

/// No file has the words, nor has anything that is compressed in them.
fn assert_gone(sandbox: &Sandbox, session: &str, words: &[&str]) {
    for word in words {
        assert_eq!(files_with(&sandbox.data(), word), [""; 0], "{word}");
        sandbox.run(&["archive", "search", "--mode", "lexical", word]).says_no();
    }
    let restored = sandbox.path(&format!("restored-{}", words.len()));
    fs::create_dir_all(&restored).unwrap();
    let ran = sandbox.cli(&["archive", "restore", session, "-o", restored.to_str().unwrap()]).done();
    assert!(ran.stderr.contains("which were forgotten"), "{ran:?}");
    words.iter().for_each(|word| assert_eq!(files_with(&restored, word), [""; 0], "{word}"));
    if sandbox.database().exists() {
        let db = sandbox.db();
        let mut segments = db.prepare("SELECT data, bytes FROM segments WHERE length(data) > 0").unwrap();
        let mut rows = segments.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let unpacked =
                zstd::bulk::decompress(&row.get::<_, Vec<u8>>(0).unwrap(), row.get::<_, u32>(1).unwrap() as usize).unwrap();
            words.iter().for_each(|word| assert!(memchr::memmem::find(&unpacked, word.as_bytes()).is_none(), "{word}"));
        }
    }
}

/// The handle of the turn that goes.
fn handle(sandbox: &Sandbox) -> String {
    sandbox.json(&["archive", "search", "quokkaprompt"])["results"][0]["handle"].as_str().unwrap().to_owned()
}

fn forget(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    sandbox.cli(&[&["forget", "--yes"], arguments].concat())
}

fn a_turn_goes(settings: &str) {
    let sandbox = Sandbox::new();
    config(&sandbox, &format!("{settings}\n[hooks]\nevent_log = true\n"));
    let talk = talk(&sandbox, 1);
    live(&sandbox, &talk);
    let before = sandbox.restored(&session(1), &[]);
    assert_eq!(before, talk.bytes());
    for word in GONE {
        assert!(sandbox.cli(&["archive", "search", "--mode", "lexical", word]).code == Some(0), "{word} is found before");
    }
    let handle = handle(&sandbox);
    // Nothing is done without being asked for.
    assert!(sandbox.run(&["forget", &handle]).with_code(2).stderr.contains("--yes"));
    let looked = sandbox.json(&["forget", "--dry-run", &handle]);
    assert_eq!(looked["sessions"][0]["turns"], json!([handle]), "{looked}");
    assert_eq!(looked["sessions"][0]["files"], json!(["tool-results/b1.txt"]));
    assert_eq!(sandbox.restored(&session(1), &[]), before);
    let said = forget(&sandbox, &[&handle]).done();
    assert!(said.stdout.contains("forgotten: 1 turn"), "{said:?}");
    assert_gone(&sandbox, &session(1), &GONE);
    // All else is there, in its place.
    let after = sandbox.restored(&session(1), &[]);
    assert_eq!(after.len(), before.len());
    for (old, new) in before.split(|byte| *byte == b'\n').zip(after.split(|byte| *byte == b'\n')) {
        let is_of_it = old != new;
        assert_eq!(
            is_of_it,
            GONE.iter().any(|word| memchr::memmem::find(old, word.as_bytes()).is_some()) || old.windows(4).any(|w| w == b"done")
        );
    }
    for word in ["wombats", "numbats"] {
        assert_eq!(sandbox.json(&["archive", "search", word])["results"][0]["session"], session(1), "{word}");
    }
    sandbox.run(&["recall", &handle]).says_no();
    // The client goes on, and nothing comes back.
    talk.append(Lines::of(&session(1)).seed(9).turn("One more about bilbies"));
    sandbox.hook("stop", &talk.input());
    sandbox.cli(&["archive", "import"]).done();
    sandbox.cli(&["archive", "optimize"]).done();
    assert_gone(&sandbox, &session(1), &GONE[1..]);
    assert_eq!(sandbox.json(&["archive", "search", "bilbies"])["results"][0]["session"], session(1));
    assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len());
    sandbox.cli(&["archive", "optimize", "--verify"]).done();
}

#[test]
fn a_turn_leaves_no_byte_in_the_database() {
    a_turn_goes("");
}

#[test]
fn a_turn_leaves_no_byte_in_json_lines() {
    a_turn_goes("[archive]\nstore = \"jsonl\"");
}

/// A fork of a session: the same lines under another id, with more.
fn fork(sandbox: &Sandbox, of: &Talk, number: u32) -> Talk {
    let lines = String::from_utf8(of.bytes()).unwrap().replace(&of.id, &session(number));
    // What waited is not taken along.
    let lines: String = lines.split_inclusive('\n').filter(|line| !line.contains("queue-operation")).collect();
    let own = format!("And what of the potoroos{number}?");
    sandbox.talk(number, lines + &Lines::of(&session(number)).seed(20 + u64::from(number)).turn(&own))
}

#[test]
fn what_a_fork_says_too_stays_there_or_goes_everywhere() {
    let sandbox = Sandbox::new();
    let first = talk(&sandbox, 1);
    let second = fork(&sandbox, &first, 2);
    sandbox.cli(&["archive", "import"]).done();
    let handle = handle(&sandbox);
    let said = forget(&sandbox, &[&handle]).done();
    let [gone, other] = if said.stdout.contains(&format!("session {} says", session(1))) { [2, 1] } else { [1, 2] };
    assert!(said.stdout.contains("stays: session"), "{said:?}");
    let has = |number: u32| memchr::memmem::find(&sandbox.restored(&session(number), &[]), b"quokkaprompt").is_some();
    assert!(!has(gone) && has(other));
    // The one that keeps it goes on keeping it, and one that is made later does not get it.
    second.append(Lines::of(&session(2)).seed(8).turn("More in the fork"));
    let _third = fork(&sandbox, &first, 3);
    sandbox.cli(&["archive", "import"]).done();
    assert!(!has(gone) && has(other) && !has(3));
    forget(&sandbox, &["--everywhere", "--match", "quokkaprompt"]).done();
    assert!(!has(gone) && !has(other));
    sandbox.cli(&["archive", "import"]).done();
    assert!((1..=3).all(|number| !has(number)));
    for number in [2, 3] {
        let found = sandbox.json(&["archive", "search", &format!("potoroos{number}")]);
        assert_eq!(found["results"][0]["session"], session(number));
    }
    sandbox.assert_sound();
}

/// A turn in which a tool recalls the one that goes.
fn quoting(number: u32, handle: &str) -> String {
    let mut lines = Lines::of(&session(number)).seed(40 + u64::from(number));
    lines.prompt("What was decided about bandicoots?")
        + &lines.call("Bash", json!({ "command": "ctxbridge recall bandicoots" }))
        + &lines.result(&format!("{handle} 2026-01-02 the quokkaanswer cache"))
        + &lines.answer("That they may stay.")
}

#[test]
fn quotes_go_from_their_own_session_and_from_others_everywhere() {
    for is_everywhere in [false, true] {
        let sandbox = Sandbox::new();
        let first = talk(&sandbox, 1);
        live(&sandbox, &first);
        let handle = handle(&sandbox);
        first.append(quoting(1, &handle));
        sandbox.talk(2, quoting(2, &handle));
        sandbox.cli(&["archive", "import"]).done();
        let more: &[&str] = if is_everywhere { &["--everywhere"] } else { &[] };
        let said = forget(&sandbox, &[&[handle.as_str()], more].concat()).done();
        assert_eq!(said.stdout.contains("quotes it in 1 line"), !is_everywhere, "{said:?}");
        let has = |number: u32| memchr::memmem::find(&sandbox.restored(&session(number), &[]), b"quokkaanswer").is_some();
        assert!(!has(1), "its own session quotes it no more");
        assert_eq!(has(2), !is_everywhere, "another one keeps it unless it goes everywhere");
        // What was said about it stays.
        for number in [1, 2] {
            let text = sandbox.restored(&session(number), &[]);
            assert!(
                memchr::memmem::find(&text, b"bandicoots").is_some()
                    && memchr::memmem::find(&text, b"That they may stay.").is_some()
            );
        }
        if is_everywhere {
            assert_eq!(files_with(&sandbox.data(), "quokkaanswer"), [""; 0]);
        }
        sandbox.assert_sound();
    }
}

#[test]
fn a_session_goes_with_all_that_it_will_say() {
    let sandbox = Sandbox::new();
    let (gone, kept) = (talk(&sandbox, 1), sandbox.talk(2, Lines::of(&session(2)).seed(5).turn("Where do bettongs live?")));
    live(&sandbox, &gone);
    assert!(sandbox.run(&["forget", "--yes", &session(1)[..8]]).with_code(3).stderr.contains("several sessions begin"));
    forget(&sandbox, &[&session(1)]).done();
    gone.append(Lines::of(&session(1)).seed(6).turn("And what else says the quokkaprompt?"));
    let input = gone.input_with(json!({ "source": "startup", "prompt": PROMPT, "trigger": "auto" }));
    for event in ["session-start", "user-prompt-submit", "pre-compact", "stop", "session-end"] {
        assert_eq!(sandbox.hook(event, &input).stdout, "", "{event}");
    }
    sandbox.cli(&["archive", "import"]).done();
    sandbox.cli(&["archive", "optimize"]).done();
    for word in GONE.iter().chain(&["wombats"]) {
        assert_eq!(files_with(&sandbox.data(), word), [""; 0], "{word}");
    }
    assert_eq!(sandbox.count("SELECT count(*) FROM sessions"), 1);
    assert_eq!(sandbox.json(&["archive", "search", "bettongs"])["results"][0]["session"], session(2));
    assert_eq!(sandbox.restored(&session(2), &[]), kept.bytes());
    sandbox.assert_sound();
}

#[test]
fn sessions_are_chosen_by_folder_time_and_words() {
    let sandbox = Sandbox::new();
    let first = sandbox.talk(1, Lines::of(&session(1)).turn("Where do bettongs live?"));
    let elsewhere = String::from_utf8(first.bytes()).unwrap().replace("/home/dev/src/ledger", "/srv/acme/app");
    let elsewhere = elsewhere.replace(&session(1), &session(2)).replace("2026-06", "2026-07").replace("-4000-8000", "-4000-9000");
    sandbox.talk(2, elsewhere);
    sandbox.cli(&["archive", "import"]).done();
    let sessions = |arguments: &[&str]| -> Vec<String> {
        let ran = sandbox.run(&[&["--json", "forget", "--dry-run"], arguments].concat());
        if ran.code == Some(1) {
            return Vec::new();
        }
        let planned = ran.done().json();
        planned["sessions"].as_array().unwrap().iter().map(|part| part["session"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sessions(&["--project", "/srv/acme"]), [session(2)]);
    assert_eq!(sessions(&["--before", "2026-06-15"]), [session(1)]);
    assert_eq!(sessions(&["--before", "2026-06-15", "--project", "/srv/acme"]), [""; 0]);
    assert_eq!(sessions(&["--match", "bett.ngs"]), [session(1), session(2)]);
    assert_eq!(sessions(&["--match", "bettongs", "--before", "2026-06-15"]), [session(1)]);
    assert_eq!(sessions(&["--match", "quolls"]), [""; 0]);
    assert_eq!(sandbox.count("SELECT count(*) FROM turns"), 2);
    sandbox.run(&["forget", "--yes"]).with_code(2);
    assert!(sandbox.run(&["forget", "--match", "(", "--yes"]).with_code(2).stderr.contains("--match"));
    assert!(sandbox.run(&["forget", "ctx:99999999", "--yes"]).says_no().stderr.contains("no turn has the handle"));
}

#[test]
fn the_clients_own_files_lose_it_only_when_asked() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let history = sandbox.path("home/.claude/history.jsonl");
    let other = "{\"display\":\"wombats\",\"sessionId\":\"x\"}\n";
    fs::write(&history, format!("{{\"display\":\"{PROMPT}\",\"sessionId\":\"{}\"}}\n{other}", session(1))).unwrap();
    sandbox.cli(&["archive", "import"]).done();
    let before = talk.bytes();
    let handle = handle(&sandbox);
    forget(&sandbox, &[&handle]).done();
    assert_eq!(talk.bytes(), before);
    // What is in no archive any more is found by its words no more, so another session has to show it.
    let sandbox = Sandbox::new();
    let talk = self::talk(&sandbox, 1);
    let history = sandbox.write("home/.claude/history.jsonl", fs::read(&history).unwrap());
    sandbox.cli(&["archive", "import"]).done();
    forget(&sandbox, &["--transcripts", &handle]).done();
    for word in GONE {
        assert_eq!(files_with(&sandbox.home(), word), [""; 0], "{word}");
    }
    assert_eq!(fs::read_to_string(&history).unwrap(), other);
    assert_eq!(talk.bytes().len(), before.len());
    assert_eq!(sandbox.restored(&session(1), &[]), talk.bytes());
    forget(&sandbox, &["--transcripts", &session(1)]).done();
    assert!(!talk.path.exists() && !talk.path.with_extension("").exists());
}

#[test]
fn warm_and_cold_sessions_are_forgotten_too() {
    let sandbox = Sandbox::new();
    let cold = sandbox.path("cold");
    config(&sandbox, &format!("[archive]\nwarm_after_days = 1\ncold_after_days = 2\ncold_folder = \"{}\"\n", cold.display()));
    let talk = talk(&sandbox, 1);
    sandbox.cli(&["archive", "import"]).done();
    let handle = handle(&sandbox);
    sandbox.cli(&["archive", "optimize"]).done();
    assert_eq!(fs::read_dir(&cold).unwrap().count(), 1, "it is cold");
    forget(&sandbox, &[&handle]).done();
    assert_gone(&sandbox, &session(1), &GONE);
    assert_eq!(fs::read_dir(&cold).unwrap().count(), 0);
    assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len());
    sandbox.cli(&["archive", "optimize"]).done();
    assert_gone(&sandbox, &session(1), &GONE[1..]);
}

#[test]
fn what_is_private_is_kept_nowhere_or_never_shown() {
    for keeps in [false, true] {
        let sandbox = Sandbox::new();
        let private = if keeps { "private = \"keep\"" } else { "" };
        config(&sandbox, &format!("[archive]\n{private}\n[hooks]\nevent_log = true\n"));
        let text = "<private>the quokkaprompt is ours</private> Where do bettongs live?";
        let mut lines = Lines::of(&session(1));
        let talk = sandbox.talk(1, lines.prompt(text) + &lines.answer("In bushes."));
        sandbox.hook("user-prompt-submit", &talk.input_with(json!({ "prompt": text })));
        sandbox.hook("stop", &talk.input());
        sandbox.cli(&["archive", "search", "bettongs"]).done();
        let restored = sandbox.run(&["archive", "restore", &session(1)]).done();
        assert_eq!(restored.stdout.len(), talk.bytes().len());
        assert_eq!(restored.stdout.as_bytes() == talk.bytes(), keeps);
        assert_eq!(restored.stderr.contains("24 bytes, which were marked as private"), !keeps, "{restored:?}");
        sandbox.run(&["archive", "search", "--mode", "lexical", "quokkaprompt"]).says_no();
        assert_eq!(files_with(&sandbox.data(), "quokkaprompt"), [""; 0], "segments are compressed");
        let handle = sandbox.json(&["archive", "search", "bettongs"])["results"][0]["handle"].as_str().unwrap().to_owned();
        for command in [
            &["archive", "sessions"][..],
            &["archive", "show", &session(1)],
            &["archive", "export", &session(1), "--format", "markdown"],
            &["archive", "export", &session(1), "--format", "json"],
            &["recall", &handle],
            &["prune", "preview", talk.path.to_str().unwrap()],
        ] {
            let said = sandbox.run(command).stdout;
            assert!(!said.contains("quokka"), "{keeps} {command:?}: {said}");
        }
        // The client goes on with it, and nothing is taken for rewritten.
        talk.append(lines.turn("And what do they eat?"));
        sandbox.hook("stop", &talk.input());
        assert_eq!(sandbox.count("SELECT generation FROM transcripts"), 0);
        assert_eq!(sandbox.count("SELECT count(*) FROM turns"), 2);
        sandbox.cli(&["archive", "import"]).done();
        assert_eq!(sandbox.count("SELECT generation FROM transcripts"), 0);
    }
}

/// Kills `forget` at random moments, until `kills` have hit: the archive is as before, or without the turn, and the same command does
/// the rest.
fn shoot(settings: &str, kills: u64) {
    let sandbox = Sandbox::new();
    config(&sandbox, settings);
    let word = |number: u64| format!("quokka{number}x");
    let turns: String = {
        let mut lines = Lines::of(&session(1));
        (0..=10 * kills).map(|number| lines.turn(&format!("What is the {} plan about?", word(number)))).collect()
    };
    let talk = sandbox.talk(1, &turns);
    sandbox.cli(&["archive", "import"]).done();
    sandbox.cli(&["archive", "search", "plan"]).done();
    let begun = Instant::now();
    forget(&sandbox, &["--match", &word(0)]).done();
    let takes = begun.elapsed();
    let mut dice = Rng::new(kills);
    let (mut hits, mut shots) = (0, 0);
    while hits < kills {
        assert!(shots < 10 * kills, "most kills come too late: {hits} of {shots}");
        shots += 1;
        let gone = word(shots);
        let mut child = start(sandbox.command(&["forget", "--yes", "--match", &gone]), b"");
        sleep(takes.mul_f64(dice.roll()));
        child.kill().unwrap();
        hits += u64::from(!child.wait().unwrap().success());
        let restored = sandbox.restored(&session(1), &[]);
        assert_eq!(restored.len(), talk.bytes().len(), "after shot {shots}");
        let again = sandbox.run(&["forget", "--yes", "--match", &gone]);
        assert!(matches!(again.code, Some(0 | 1)), "{again:?}");
        let restored = String::from_utf8(sandbox.restored(&session(1), &[])).unwrap();
        let missing: Vec<u64> = (0..=10 * kills).filter(|number| !restored.contains(&word(*number))).collect();
        assert_eq!(missing, (0..=shots).collect::<Vec<_>>(), "after shot {shots}");
    }
    sandbox.cli(&["archive", "import"]).done();
    assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len());
    (0..=shots).for_each(|number| assert_eq!(files_with(&sandbox.data(), &word(number)), [""; 0], "{number}"));
}

#[test]
fn killed_anywhere_the_database_is_as_before_or_done() {
    shoot("", share_of(20) as u64);
}

#[test]
fn killed_anywhere_json_lines_are_as_before_or_done() {
    shoot("[archive]\nstore = \"jsonl\"", share_of(20) as u64);
}

/// Killed when the new folder is in place, and the one before it is not removed yet; then perhaps merged into a database.
#[test]
fn a_folder_that_was_replaced_is_removed_by_the_next_run() {
    for settings in ["[archive]\nstore = \"jsonl\"", ""] {
        let sandbox = Sandbox::new();
        config(&sandbox, settings);
        let talk = sandbox.talk(1, Lines::of(&session(1)).turn("Where do quokkas live?"));
        sandbox.cli(&["archive", "import"]).done();
        let replaced = sandbox.data().join("archive-jsonl.replaced-1");
        fs::create_dir(&replaced).unwrap();
        fs::write(replaced.join("journal.jsonl"), "Where do numbats live?").unwrap();
        fs::write(sandbox.data().join("forgotten.unfinished"), "[]").unwrap();
        assert_eq!(sandbox.run(&["forget", "--yes", "--match", "numbats"]).code, Some(1), "{settings}");
        assert!(!replaced.exists() && !sandbox.data().join("forgotten.unfinished").exists(), "{settings}");
        assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len(), "{settings}");
    }
}

#[test]
fn an_answer_that_the_client_wrote_anew_goes_in_both_versions() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of(&session(1));
    let prompt = lines.turn("Where do numbats live?") + &lines.prompt(PROMPT);
    let talk = sandbox.talk(1, prompt.clone() + &lines.answer("The first quokkaanswer, which was cut off."));
    sandbox.cli(&["archive", "import"]).done();
    talk.write(prompt + &lines.answer("The second quokkaresult."));
    sandbox.cli(&["archive", "import"]).done();
    let handle = handle(&sandbox);
    forget(&sandbox, &[&handle]).done();
    for generation in ["0", "1"] {
        let restored = sandbox.restored(&session(1), &["--generation", generation]);
        assert!(memchr::memmem::find(&restored, b"quokka").is_none(), "{generation}");
    }
    assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len());
    sandbox.assert_sound();
}

#[test]
fn compactions_and_pins_stay_as_they_are() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of(&session(1));
    let text = lines.turn("Where do numbats live?")
        + &lines.prompt(PROMPT)
        + &lines.answer("Nowhere.")
        + &lines.turn("Where do dunnarts live?")
        + &lines.summary("They spoke of numbats, and kept it short.")
        + &lines.turn("And bettongs?");
    let talk = sandbox.talk(1, text);
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" })));
    sandbox.hook("stop", &talk.input());
    let pinned = sandbox.json(&["archive", "search", "bettongs"])["results"][0]["handle"].as_str().unwrap().to_owned();
    sandbox.cli(&["archive", "pin", &pinned]).done();
    let compactions = "SELECT count(*) FROM compactions";
    let before = sandbox.count(compactions);
    let handle = handle(&sandbox);
    forget(&sandbox, &[&handle]).done();
    assert_eq!(sandbox.count(compactions), before);
    assert_eq!(sandbox.json(&["archive", "pin"])["turns"][0]["handle"], json!(pinned));
    assert_eq!(sandbox.count("SELECT count(*) FROM entries WHERE text LIKE '%numbats%'"), 1, "the summary says nothing of it");
}

#[test]
fn what_was_read_before_is_not_written_afterwards() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    sandbox.cli(&["archive", "import"]).done();
    let handle = handle(&sandbox);
    talk.append(Lines::of(&session(1)).seed(4).turn("One more about bilbies"));
    let mut store = SqliteStore::open(&sandbox.data(), LockPolicy::Background).unwrap();
    let transcript = Transcript::at(&talk.path);
    let mut reader = TranscriptReader::open(&mut store, &transcript, &talk.path, Comparison::End).unwrap();
    let batch = reader.next_batch(&mut store).unwrap().unwrap();
    forget(&sandbox, &[&handle]).done();
    assert_eq!(store.append(&batch).unwrap(), AppendOutcome::Conflict);
    ingest(&mut store, &transcript, &talk.path).unwrap();
    drop(store);
    assert_gone(&sandbox, &session(1), &GONE);
    assert_eq!(sandbox.restored(&session(1), &[]).len(), talk.bytes().len());
    sandbox.assert_sound();
}

#[test]
fn what_can_be_meant_in_two_ways_is_asked_back() {
    let sandbox = Sandbox::new();
    for (arguments, said) in [
        (&["abc", "--before", "2026-01-01"][..], "not both"),
        (&["ctx:1a2b3c4d", "--match", "x"], "a handle names one"),
        (&[], "say what to forget"),
    ] {
        assert!(sandbox.run(&[&["forget", "--yes"], arguments].concat()).with_code(2).stderr.contains(said), "{arguments:?}");
    }
}
