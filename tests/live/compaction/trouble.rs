//! Whatever is wrong with the program that the mod runs, the client compacts by itself, and the session goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ctxbridge::client::releases;
use ctxbridge::stub::{RequestKind, ThinkingRules};

use super::stage::{CTXBRIDGE, Stage, Turn, count};
use super::{WINDOW, calls};

/// The program is there, and does as a file beside it says.
struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    fn new() -> Self {
        let program = Self { folder: tempfile::tempdir().unwrap() };
        let folder = program.folder.path().display();
        // Its data folder is a file then.
        fs::write(program.folder.path().join("file"), "").unwrap();
        fs::write(program.folder.path().join("mode"), "").unwrap();
        let script = format!(
            "#!/bin/sh\ncase \"$(cat '{folder}/mode') $1 $2\" in\n\
             'hang mod answer') exec sleep 20 ;;\n\
             'garble mod answer') echo '{{\"messages\":[{{\"row\":'; exit 0 ;;\n\
             'another mod answer') echo '{{\"messages\":[{{\"row\":1000000}},{{\"role\":\"user\"}}]}}'; exit 0 ;;\n\
             'unwritable '*) CTXBRIDGE_DATA_DIR='{folder}/file' ;;\n\
             'full '*) trap '' 25; ulimit -f 0 ;;\n\
             esac\nexec '{CTXBRIDGE}' \"$@\"\n"
        );
        fs::write(program.path(), script).unwrap();
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ctxbridge")
    }
}

/// From now on the program does so; `missing` takes it away.
fn turn_to(program: &Path, mode: &str) {
    let away = program.with_extension("away");
    if mode == "missing" {
        fs::rename(program, away).unwrap();
    } else {
        fs::rename(away, program).ok();
        fs::write(program.with_file_name("mode"), mode).unwrap();
    }
}

/// Enough for a compaction by hand: 66 KB of results.
fn filling(program: &Path, mode: &'static str, number: usize) -> Turn {
    let steps = [calls([count(number, 800), count(number + 1, 800)]), calls([count(number + 2, 800)])];
    let program = program.to_owned();
    Turn::with_calls(&format!("Count, and mind that it is {mode}."), steps, "Counted.").doing(move || turn_to(&program, mode))
}

/// One session with each kind of trouble, each followed by a compaction by hand; in the end all is well, but for a wish.
fn trouble(version: &'static str) {
    let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
    let stage = Stage::of(version, &release, WINDOW, ThinkingRules::Free);
    let program = Program::new();
    stage.run_by_plugin(&program.path());
    // No file may grow where the disk is full.
    const MODES: [&str; 7] = ["missing", "hang", "garble", "another", "unwritable", "full", "well"];
    let turns = MODES.iter().enumerate().flat_map(|(at, mode)| {
        [filling(&program.path(), mode, 10 * at), Turn::command("/compact"), Turn::new(&format!("Is it {mode}?"), "It is.")]
    });
    let wish = [Turn::command("/compact keep the ports"), Turn::new("Is it as wished?", "It is.")];
    let said = stage.say(turns.chain(wish).collect());
    let mut summaries = Vec::new();
    for mode in MODES {
        let is_about = |text: &str| text.contains(&format!("Is it {mode}?"));
        let at = said.iter().position(|request| request.is_main() && request.human_prompts().iter().any(|said| is_about(said)));
        let before = &said[..at.unwrap_or_else(|| panic!("{version}: the session goes on after {mode}"))];
        summaries.push(before.iter().filter(|request| request.kind == RequestKind::Compaction).count());
    }
    assert_eq!(summaries, [1, 2, 3, 4, 5, 6, 6], "{version}: a summary for each trouble, and none where all is well");
    let answers: Vec<bool> = stage.answers().iter().map(|answer| answer.messages_after.is_some()).collect();
    assert_eq!(
        answers,
        [true, false],
        "{version}: who has a wish is not answered, and that is noted behind an answer that is new"
    );
    let asked: Vec<_> = said.iter().filter(|request| request.kind == RequestKind::Compaction).collect();
    assert_eq!(asked.len(), 7, "{version}");
    let with_wish = asked.iter().map(|request| request.text_blocks().last().unwrap().text.contains("keep the ports"));
    assert_eq!(with_wish.collect::<Vec<_>>(), [false, false, false, false, false, false, true], "{version}");
    let last = said.iter().rfind(|request| request.is_main()).expect("the question behind the wish");
    let is_restored = last.text_blocks().iter().any(|block| block.text.contains("before a compaction. This is quoted history"));
    assert!(is_restored, "{version}: what the client's summary lost comes back, though a compaction was answered just before");
}

scenes! {
    #[ignore = "nightly: another release is tried"]
    trouble_2_1_280: trouble("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    trouble_2_1_295: trouble("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    trouble_2_1_311: trouble("2.1.311"),
    trouble_2_1_330: trouble("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    trouble_2_1_332: trouble("2.1.332"),
}
