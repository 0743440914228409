//! What people and scripts are told.

use ctxbridge_testkit::sandbox::run;

use super::place::Place;

#[test]
fn what_is_where() {
    let place = Place::new();
    let (talk, _) = place.old(1, 30);
    place.import();
    let status = |place: &Place| place.sandbox.json(&["archive", "status"]);
    let words = |status: &serde_json::Value| {
        let tiers = status["tiers"].as_array().unwrap().iter();
        tiers.map(|tier| format!("{} {}", tier["tier"].as_str().unwrap(), tier["sessions"])).collect::<Vec<_>>()
    };
    assert_eq!(words(&status(&place)), ["hot 1", "warm 0", "cold 0"]);
    assert!(!place.sandbox.cli(&["archive", "status"]).stdout.contains("hot 1"));
    let told = place.run(&["archive", "optimize", "-v"]).stdout;
    assert!(told.contains("1 session moved to cold storage: "), "{told}");
    let found = status(&place);
    assert_eq!(words(&found), ["hot 0", "warm 0", "cold 1"]);
    let bytes = std::fs::metadata(place.file(&talk)).unwrap().len();
    assert_eq!(found["tiers"][2]["bytes_stored"], bytes);
    assert_eq!(found["tiers"][2]["bytes_raw"], talk.bytes().len());
    assert_eq!(found["cold_folders"][0]["files"], 1);
    let told = place.sandbox.cli(&["archive", "status"]).stdout;
    assert!(told.contains("cold") && told.contains(place.cold().to_str().unwrap()), "{told}");
    assert!(place.sandbox.cli(&["sessions", "-v"]).stdout.contains("(cold)"));
    place.use_it(&talk);
    let told = place.run(&["archive", "optimize", "--dry-run", "-v"]).stdout;
    assert!(told.contains("1 session would be brought back from cold storage: "), "{told}");
    let told = place.run(&["archive", "optimize", "-v"]).stdout;
    assert!(told.contains("1 session brought back from cold storage: "), "{told}");
    let mut command = place.command(&["archive", "optimize", "--dry-run"]);
    command.env("CTXBRIDGE_ARCHIVE_COLD_AFTER_DAYS", "0");
    assert!(!run(command, b"").done().stdout.contains("cold"), "0 is never");
}
