//! Any bytes as claude-flow's JSON file: what can be read becomes lines that are read back, each in a turn, and whole.
#![no_main]

use ctxbridge::claude_flow::json_file::JsonFile;
use ctxbridge::claude_flow::lines::{WriterState, TranscriptWriter, read_origin};
use ctxbridge::claude_flow::listed::At;
use ctxbridge::transcript::Interpreter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = JsonFile::of(bytes, "fuzzed") else { return };
    let mut writer = TranscriptWriter::new(Vec::new(), "session", Some("/folder"), WriterState::default());
    let mut known = Vec::new();
    for one in file.list().0 {
        let At::Item(number) = one.at else { unreachable!("there are only items") };
        let Ok(Some(entry)) = file.entry(number) else { continue };
        writer.entry(&entry).expect("memory");
        known.push(entry.known_by());
    }
    let lines = writer.finish().expect("memory");
    assert_eq!(read_origin(&lines).entries, known);
    let mut interpreter = Interpreter::default();
    interpreter.feed(&lines);
    assert_eq!(interpreter.session_metadata().bad_lines, 0);
    let turns = interpreter.take_turns();
    let covered: u64 = turns.iter().map(|turn| turn.end - turn.start).sum();
    assert_eq!(covered, lines.len() as u64);
});
