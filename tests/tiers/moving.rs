//! Bytes are the same, wherever they are: warm, cold, back, of forks, of rewritten transcripts, of sub-agents.

use ctxbridge_testkit::sandbox::{Sandbox, Talk};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

use super::place::Place;

fn generated(place: &Place, kind: Kind, messages: u64, seed: u64) -> Vec<Talk> {
    place.sandbox.generate(kind, messages, seed).iter().map(Talk::from).collect()
}

/// A session of 6 MB with not many turns.
fn large(place: &Place, kind: Kind, seed: u64) -> Vec<Talk> {
    let spec = Spec { bytes: Some(6 << 20), ..Spec::new(kind, 500, seed) };
    generate(&spec, &place.sandbox.project()).unwrap().sessions.iter().map(Talk::from).collect()
}

/// All sub-agents' transcripts of a session, as the archive has them.
fn agents(sandbox: &Sandbox, talk: &Talk) -> Vec<(String, Vec<u8>)> {
    let db = sandbox.db();
    let mut select = db
        .prepare(
            "SELECT agent FROM transcripts WHERE agent NOT GLOB '/*' AND session = (SELECT id FROM sessions WHERE session = ?1)",
        )
        .unwrap();
    let agents: Vec<String> = select.query_map([&talk.id], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    agents.into_iter().map(|agent| (agent.clone(), sandbox.restored(&talk.id, &["--agent", &agent]))).collect()
}

#[test]
fn warm_is_smaller_and_the_same() {
    let place = Place::new();
    // From 16 MB on there is a dictionary.
    let mut talks = large(&place, Kind::Tools, 1);
    talks.extend(large(&place, Kind::Agents, 2));
    talks.extend(large(&place, Kind::Chat, 3));
    place.import();
    let before = place.kept();
    let sub_agents = agents(&place.sandbox, &talks[1]);
    assert!(!sub_agents.is_empty());
    let dry = place.run(&["archive", "optimize", "--dry-run", "--json"]).json();
    assert_eq!(dry["tiers"]["cold"]["sessions"], 3);
    assert_eq!(place.kept(), before, "a dry run changes nothing");
    let said = place.warm();
    assert_eq!(said["failed"], serde_json::json!([]));
    let dictionary = place.sandbox.count("SELECT sum(length(data)) FROM dictionaries");
    assert!(dictionary > 0, "{said}");
    assert!(place.kept() + dictionary < before, "{} and {dictionary} instead of {before}", place.kept());
    assert_eq!(said["warm"]["bytes_after"].as_i64(), Some(place.kept()));
    assert!(talks.iter().all(|talk| place.tier(talk) == "warm"));
    place.assert_all(&talks.iter().collect::<Vec<_>>());
    assert!(agents(&place.sandbox, &talks[1]) == sub_agents);
    // It is done once.
    assert_eq!(place.warm()["warm"]["segments"], 0);
    // What is added to a warm session is hot, and joined with what is warm.
    ctxbridge_testkit::transcript::append_turn(&talks[0].path, 77).unwrap();
    place.sandbox.quiet_hook("stop", &talks[0].input());
    assert_eq!(place.tier(&talks[0]), "hot");
    place.assert_all(&talks.iter().collect::<Vec<_>>());
    place.sandbox.assert_archived(&talks[0]);
}

#[test]
fn cold_and_back() {
    let place = Place::new();
    let mut talks = generated(&place, Kind::Agents, 300, 2);
    talks.extend(generated(&place, Kind::Chat, 100, 3));
    place.import();
    let sub_agents = agents(&place.sandbox, &talks[0]);
    let said = place.optimize();
    assert_eq!((&said["cold"]["sessions"], &said["failed"]), (&2.into(), &serde_json::json!([])));
    assert_eq!(place.kept(), 0);
    assert_eq!(place.files().len(), 2);
    place.assert_all(&[&talks[0], &talks[1]]);
    assert!(agents(&place.sandbox, &talks[0]) == sub_agents);
    place.sandbox.assert_archived(&talks[0]);
    place.sandbox.assert_archived(&talks[1]);
    assert_eq!(place.optimize()["cold"]["sessions"], 0, "it is done once");
    // It is used: it comes back, and only it.
    place.use_it(&talks[0]);
    let said = place.optimize();
    assert_eq!((&said["back"]["sessions"], &said["cold"]["sessions"]), (&1.into(), &0.into()));
    assert_eq!((place.tier(&talks[0]), place.tier(&talks[1])), ("hot".to_owned(), "cold".to_owned()));
    assert_eq!(place.files().len(), 2, "a backup of the database may need it");
    // When nobody uses it again, it goes where it was.
    place.forget_use();
    let said = place.optimize();
    assert_eq!((&said["cold"]["sessions"], place.files().len(), place.kept()), (&1.into(), 2, 0));
    place.assert_all(&[&talks[0], &talks[1]]);
    assert!(agents(&place.sandbox, &talks[0]) == sub_agents);
}

/// The second session begins with a copy of the first one's lines; both have segments of the other.
#[test]
fn forks_share() {
    let place = Place::new();
    let (first, _) = place.old(1, 3_000);
    let mut lines = super::lines::Lines::of("fork").seed(9);
    let second = place.sandbox.talk(2, [first.bytes(), lines.turns(3).into_bytes()].concat());
    // A third one has just the same, and goes on today.
    let third = place.sandbox.talk(3, first.bytes());
    place.import();
    let now = jiff::Timestamp::now();
    third.append(lines.turn("Today").replace("2026-06-01", &now.strftime("%Y-%m-%d").to_string()));
    place.sandbox.quiet_hook("stop", &third.input());
    let shared = place.sandbox.count("SELECT count(*) FROM (SELECT segment FROM layout GROUP BY segment HAVING count(*) > 1)");
    assert!(shared > 0, "nothing is shared");
    let before = place.kept();
    assert_eq!(place.optimize()["cold"]["sessions"], 2);
    let kept = place.kept();
    assert!(0 < kept && kept < before, "{kept} of {before}: what the third session needs stays");
    let talks = [&first, &second, &third];
    place.assert_all(&talks);
    // The third one goes as well: now nothing is left.
    place.forget_use();
    assert_eq!(place.optimize()["cold"]["sessions"], 1);
    assert_eq!(place.kept(), 0);
    place.assert_all(&talks);
    // One comes back, with what it shares; the others stay.
    place.use_it(&second);
    place.optimize();
    place.assert_all(&talks);
    let tiers = talks.map(|talk| place.tier(talk));
    // What is restored of a shared turn is restored of all that have it.
    assert!(tiers.contains(&"hot".to_owned()), "{tiers:?}");
    // A copy of a session that is cold: its bytes are here again.
    place.forget_use();
    assert_eq!(place.optimize()["cold"]["sessions"], 3);
    assert_eq!(place.kept(), 0);
    let fourth = place.sandbox.talk(4, first.bytes());
    place.sandbox.quiet_hook("stop", &fourth.input());
    std::fs::rename(place.cold(), place.sandbox.path("elsewhere")).unwrap();
    assert!(place.sandbox.restored(&fourth.id, &[]) == fourth.bytes());
    place.sandbox.assert_sound();
}

#[test]
fn rewritten_transcripts_are_moved_with_what_they_were() {
    let place = Place::new();
    let (talk, mut lines) = place.old(1, 1_500);
    place.import();
    let old = talk.bytes();
    let kept = old.len() / 2 + old[old.len() / 2..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    talk.write([&old[..kept], lines.turns(5).as_bytes()].concat());
    place.sandbox.quiet_hook("user-prompt-submit", &talk.input());
    let new = talk.bytes();
    let shown = |place: &Place| place.sandbox.json(&["archive", "show", &talk.id, "--all", "--full"])["turns"].clone();
    let turns = shown(&place);
    for step in ["cold", "back"] {
        if step == "back" {
            place.use_it(&talk);
        }
        assert_eq!(place.optimize()[step]["sessions"], 1);
        place.sandbox.assert_sound();
        assert!(place.sandbox.restored(&talk.id, &["--generation", "0"]) == old, "{step}");
        assert!(place.sandbox.restored(&talk.id, &["--generation", "1"]) == new, "{step}");
        let now = shown(&place);
        let texts =
            |turns: &serde_json::Value| turns.as_array().unwrap().iter().map(|turn| turn["text"].clone()).collect::<Vec<_>>();
        assert!(texts(&now) == texts(&turns), "{step}: turns that were superseded say the same");
    }
}

/// Turns are appended at any time: they are hot, and the file is left alone.
#[test]
fn a_cold_session_goes_on() {
    let place = Place::new();
    let (talk, mut lines) = place.old(1, 50);
    place.import();
    place.optimize();
    let file = std::fs::read(place.file(&talk)).unwrap();
    // Not even there, as far as a hook knows.
    std::fs::rename(place.cold(), place.sandbox.path("gone")).unwrap();
    talk.append(lines.turn("It goes on"));
    place.sandbox.quiet_hook("stop", &talk.input());
    // After it was moved, at whatever time of day this runs.
    let now = (jiff::Timestamp::now() + jiff::SignedDuration::from_mins(1)).strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let turn = lines.turn("Today");
    let times: Vec<&str> = turn.match_indices("2026-06-01T").map(|(at, _)| &turn[at..at + now.len()]).collect();
    assert!(!times.is_empty());
    talk.append(times.iter().fold(turn.clone(), |turn, time| turn.replace(time, &now)));
    place.sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(place.sandbox.log(), [] as [serde_json::Value; 0]);
    std::fs::rename(place.sandbox.path("gone"), place.cold()).unwrap();
    assert!(std::fs::read(place.file(&talk)).unwrap() == file);
    assert_eq!(place.tier(&talk), "cold");
    place.assert_all(&[&talk]);
    assert_eq!(place.optimize()["back"]["sessions"], 1);
    assert_eq!((place.tier(&talk).as_str(), place.files().len()), ("hot", 1));
    place.assert_all(&[&talk]);
    place.sandbox.assert_archived(&talk);
}

/// It got old lines from somewhere, and is as idle as before: it is moved again, into another file.
#[test]
fn what_grew_and_is_idle_is_moved_again() {
    let place = Place::new();
    let (talk, mut lines) = place.old(1, 50);
    place.import();
    place.optimize();
    talk.append(lines.turns(2));
    place.sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(place.optimize()["cold"]["sessions"], 1);
    assert_eq!((place.kept(), place.files().len()), (0, 2), "none is written over");
    std::fs::remove_file(place.file(&talk)).unwrap();
    place.assert_all(&[&talk]);
}

#[test]
fn cold_sessions_are_found_shown_and_recalled() {
    let place = Place::new();
    let (talk, mut lines) = place.old(1, 20);
    talk.append(lines.turn("Where does the wombat ledger keep its totals?"));
    place.import();
    place.optimize();
    let found = place.sandbox.json(&["archive", "search", "wombat"]);
    let handle = found["results"][0]["handle"].as_str().unwrap_or_else(|| panic!("{found}")).to_owned();
    assert!(place.sandbox.cli(&["recall", &handle]).stdout.contains("wombat ledger"));
    assert!(place.sandbox.cli(&["archive", "show", &talk.id]).stdout.contains("wombat ledger"));
    assert!(place.sandbox.cli(&["archive", "export", &talk.id, "--format", "markdown"]).stdout.contains("wombat ledger"));
    // The index is made anew from cold files as well.
    std::fs::remove_file(place.sandbox.data().join("search.db")).unwrap();
    assert_eq!(place.sandbox.json(&["archive", "search", "wombat"])["results"][0]["handle"], handle.as_str());
}
