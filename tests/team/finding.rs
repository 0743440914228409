//! Finding what others have shown, in every command and for every model that asks.

use std::net::TcpListener;

use std::sync::Arc;

use ctxbridge::config::{Config, SecretString, StoreKind};
use ctxbridge::mcp::{Library, tools};
use ctxbridge::team::search::FederatedSearch;
use serde_json::{Value, json};

use super::lines::{boundary, compact_summary, says, text, user};
use super::member::{Member, Team, id};
use super::proxy::Proxy;

/// Ann shows one session to the team, and has another for herself; Bob has one of his own.
fn talk() -> (Team, Member, Member) {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    let shown = [
        user(0, "Where is the walrus detector?"),
        says(1, "In src/walrus.rs, since the flood."),
        boundary(2),
        compact_summary(3, "They looked for an orphaned zeppelin."),
        user(4, "Good."),
        says(5, "Yes."),
    ];
    ann.archive(&id(1), &text(&shown));
    ann.archive(&id(2), &text(&[user(10, "The walrus is my secret."), says(11, "I tell nobody.")]));
    bob.archive(&id(3), &text(&[user(20, "I saw a walrus today."), says(21, "Where?")]));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    (team, ann, bob)
}

/// Sessions of the hits, with what is only on the server marked.
fn sessions(found: &Value) -> Vec<String> {
    let results = found["results"].as_array().unwrap();
    let shown = |hit: &Value| {
        let session = hit["session"].as_str().unwrap();
        let number = u32::from_str_radix(&session[..8], 16).unwrap();
        if hit["is_on_server_only"].as_bool().unwrap() { format!("{number} there") } else { number.to_string() }
    };
    let mut sessions: Vec<String> = results.iter().map(shown).collect();
    sessions.sort_unstable();
    sessions.dedup();
    sessions
}

fn search(member: &Member, words: &str) -> Value {
    let said = member.output(&["archive", "search", words, "--json", "--mode", "lexical"]);
    serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr))
}

#[test]
fn what_others_have_shown_is_found_and_nothing_else() {
    let (_team, ann, bob) = talk();
    let found = search(&bob, "walrus");
    assert_eq!(sessions(&found), ["1 there", "3"]);
    assert_eq!(found["notes"], json!([]));
    // What fits better stands first, wherever it is.
    let best = &search(&bob, "walrus detector flood")["results"][0];
    assert_eq!(best["is_on_server_only"], true, "{best}");
    // What she has sent is one hit, and the one from here.
    assert_eq!(sessions(&search(&ann, "walrus")), ["1", "2"]);
    let only_here = bob.json(&["archive", "search", "--here", "walrus", "--json"]);
    assert_eq!(sessions(&only_here), ["3"]);
    let never = bob.with("CTXBRIDGE_POSTGRES_SEARCH", "off");
    assert_eq!(sessions(&search(&never, "walrus")), ["3"]);
    // Once it is hers alone again, it is gone.
    ann.run(&["archive", "share", &id(1), "private"]);
    assert_eq!(sessions(&search(&bob, "walrus")), ["3"]);
}

