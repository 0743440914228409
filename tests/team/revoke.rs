//! Taking back what was sent: nothing of it is left on the server, and everything else is.

use std::fs;

use ctxbridge::archive::store::{LearningReader, SessionReader, TurnReader, TurnSelection};
use serde_json::{Value, json};

use super::lines::{boundary, compact_summary, says, text, user};
use super::member::{Member, Team, id};
use super::{sessions, whole};

/// What turns out to be a secret when it was sent already, and the pattern that finds it.
const NAME: &str = "Nightjar-77";
const PATTERN: &str = "(?i)nightjar-[0-9]+";

/// A conversation with that name in what was asked, answered, decided and summed up.
fn conversation() -> Vec<Value> {
    vec![
        user(0, format!("What is {NAME}?")),
        says(1, &format!("I decided to use {NAME} because it needs no server.")),
        boundary(2),
        compact_summary(3, &format!("They spoke about {NAME}.")),
        user(4, "Go on."),
        says(5, "Gone on."),
    ]
}

/// All that the server has, also what no member may read: rows as text, bytes of transcripts unpacked.
fn everything(team: &Team) -> String {
    let mut admin = team.database.admin().unwrap();
    let tables = "SELECT relname::text FROM pg_class WHERE relnamespace = 'ctxbridge'::regnamespace AND relkind IN ('r', 'p')
        AND NOT relispartition AND relname NOT IN ('segments', 'migrations') ORDER BY 1";
    let mut all = String::new();
    for row in admin.query(tables, &[]).unwrap() {
        let table: String = row.get(0);
        let rows = admin.query(&format!("SELECT to_jsonb(t)::text FROM ctxbridge.{table} t"), &[]).unwrap();
        all.extend(rows.iter().map(|row| format!("{table}: {}\n", row.get::<_, String>(0))));
    }
    for row in admin.query("SELECT data FROM ctxbridge.segments", &[]).unwrap() {
        let bytes = zstd::decode_all(row.get::<_, &[u8]>(0)).unwrap();
        all += &format!("segments: {}\n", String::from_utf8_lossy(&bytes));
    }
    all
}

pub(super) fn has(team: &Team, word: &str) -> bool {
    // Words are kept without capitals.
    everything(team).to_lowercase().contains(&word.to_lowercase())
}

#[test]
fn a_secret_that_was_sent_is_taken_back_and_the_rest_sent_again() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    // Its folder is called so, too.
    let path = ann.client().join(format!("projects/-work-{NAME}/{}.jsonl", id(1)));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text(&conversation())).unwrap();
    ann.run(&["archive", "import", path.to_str().unwrap()]);
    ann.archive(&id(2), &text(&[user(10, "Something else."), says(11, "Yes.")]));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    assert!(everything(&team).lines().filter(|row| row.contains(NAME)).count() > 5);

    let ann = ann.with("CTXBRIDGE_REDACT_PATTERNS", PATTERN);
    let said = ann.run(&["archive", "revoke", &id(1)[..8], "--resend"]);
    assert!(said.stdout.contains("2 turns taken back") && said.stdout.contains("to those who could read it"), "{}", said.stdout);
    assert!(!has(&team, NAME), "{}", everything(&team));
    assert_eq!((sessions(&bob), sessions(&ann)), (vec![], vec![id(2)]));
    // Here it is still all there.
    assert!(ann.run(&["archive", "restore", &id(1)]).stdout.contains(NAME));

    let sent = ann.json(&["archive", "sync", "--json"]);
    assert_eq!((&sent["sessions"], &sent["turns"], &sent["withheld"]), (&json!(1), &json!(2), &json!(0)));
    assert!(sent["redacted_by_rule"]["pattern"].as_u64().unwrap() >= 4, "{sent}");
    assert!(!has(&team, NAME), "{}", everything(&team));
    // Who could read it can.
    assert_eq!(sessions(&bob), [id(1)]);
    let there = whole(&mut bob.store(), &id(1));
    assert!(there.contains("What is [redacted:pattern]?") && there.contains("Gone on."), "{there}");
    let nothing = ann.json(&["archive", "sync", "--json"]);
    assert_eq!(nothing["sessions"], 0);
}

