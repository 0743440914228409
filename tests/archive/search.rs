//! Finding turns again by their words.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use serde_json::{Value, json};

use super::lines::Lines;

/// Three sessions: two of a project, one elsewhere.
fn talks(sandbox: &Sandbox) -> [Talk; 3] {
    let mut one = Lines::of("one").seed(1);
    let parser = one.prompt("Why does the parser hang on nested comments?")
        + &one.call("Read", json!({ "file_path": "/home/dev/src/ledger/src/lexer.rs" }))
        + &one.result("fn skip_comment(&mut self) { while !self.at_end() {} }")
        + &one.answer("skip_comment never advances, so it loops for ever. I made it count the depth.")
        + &one.turn("Is max_retries read from the environment?")
        + &one.turn("Thanks.");
    let mut two = Lines::of("two").seed(2);
    let upload = two.prompt("the upload fails at night")
        + &two.call("Bash", json!({ "command": "journalctl -u upload" }))
        + &two.result("ERROR os error 104: connection reset by peer (maxRetries=3)")
        + &two.answer("The load balancer closes idle connections at midnight; keep-alive is 30 s now.")
        + &two.summary("The user asked about uploads; the watermark is 4711.");
    let mut three = Lines::of("three").seed(3);
    let elsewhere = three.turn("The parser of the other program hangs, too.");
    let talks = [sandbox.talk(1, parser), sandbox.talk(2, upload), sandbox.talk(3, elsewhere.replace("src/ledger", "src/other"))];
    let paths: Vec<&str> = talks.iter().map(|talk| talk.path.to_str().unwrap()).collect();
    sandbox.cli(&[&["archive", "import"], &paths[..]].concat());
    talks
}

fn search(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    asked(sandbox, more).0
}

/// What has all that is in quotes as it is typed.
fn strictly(sandbox: &Sandbox, more: &[&str]) -> Vec<Value> {
    let (results, is_loose) = asked(sandbox, more);
    if is_loose { Vec::new() } else { results }
}

/// What is found, and whether nothing has what is in quotes.
fn asked(sandbox: &Sandbox, more: &[&str]) -> (Vec<Value>, bool) {
    let ran = run(sandbox.command(&[&["archive", "search", "--json", "--mode", "lexical"], more].concat()), b"");
    assert!(ran.code == Some(0) || ran.code == Some(1), "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let results = found["results"].as_array().unwrap().clone();
    assert_eq!(ran.code == Some(1), results.is_empty());
    let is_loose = found["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("is in quotes"));
    (results, is_loose)
}

fn prompts(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["summary"].as_str().unwrap().split(" | ").next().unwrap()).collect()
}

#[test]
fn words_find_turns() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let first = |query: &str| {
        let found = search(&sandbox, &[query]);
        prompts(&found).first().map(|prompt| (*prompt).to_owned())
    };
    let parser = Some("Why does the parser hang on nested comments?".to_owned());
    assert_eq!(first("parsers hanging nested comment"), parser);
    assert_eq!(first("skipComment"), parser, "a name in another spelling, in what a tool returned");
    assert_eq!(first("lexer.rs"), parser, "a file");
    assert_eq!(first("\"connection reset by peer\""), Some("the upload fails at night".to_owned()));
    assert_eq!(strictly(&sandbox, &["\"reset connection\""]).len(), 0, "words in quotes stand together");
    assert_eq!(first("\"reset connection\""), Some("the upload fails at night".to_owned()), "if they do anywhere");
    let retries = Some("Is max_retries read from the environment?".to_owned());
    for begin in ["environ*", "environment*", "environments*", "max_retrie*"] {
        assert_eq!(first(begin), retries, "{begin}");
    }
    assert_eq!(first("watermark 4711").as_deref(), Some("The user asked about uploads; the watermark is 4711."));
    assert_eq!(first("zebra"), None);
}

