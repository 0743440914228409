//! Several writers and a reader on one archive in JSON Lines.

use std::sync::atomic::{AtomicBool, Ordering};

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use ctxbridge_testkit::transcript::{Kind, append_turn};
use serde_json::Value;

use super::obstacle::{assert_lines_sound, choosing_lines, lines_hook, lines_json, lines_restored};

const WRITERS: u64 = 4;
const TURNS: u64 = 12;

#[test]
fn four_writers_and_a_reader() {
    let sandbox = Sandbox::new();
    let made: Vec<Talk> =
        (1..=WRITERS).flat_map(|seed| sandbox.generate(Kind::Chat, 60, seed)).map(|made| Talk::from(&made)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = made
            .iter()
            .map(|talk| {
                scope.spawn(|| {
                    for number in 0..TURNS {
                        append_turn(&talk.path, number).unwrap();
                        lines_hook(&sandbox, "stop", &talk.input());
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                let turns = lines_json(&sandbox, &["archive", "status"])["turns"].as_u64().unwrap();
                assert!(turns >= most, "turns went: {turns} after {most}");
                most = turns;
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // What one had to leave to the next, since all others were writing.
    run(choosing_lines(&sandbox, &["archive", "import"]), b"").done();
    assert_lines_sound(&sandbox);
    for talk in &made {
        assert!(lines_restored(&sandbox, talk) == talk.bytes());
    }
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
    let errors: Vec<Value> = sandbox.log();
    assert!(errors.iter().all(|line| line["error"].as_str().unwrap().contains("another process")), "{errors:?}");
}
