//! What the database does for that.

use ctxbridge::archive::maintain::run_maintenance;
use ctxbridge::archive::maintenance::MaintenanceMode;

use super::hot::over;
use super::kinds::{self, Kind};
use super::place::{DAY, HOUR, NOW, Place, usual};

/// An id that is given away again is not as old as the entry that had it before.
#[test]
fn a_new_entry_is_new_whatever_its_id() {
    let mut place = over(Kind::Sqlite, 1);
    place.cycle(NOW);
    place.cycle(NOW + 20 * HOUR);
    place.cycle(NOW + 40 * HOUR);
    let last = place.entry("s", 5);
    let db = kinds::database(place.data.path());
    db.execute("DELETE FROM turns WHERE entry = ?1", [last]).unwrap();
    db.execute("DELETE FROM entries WHERE id = ?1", [last]).unwrap();
    drop(db);
    place.add("t", &[(NOW, 20)]);
    assert_eq!(place.entry("t", 20), last);
    assert_eq!(place.turns("t")[0].confidence, 0.8);
    assert!((place.turns("s")[0].confidence - 0.6).abs() < 1e-9);
}

/// What a cycle notes down is a line, and forgotten when nobody can tell the difference; to be pruned takes no room.
#[test]
fn the_database_does_not_grow_by_being_pruned() {
    const PAGE: u64 = 4096;
    let made = |optimizes: bool| {
        let mut place = Place::new(Kind::Sqlite);
        place.add("s", &(0..5_000).map(|content| (NOW - 60 * DAY, content)).collect::<Vec<_>>());
        for hour in 1..300 {
            place.add("t", &[(NOW + hour * HOUR, 10_000 + hour as u32)]);
            if optimizes {
                place.cycle(NOW + hour * HOUR);
            }
        }
        place
    };
    let (mut place, mut other) = (made(true), made(false));
    let (totals, others) = (place.store.totals().unwrap(), other.store.totals().unwrap());
    assert!(totals.pruned > 4_900 && others.pruned == 0, "{totals:?}");
    let rows: i64 = kinds::database(place.data.path()).query_row("SELECT count(*) FROM decays", [], |row| row.get(0)).unwrap();
    assert!(rows <= 141, "{rows} cycles are remembered");
    assert!(totals.bytes_stored <= others.bytes_stored + 3 * PAGE, "{totals:?} {others:?}");
}

#[test]
fn a_failure_in_the_middle() {
    let made = || {
        let mut place = Place::new(Kind::Sqlite);
        let turns: Vec<_> = (0..20).map(|content| (NOW - i64::from(content % 2) * 60 * DAY, content)).collect();
        place.add("s", &turns);
        place.cycle(NOW);
        place
    };
    let later = NOW + 131 * HOUR;
    let mut control = made();
    control.cycle(later);
    // When the first is pruned, one in the middle, the last; when hot turns are looked for, and when that there was a change is noted.
    let triggers = [1, 9, 17]
        .map(|id| format!("BEFORE UPDATE OF confidence ON entries WHEN OLD.id = {id}"))
        .into_iter()
        .chain(["hot_from ON transcripts", "value ON notes"].map(|what| format!("AFTER UPDATE OF {what}")))
        .chain(["BEFORE INSERT ON decays".to_owned()]);
    for trigger in triggers {
        let mut place = made();
        let before = place.dump();
        let db = kinds::database(place.data.path());
        db.execute_batch(&format!("CREATE TRIGGER fault {trigger} BEGIN SELECT RAISE(ABORT, 'injected'); END")).unwrap();
        let error = run_maintenance(&mut *place.store, &usual(), MaintenanceMode::Apply, later).unwrap_err();
        assert!(error.to_string().contains("injected"), "{trigger}: {error}");
        assert_eq!(place.dump(), before, "{trigger}");
        db.execute_batch("DROP TRIGGER fault").unwrap();
        place.cycle(later);
        assert_eq!(place.dump(), control.dump(), "{trigger}");
    }
}