/// Without a model: by the static embedding, of which every search makes what vectors are missing.
#[test]
fn meaning_finds_turns_on_a_new_machine() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let found = |query: &[&str]| {
        let ran = run(sandbox.command(&[&["search", "--json"], query].concat()), b"");
        let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        let results = found["results"].as_array().unwrap().clone();
        (ran.code, found["mode"].clone(), prompts(&results).into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let upload = "the upload fails at night";
    let (code, mode, hits) = found(&["network disconnects"]);
    assert_eq!((code, mode, hits.first().map(String::as_str)), (Some(0), json!("hybrid"), Some(upload)));
    assert_eq!(found(&["--mode", "lexical", "network disconnects"]).0, Some(1), "no word is the same");
    assert_eq!(found(&["xqzvw jkpfh"]).0, Some(1), "nonsense");
    assert_eq!(found(&["\"connection reset\""]).2, [upload], "meaning does not stand for what is in quotes");
    // What comes later is found as well, and nobody is told of vectors.
    let mut four = Lines::of("four").seed(4);
    let talk = sandbox.talk(4, four.turn("Our database migration deadlocks on startup."));
    sandbox.cli(&["archive", "import", talk.path.to_str().unwrap()]);
    let ran = run(sandbox.command(&["search", "SQL schema upgrade hung while booting"]), b"");
    assert!(ran.stdout.contains("database migration") && !ran.stderr.contains("vector"), "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn what_is_in_quotes_stands_there_as_it_is() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let found = |query: &str, more: &[&str]| {
        let found = strictly(&sandbox, &[&[query], more].concat());
        prompts(&found).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let parser = "Why does the parser hang on nested comments?";
    let other = "The parser of the other program hangs, too.";
    assert_eq!(found("\"hang\"", &[]), [parser], "neither \"hangs\" nor neighbors");
    assert_eq!(found("\"hangs\" nested comments", &[]), [other], "whatever else is asked for");
    assert_eq!(found("\"nested comment\"", &[]).len(), 0);
    assert_eq!(found("\"nested comm*\"", &[]), [parser]);
    assert_eq!(found("\"Skip_Comment\"", &[]), [parser], "capitals do not count");
    assert_eq!(found("\"retries 3\"", &[]).len(), 0, "maxRetries=3 has these words as parts of a name");
    assert_eq!(found("\"maxRetries=3\"", &[]), ["the upload fails at night"]);
    assert_eq!(found("\"watermark is 4711\"", &[]).len(), 1, "in a summary");
    assert_eq!(found("\"parser\" \"skip_comment\"", &["--kind", "answer"]).len(), 0, "both in an answer");
    assert_eq!(found("\"parser\" \"skip_comment\"", &[]), [parser], "or anywhere");
}

#[test]
fn nothing_that_is_typed_is_syntax() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    for query in
        ["\"", "NEAR(a b)", "prompt : x", "a AND", "* ^", "'; DROP TABLE docs; --", "{", "-", "parser OR", "%_\\", "col:"]
    {
        search(&sandbox, &[query]);
        search(&sandbox, &["parser", "--session", query]);
        search(&sandbox, &["parser", "--file", query, "--tool", query]);
        let ran = run(sandbox.command(&["archive", "search", "parser", &format!("--project={query}")]), b"");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{query}: {}", ran.stderr);
        assert!(ran.stderr.contains("no session worked in a folder"), "{query}: {}", ran.stderr);
    }
    assert!(!search(&sandbox, &["parser"]).is_empty());
}

#[test]
fn filters_let_through_what_they_say() {
    let sandbox = Sandbox::new();
    let [one, _, three] = talks(&sandbox);
    let of = |more: &[&str]| {
        let found = search(&sandbox, &[&["parser", "retries", "upload"], more].concat());
        found.iter().map(|result| result["session"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(of(&[]).len(), 3);
    assert_eq!(of(&["--session", &three.id]), [three.id.clone()].into());
    assert_eq!(of(&["--project", "src/other"]), [three.id.clone()].into());
    assert_eq!(of(&["--project", "other"]), [three.id.clone()].into());
    let part = run(sandbox.command(&["archive", "search", "parser", "--project", "othe"]), b"");
    assert!(part.code == Some(2) && part.stderr.contains("there are /home/dev/src/other"), "{}", part.stderr);
    assert_eq!(of(&["--tool", "read"]), [one.id.clone()].into());
    assert_eq!(of(&["--file", "lexer.rs"]), [one.id.clone()].into());
    assert_eq!(of(&["--since", "2027-01-01"]).len(), 0);
    assert_eq!(of(&["--since", "2026-06-01", "--until", "2026-06-03"]).len(), 3);
    assert_eq!(of(&["--until", "2026-05-31"]).len(), 0);
    let kinds = |kind: &str| search(&sandbox, &["advances", "--kind", kind]).len();
    assert_eq!((kinds("prompt"), kinds("answer"), kinds("tool")), (0, 1, 0), "and no neighbors");
    assert_eq!(search(&sandbox, &["parser", "--limit", "1"]).len(), 1);
}

#[test]
fn a_turn_that_grew_is_found_by_what_is_new() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.prompt("Where is the herons' nest?"));
    sandbox.hook("stop", &talk.input());
    assert_eq!(search(&sandbox, &["herons"]).len(), 1);
    assert_eq!(search(&sandbox, &["reeds"]).len(), 0);
    talk.append(lines.answer("In the reeds."));
    sandbox.hook("stop", &talk.input());
    assert_eq!(search(&sandbox, &["reeds"]).len(), 1);
    assert_eq!(search(&sandbox, &["herons"]).len(), 1, "once");
}

#[test]
fn an_index_that_is_lost_or_damaged_is_made_anew() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let before = search(&sandbox, &["parser"]);
    let index = sandbox.data().join("search.db");
    for damage in [None, Some(vec![b'x'; 8192]), Some(Vec::new())] {
        for suffix in ["-wal", "-shm"] {
            fs::remove_file(sandbox.data().join(format!("search.db{suffix}"))).ok();
        }
        match damage {
            None => fs::remove_file(&index).unwrap(),
            Some(bytes) => fs::write(&index, bytes).unwrap(),
        }
        assert_eq!(search(&sandbox, &["parser"]), before);
    }
    // Damage that only shows when it is read.
    let mut bytes = fs::read(&index).unwrap();
    let pages = bytes.len() / 4096;
    for page in 2..pages {
        bytes[page * 4096..page * 4096 + 64].fill(0xff);
    }
    fs::write(&index, bytes).unwrap();
    assert_eq!(search(&sandbox, &["parser"]), before);
}

#[test]
fn what_is_shown() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let said = sandbox.cli(&["search", "-v", "--mode", "lexical", "--limit", "2", "max retries"]).stdout;
    insta::with_settings!({ filters => vec![(r"2026-0\d-\d\d \d\d:\d\d", "[time]")] }, { insta::assert_snapshot!(said) });
    let none = run(sandbox.command(&["archive", "search", "zebra"]), b"").with_code(1);
    assert!(none.stderr.contains("nothing found"), "{}", none.stderr);
    let wrong = run(sandbox.command(&["archive", "search", "x", "--since", "soon"]), b"").with_code(2);
    assert!(wrong.stderr.contains("\"soon\" is no time; give a day as in 2026-05-04"), "{}", wrong.stderr);
}

#[test]
fn an_option_that_only_has_a_time_in_it_is_none() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    for (option, text) in [("--since", "blah yesterday blub"), ("--until", "before 2026-06-03"), ("--until", "")] {
        let wrong = run(sandbox.command(&["archive", "search", "parser", option, text]), b"").with_code(2);
        assert!(wrong.stderr.contains(&format!("{text:?} is no time; give a day as in 2026-05-04")), "{}", wrong.stderr);
    }
    assert!(!search(&sandbox, &["parser", "--since", "2026-05-04 12:30"]).is_empty());
}

#[test]
fn recall_takes_words() {
    let sandbox = Sandbox::new();
    talks(&sandbox);
    let found = sandbox.json(&["recall", "the", "nested", "comments"]);
    assert_eq!(found["results"][0]["turn"], 0);
    let handle = found["results"][0]["handle"].as_str().unwrap();
    assert!(sandbox.cli(&["recall", handle]).stdout.contains("skip_comment never advances"));
}
