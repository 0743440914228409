//! Damage in the archive of this machine is undone from the team's server, where that has the same bytes.

use ctxbridge_common::sqlite;
use rusqlite::OpenFlags;
use serde_json::Value;

use super::TOKEN;
use super::lines::{says, text, user};
use super::member::{Team, id};

#[test]
fn a_piece_comes_back_from_the_server() {
    let team = Team::new();
    let ann = team.member("ann");
    let same = text(&[user(0, "Where do the ospreys nest?"), says(1, "On the pier.")]);
    ann.archive(&id(1), &same);
    // Of this one the server has another text, without the secret.
    ann.archive(&id(2), &text(&[user(10, format!("Log in with {TOKEN}.")), says(11, "Logged in.")]));
    ann.run(&["archive", "sync"]);
    let db = sqlite::open_file(&ann.data().join("archive.db"), OpenFlags::default()).unwrap();
    db.execute("UPDATE segments SET data = x'00'", []).unwrap();
    // Nobody knows the files any more.
    db.execute("UPDATE transcripts SET path = path || '.gone'", []).unwrap();
    drop(db);
    let said = ann.output(&["archive", "optimize", "--verify", "--json"]);
    let segments = serde_json::from_str::<Value>(&said.stdout).unwrap()["repairs"]["segments"].clone();
    assert_eq!((segments["healed"].as_u64(), segments["lost"].as_array().unwrap().len()), (Some(1), 1), "{segments}");
    assert_eq!(segments["lost"][0]["session"], id(2).as_str());
    assert!(ann.run(&["archive", "restore", &id(1)]).stdout == same);
}