#[test]
fn what_is_taken_back_is_sent_no_more() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    ann.archive(&id(1), &text(&conversation()));
    ann.archive(&id(2), &text(&[user(10, "Something else."), says(11, "Yes.")]));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    assert_eq!(ann.output(&["archive", "revoke"]).code, Some(1), "none is withheld");
    let done = ann.json(&["archive", "revoke", &id(1), "--json"]);
    let expected =
        json!([{ "session": id(1), "was_there": true, "is_withheld": true, "turns": 2, "also_in": [], "is_hidden": false }]);
    assert_eq!(done["sessions"], expected);
    assert!(!has(&team, NAME) && !has(&team, &id(1)), "{}", everything(&team));
    assert_eq!((sessions(&bob), sessions(&ann)), (vec![], vec![id(2)]));

    // Neither when it grows, nor when everything is asked for.
    ann.archive(&id(1), &text(&[&conversation()[..], &[user(6, "More."), says(7, "More of it.")]].concat()));
    for arguments in [&["archive", "sync"][..], &["archive", "sync", "--full"]] {
        let said = ann.run(arguments);
        assert!(said.stdout.contains("1 session not sent"), "{}", said.stdout);
        assert_eq!(sessions(&ann), [id(2)]);
    }
    assert_eq!(ann.run(&["archive", "revoke"]).stdout, format!("{}\n", id(1)));
    // Again is no error.
    let again = ann.json(&["archive", "revoke", &id(1), "--json"]);
    assert_eq!(again["sessions"][0]["was_there"], false);

    // After all.
    ann.run(&["archive", "revoke", &id(1), "--resend"]);
    ann.run(&["archive", "sync"]);
    assert_eq!(whole(&mut ann.store(), &id(1)).matches("More of it.").count(), 1);
    assert_eq!(sessions(&bob), [""; 0], "it is seen as what is new");
}

#[test]
fn what_another_session_says_as_well_stays_there() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    // A fork: the same history, then something else.
    let fork = [&conversation()[..], &[user(6, "Another way."), says(7, "That way.")]].concat();
    ann.archive(&id(1), &text(&[&conversation()[..], &[user(8, "This way."), says(9, "This one.")]].concat()));
    ann.archive(&id(2), &text(&fork));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    let before = ann.json(&["archive", "search", "Nightjar", "--json", "--mode", "lexical"]);
    assert!(!before["results"].as_array().unwrap().is_empty());

    let said = ann.run(&["archive", "revoke", &id(1)]);
    assert!(said.stderr.contains("still there:") && said.stderr.contains(&id(2)), "{}", said.stderr);
    assert!(!has(&team, "This one.") && has(&team, "That way."), "{}", everything(&team));
    let of_it = |row: &&str| row.starts_with("entries: ") && row.contains(&id(1));
    assert_eq!(everything(&team).lines().find(of_it), None, "what both say is described as the other's");
    assert_eq!(whole(&mut ann.store(), &id(2)), text(&fork));
    let mut store = ann.store();
    let session = store.session(&id(2)).unwrap().unwrap();
    assert_eq!(store.turns(session.key, TurnSelection::All).unwrap().len(), 3);
    // What it shared with the one that the team saw, the team sees no more.
    let found = bob.output(&["archive", "search", "Nightjar", "--json", "--mode", "lexical"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&found).unwrap()["results"], json!([]));
    // What was learned of both is learned of the one that is left.
    ann.run(&["archive", "sync"]);
    let learned = store.learnings(&ctxbridge::archive::store::LearningQuery::default()).unwrap();
    assert!(learned.iter().any(|learning| learning.sentence.contains(NAME)), "{learned:?}");
}

#[test]
fn only_what_is_ones_own_and_not_lost_by_it() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    ann.archive(&id(1), &text(&conversation()));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    let refused = bob.output(&["archive", "revoke", &id(1), "--force"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("no session of yours"), "{}", refused.stderr);
    // He has one of that id himself: that is what he means.
    bob.archive(&id(1), &text(&conversation()));
    bob.run(&["archive", "sync"]);
    bob.run(&["archive", "revoke", &id(1)]);
    assert_eq!(whole(&mut ann.store(), &id(1)), text(&conversation()));
    assert_eq!(bob.output(&["archive", "revoke", "no-such"]).code, Some(1));

    // The archive here is gone: what is there is all that there is.
    let (path, data) = (ann.transcript(&id(1)), ann.data());
    fs::remove_file(path).unwrap();
    fs::remove_dir_all(data).unwrap();
    let refused = ann.fails(&["archive", "revoke", &id(1)]);
    assert!(refused.contains("it would be gone") && refused.contains("--force"), "{refused}");
    assert_eq!(sessions(&ann), [id(1)]);
    ann.run(&["archive", "revoke", "--all", "--force"]);
    assert_eq!((sessions(&ann), sessions(&bob)), (vec![], vec![]));
    assert!(!has(&team, NAME), "{}", everything(&team));
}

