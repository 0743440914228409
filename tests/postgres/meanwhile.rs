//! Who may read what, changed while something else is written.

use std::thread;
use std::time::Duration;

use ctxbridge::archive::search::filter::Filter;
use ctxbridge::config::Visibility;

use super::lines::{says, user};
use super::people::{MODEL, People, vector};
use ctxbridge::archive::store::{SearchBackend, SessionReader};

/// Until so many connections wait for another one.
fn await_waiting(people: &People, count: i64) {
    let mut admin = people.database.admin().unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..600 {
        if admin.query_one(sql, &[]).unwrap().get::<_, i64>(0) >= count {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{count} connections should wait");
}

#[test]
fn two_sessions_that_are_hidden_at_once_are_hidden() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let same = [user(1, "Shared words zzyzx."), says(2, "The same answer.")];
    let sessions = ["first", "second"].map(|name| people.archive(&mut alice, name, &same));
    for session in sessions {
        alice.set_visibility(session, Visibility::Team).unwrap();
    }
    let found = || people.store(&people.carol).search_text("\"zzyzx\"", &Filter::default(), 9).unwrap().len();
    assert_eq!(found(), 1);
    // Both have begun before one of them is done.
    let mut admin = people.database.admin().unwrap();
    let mut holding = admin.transaction().unwrap();
    holding.batch_execute("LOCK TABLE ctxbridge.learnings IN EXCLUSIVE MODE").unwrap();
    thread::scope(|scope| {
        for session in sessions {
            let people = &people;
            scope.spawn(move || people.store(&people.alice).set_visibility(session, Visibility::Private).unwrap());
        }
        await_waiting(&people, 2);
        holding.commit().unwrap();
    });
    let entry = alice.first_entry(sessions[0]).unwrap().unwrap();
    assert_eq!((found(), people.store(&people.carol).texts_of(&[entry], 9).unwrap().len()), (0, 0));
}

#[test]
fn what_is_hidden_anew_is_hidden_whatever_went_wrong_before() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let session = people.archive(&mut alice, "first", &[user(1, "Shared words zzyzx."), says(2, "An answer.")]);
    let entry = alice.first_entry(session).unwrap().unwrap();
    let spoil = "UPDATE ctxbridge.entries SET audience = '{team}' WHERE id = $1";
    people.database.admin().unwrap().execute(spoil, &[&entry]).unwrap();
    let seen = || people.store(&people.carol).texts_of(&[entry], 9).unwrap().len();
    assert_eq!(seen(), 1);
    assert!(alice.set_visibility(session, Visibility::Private).unwrap());
    assert_eq!(seen(), 0);
}

#[test]
fn a_vector_tells_nobody_of_what_is_hidden_meanwhile() {
    let people = People::new();
    let mut alice = people.store(&people.alice);
    let session = people.archive(&mut alice, "first", &[user(1, "Shared words zzyzx."), says(2, "An answer.")]);
    alice.set_visibility(session, Visibility::Team).unwrap();
    let entry = alice.first_entry(session).unwrap().unwrap();
    let near = || {
        let hits = people.store(&people.carol).search_vectors(MODEL, &vector("zzyzx"), &Filter::default(), 99).unwrap();
        hits.iter().filter(|hit| hit.0 == entry).count()
    };
    let mut client = people.client(&people.alice);
    let mut writing = client.transaction().unwrap();
    let numbers = vector("zzyzx").iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let put = "SELECT ctxbridge.put_vectors('acme', $1, ARRAY[$2::bigint], ARRAY[0::smallint], ARRAY[$3::text])";
    writing.execute(put, &[&MODEL, &entry, &format!("[{numbers}]")]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| people.store(&people.alice).set_visibility(session, Visibility::Private).unwrap());
        await_waiting(&people, 1);
        writing.commit().unwrap();
    });
    assert_eq!(near(), 0);
    alice.set_visibility(session, Visibility::Team).unwrap();
    assert_eq!(near(), 1);
    // Nor where a vector says of itself that it may be found.
    people.database.admin().unwrap().execute("UPDATE ctxbridge.entries SET audience = NULL WHERE id = $1", &[&entry]).unwrap();
    assert_eq!(near(), 0);
}
