//! Forgetting, where a server has what was sent: it goes there, too, and what is left of a session is sent again.

use serde_json::json;

use super::lines::{says, text, user};
use super::member::{Team, id};
use super::revoke::has;
use super::{sessions, whole};

/// What is to be forgotten.
const NAME: &str = "Potoroo-Plan";

#[test]
fn a_turn_goes_from_the_server_and_the_rest_is_sent_again() {
    let team = Team::new();
    let (ann, bob) = (team.member("ann"), team.member("bob"));
    let lines = [
        user(0, "Go on."),
        says(1, "Gone on."),
        user(2, format!("What is the {NAME}?")),
        says(3, &format!("The {NAME} is mine.")),
    ];
    ann.archive(&id(1), &text(&lines));
    ann.archive(&id(2), &text(&[user(10, "Something else."), says(11, "Yes.")]));
    ann.run(&["archive", "sync"]);
    ann.run(&["archive", "share", &id(1), "team"]);
    assert!(has(&team, NAME));
    let said = ann.run(&["forget", "--yes", "--match", NAME]);
    assert!(said.stdout.contains("forgotten: 1 turn"), "{}", said.stdout);
    assert!(!has(&team, NAME));
    ann.run(&["archive", "sync"]);
    assert!(!has(&team, NAME));
    let there = whole(&mut bob.store(), &id(1));
    assert!(there.contains("Gone on.") && !there.contains(NAME), "{there}");
    // The client's own file has it, and it does not come back.
    ann.archive(&id(1), &text(&[&lines[..], &[user(4, "More."), says(5, "More of it.")]].concat()));
    ann.run(&["archive", "sync"]);
    assert!(!has(&team, NAME));
    assert!(whole(&mut bob.store(), &id(1)).contains("More of it."));
}

#[test]
fn a_session_goes_from_the_server() {
    let team = Team::new();
    let ann = team.member("ann");
    ann.archive(&id(1), &text(&[user(0, format!("What is the {NAME}?")), says(1, "Nothing.")]));
    ann.archive(&id(2), &text(&[user(10, "Something else."), says(11, "Yes.")]));
    ann.run(&["archive", "sync"]);
    ann.run(&["forget", "--yes", &id(1)]);
    assert!(!has(&team, NAME) && !has(&team, &id(1)));
    assert_eq!(ann.json(&["archive", "sync", "--json"])["sessions"], json!(0));
    assert_eq!(sessions(&ann), [id(2)]);
}