#[test]
fn what_is_only_there_is_not_lost_by_mistake() {
    let team = Team::new();
    let ann = team.member("ann");
    let agent = ann.client().join(format!("projects/p/{}/subagents/agent-a1.jsonl", id(1)));
    ann.archive(&id(1), &text(&conversation()));
    fs::create_dir_all(agent.parent().unwrap()).unwrap();
    let mut lines = [user(0, "Look for it."), says(1, "It is nowhere else.")];
    lines.iter_mut().for_each(|line| {
        line["isSidechain"] = true.into();
        line["agentId"] = "a1".into();
        line["sessionId"] = id(1).into();
    });
    fs::write(&agent, text(&lines)).unwrap();
    ann.run(&["archive", "import", agent.to_str().unwrap()]);
    ann.run(&["archive", "sync"]);
    assert!(has(&team, "It is nowhere else."));
    // Another machine, with the session's own transcript alone.
    fs::remove_dir_all(ann.data()).unwrap();
    fs::remove_file(&agent).unwrap();
    ann.archive(&id(1), &text(&conversation()));
    for arguments in [&["archive", "revoke", &id(1)][..], &["archive", "revoke", &id(1), "--resend"]] {
        let refused = ann.fails(arguments);
        assert!(refused.contains("agent-a1.jsonl") && refused.contains("--force"), "{refused}");
        assert!(has(&team, "It is nowhere else."));
    }
    assert_eq!(ann.output(&["archive", "revoke"]).code, Some(1), "and nothing else is done");
    ann.run(&["archive", "revoke", &id(1), "--force"]);
    assert_eq!(sessions(&ann), [""; 0]);
}

#[test]
fn what_names_a_project_is_taken_back_as_well() {
    let team = Team::new();
    let ann = team.member("ann").with("CTXBRIDGE_POSTGRES_VISIBILITY", "project");
    let of_project = |number: u32, name: &str| {
        let mut lines = [user(0, format!("Of session {number}.")), says(1, "Yes.")];
        lines.iter_mut().for_each(|line| line["cwd"] = format!("/work/{name}").into());
        ann.archive(&id(number), &text(&lines));
    };
    of_project(1, NAME);
    of_project(2, "ledger");
    of_project(3, "ledger");
    ann.run(&["archive", "sync"]);
    assert!(everything(&team).contains(&format!("project:{NAME}")));
    let ann = ann.with("CTXBRIDGE_REDACT_PATTERNS", PATTERN);
    let said = ann.run(&["archive", "revoke", &id(1), "--resend"]);
    assert!(said.stdout.contains("by you alone"), "{}", said.stdout);
    ann.run(&["archive", "sync"]);
    assert!(!has(&team, NAME), "{}", everything(&team));
    assert_eq!(whole(&mut ann.store(), &id(1)).matches("Of session 1.").count(), 1);
    // One whose project she has left since: it is hers alone.
    let leave = "SELECT ctxbridge.remove_from_project('acme', 'ledger', session_user::text)";
    team.database.client_of(&ann.role).unwrap().execute(leave, &[]).unwrap();
    let said = ann.run(&["archive", "revoke", &id(2), &id(3), "--resend"]);
    assert_eq!(said.stdout.matches("by you alone").count(), 2, "{}", said.stdout);
    ann.with("CTXBRIDGE_POSTGRES_VISIBILITY", "private").run(&["archive", "sync"]);
    assert_eq!(sessions(&ann).len(), 3);
}