#[test]
fn what_is_found_there_can_be_read() {
    let (_team, ann, bob) = talk();
    let found = search(&bob, "flood detector");
    let handle = found["results"][0]["handle"].as_str().unwrap();
    let read = bob.run(&["recall", handle]);
    assert!(read.stdout.contains("In src/walrus.rs, since the flood."), "{}", read.stdout);
    let shown = bob.run(&["archive", "show", handle]);
    assert_eq!(shown.stdout, read.stdout);
    // Whose it is stands beside it: a handle says nothing of that.
    let owner = &ann.role.name;
    assert_eq!(found["results"][0]["owner"], json!(owner));
    assert!(bob.run(&["archive", "search", "flood detector"]).stdout.contains(&format!("on the team's server; by {owner}")));
    for said in [read, shown] {
        assert!(said.stderr.contains(&format!("archived by {owner}")), "{}", said.stderr);
    }
    assert_eq!(search(&ann, "flood detector")["results"][0]["owner"], json!(null));
    // The whole session, to the byte.
    let restored = bob.run(&["archive", "restore", &id(1)]);
    assert_eq!(restored.stdout, std::fs::read_to_string(ann.transcript(&id(1))).unwrap());
    assert!(
        restored.stderr.contains("on the team's server only") && bob.run(&["archive", "show", &id(1)]).stdout.contains("walrus")
    );
    let found = bob.json(&["archive", "search", "zeppelin", "--kind", "summary", "--json"]);
    let summary = found["results"][0]["handle"].as_str().unwrap();
    assert!(summary.starts_with("ctx:team."), "{found}");
    assert!(bob.run(&["recall", summary]).stdout.contains("orphaned zeppelin"));
    // It is no secret that there is such a handle, and it opens nothing.
    ann.run(&["archive", "share", &id(1), "private"]);
    assert_eq!(bob.output(&["archive", "restore", &id(1)]).code, Some(1));
    for handle in [handle, summary] {
        let said = bob.output(&["recall", handle]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{}", said.stderr);
    }
}

#[test]
fn a_server_that_does_not_answer_takes_nothing_away() {
    let (_team, _, bob) = talk();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let down = bob.at_port(port);
    let found = search(&down, "walrus");
    assert_eq!(sessions(&found), ["3"]);
    let note = found["notes"][0].as_str().unwrap();
    assert!(note.contains("the team's server was not asked") && note.contains("cannot reach"), "{note}");
    // One that lets everybody in and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let stalled = bob.at_port(silent.local_addr().unwrap().port());
    let found = search(&stalled, "walrus");
    assert_eq!(sessions(&found), ["3"]);
    assert!(found["notes"][0].as_str().unwrap().contains("the team's server was not asked"), "{found}");
    // A handle that is not here either.
    let said = down.output(&["recall", "ctx:00112233"]);
    assert!(said.code == Some(1) && said.stderr.contains("the team's server was not asked"), "{}", said.stderr);
}

#[test]
fn a_secret_is_looked_for_here_only() {
    let (_team, _, bob) = talk();
    let found = search(&bob, &format!("walrus ghp_{}", "Zz9".repeat(12)));
    let note = found["notes"].to_string();
    assert!(note.contains("not asked") && note.contains("looks like a secret") && !note.contains("Zz9"), "{note}");
}

#[test]
fn a_server_that_falls_silent_takes_nothing_away() {
    let (team, _, bob) = talk();
    let proxy = Proxy::to(&team.database.address);
    let by_proxy = bob.at_port(proxy.port());
    assert_eq!(sessions(&search(&by_proxy, "walrus")), ["1 there", "3"]);
    proxy.stall();
    let found = search(&by_proxy, "walrus");
    assert_eq!(sessions(&found), ["3"]);
    assert_eq!(found["notes"].as_array().unwrap().len(), 1, "{found}");
}

#[test]
fn a_wrong_password_is_told_of_and_never_shown() {
    let (_team, _, bob) = talk();
    let wrong = bob.with("CTXBRIDGE_POSTGRES_PASSWORD", "hunter2hunter2");
    let said = wrong.output(&["archive", "search", "walrus"]);
    assert_eq!(said.code, Some(0));
    assert!(said.stderr.contains("the team's server was not asked"), "{}", said.stderr);
    assert!(!said.stderr.contains("hunter2") && !said.stdout.contains("hunter2"), "{}", said.stderr);
}

#[test]
fn a_model_that_asks_is_told_of_it() {
    let (_team, ann, bob) = talk();
    let mut config = Config::default();
    config.postgres.url = Some(SecretString::new(bob.url.clone()));
    config.postgres.password = Some(SecretString::new(bob.role.password.clone()));
    config.postgres.tenant = Some("acme".to_owned());
    // Where nobody has set it, that has to be meant.
    config.archive.store = StoreKind::Postgres;
    let team = FederatedSearch::of(&config, &bob.data()).unwrap();
    assert!(team.is_some());
    let mut library = Library::new(bob.data(), "/work/p".into()).with_remote(team.map(|team| Arc::new(team) as _));
    let mut call = |tool: &str, given: Value| tools::call(&mut library, tool, given.as_object().unwrap());
    let found = call("search", json!({ "query": "walrus" })).unwrap();
    assert!(found.text.contains("(on the team's server)") && !found.text.contains("secret"), "{}", found.text);
    let theirs = found.value["hits"].as_array().unwrap().iter().find(|hit| hit["on_team_server"] == true).unwrap();
    let read = call("recall", json!({ "handle": theirs["handle"] })).unwrap();
    assert!(read.text.contains("since the flood"), "{}", read.text);
    let summary = call("search", json!({ "query": "zeppelin", "kind": "summary" })).unwrap();
    let handle = summary.value["hits"][0]["handle"].as_str().unwrap();
    assert!(call("recall", json!({ "handle": handle })).unwrap().text.contains("orphaned zeppelin"), "{handle}");
    ann.run(&["archive", "share", &id(1), "private"]);
    let gone = call("recall", json!({ "handle": theirs["handle"] }));
    assert!(gone.is_err(), "{gone:?}");
    config.postgres.search = false;
    assert!(FederatedSearch::of(&config, &bob.data()).unwrap().is_none());
}