#[test]
fn which_sessions_are_meant() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(0x77aa), &text(&conversation()));
    ann.archive(&id(0x77bb), &text(&conversation()));
    ann.run(&["archive", "sync"]);
    let said = ann.run(&["archive", "revoke", &id(0x77aa), &id(0x77bb)]);
    assert!(!said.stderr.contains("still there"), "{}", said.stderr);
    assert!(ann.fails(&["archive", "revoke", "0000", "--resend"]).contains("several sessions begin with"));
    for arguments in [&["archive", "revoke", "--resend"][..], &["archive", "revoke", "--force"]] {
        assert_eq!(ann.output(arguments).code, Some(2));
    }
    // One that is to be sent again, and was not yet, is still one of hers.
    for again in ["--resend", "--all"] {
        let named = if again == "--all" { vec![] } else { vec![id(0x77aa)] };
        ann.run(&["archive", "sync"]);
        let arguments: Vec<&str> = ["archive", "revoke", again].into_iter().chain(named.iter().map(String::as_str)).collect();
        ann.output(&arguments);
    }
    assert!(!has(&team, NAME), "{}", everything(&team));
    // Who sends meanwhile is waited for, and nothing is sent of it from then on, whatever comes of that.
    let held = fs::File::options().append(true).open(ann.data().join("sync/lock")).unwrap();
    held.lock().unwrap();
    let refused = ann.fails(&["archive", "revoke", &id(0x77bb)]);
    assert!(refused.contains("nothing was deleted from the server yet"), "{refused}");
    drop(held);
    assert!(ann.run(&["archive", "revoke"]).stdout.contains(&id(0x77bb)));
}

#[test]
fn nothing_more_is_sent_even_while_the_server_is_away() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(1), &text(&conversation()));
    ann.run(&["archive", "sync"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = ann.at_port(closed).fails(&["archive", "revoke", &id(1)]);
    assert!(refused.contains("what was sent is still there"), "{refused}");
    ann.archive(&id(1), &text(&[&conversation()[..], &[user(6, "More."), says(7, "More of it.")]].concat()));
    ann.run(&["archive", "sync"]);
    assert!(!whole(&mut ann.store(), &id(1)).contains("More of it."));
    ann.run(&["archive", "revoke", &id(1)]);
    assert_eq!(sessions(&ann), [""; 0]);
    // Nor where there is none yet.
    let alone = Member::with(&ann, "CTXBRIDGE_POSTGRES_SEARCH", "off").without_server();
    alone.archive(&id(2), &text(&[user(10, "Something else."), says(11, "Yes.")]));
    let said = alone.run(&["archive", "revoke", &id(2)]);
    assert!(said.stdout.contains("it is not sent any more"), "{}", said.stdout);
    assert_eq!(ann.json(&["archive", "sync", "--json"])["withheld"], 2);
    // What cannot be read might say anything.
    fs::write(ann.data().join("sync/withheld.json"), "[").unwrap();
    let refused = ann.fails(&["archive", "sync"]);
    assert!(refused.contains("withheld.json") && refused.contains("mend it"), "{refused}");
}

#[test]
fn paths_and_names_of_projects_have_no_secrets_either() {
    let team = Team::new();
    let ann = team.member("ann").with("CTXBRIDGE_REDACT_PATTERNS", PATTERN).with("CTXBRIDGE_POSTGRES_VISIBILITY", "project");
    let folder = ann.data().parent().unwrap().join(format!("work/{NAME}"));
    let other = ann.data().parent().unwrap().join("work/Nightjar-78");
    for (number, folder) in [(1, &folder), (2, &other)] {
        fs::create_dir_all(folder.join(".git")).unwrap();
        let mut lines = vec![user(0, format!("Of session {number}.")), says(1, "Yes.")];
        lines.iter_mut().for_each(|line| line["cwd"] = folder.to_str().unwrap().into());
        // One session in two folders of the client, whose names come to the same.
        for name in [NAME, "nightjar-78"] {
            let path = ann.client().join(format!("projects/-work-{name}/{}.jsonl", id(number)));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            lines.push(user(2, format!("In {name}.").to_lowercase()));
            fs::write(&path, text(&lines)).unwrap();
            ann.run(&["archive", "import", path.to_str().unwrap()]);
        }
    }
    let said = ann.run(&["archive", "sync"]);
    assert!(said.stderr.contains("2 sessions stay private:"), "{}", said.stderr);
    assert!(!has(&team, "nightjar"), "{}", everything(&team));
    let mut store = ann.store();
    for number in [1, 2] {
        let session = store.session(&id(number)).unwrap().unwrap();
        assert_eq!(store.transcripts(session.key).unwrap().len(), 2);
    }
    // They are known again.
    assert_eq!(ann.json(&["archive", "sync", "--json"])["sessions"], 0);
    let whole = ann.json(&["archive", "sync", "--full", "--json"]);
    assert_eq!((&whole["bytes"], &whole["turns"]), (&json!(0), &json!(0)), "{whole}");
}
