//! Cold files, without us: any zstd prints the transcript.

use std::fs;
use std::process::Command;

use ctxbridge::archive::tier::cold_file;
use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::Talk;
use ctxbridge_testkit::transcript::Kind;

use super::place::Place;

#[test]
fn zstd_prints_the_transcript_and_then_the_rest() {
    let place = Place::new();
    let made = &place.sandbox.generate(Kind::Agents, 300, 2)[0];
    let agents = Talk::from(made);
    let (plain, _) = place.old(1, 30);
    place.import();
    place.optimize();
    for talk in [&agents, &plain] {
        let file = place.file(talk);
        let printed = zstd::stream::decode_all(fs::File::open(&file).unwrap()).unwrap();
        assert!(printed.starts_with(&talk.bytes()), "it begins with the transcript");
        // What is beside them comes last.
        let transcripts = talk.bytes().len() + if talk.id == agents.id { made.agent_bytes as usize } else { 0 };
        let lines = printed[..transcripts].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        assert!(lines.into_iter().all(|line| serde_json::from_slice::<serde_json::Value>(line).is_ok()));
        assert_eq!(printed.len() > talk.bytes().len(), talk.id == agents.id, "sub-agents follow");
        // Where there is the tool itself.
        if let Ok(output) = Command::new("zstd").args(["-dcq"]).arg(&file).output() {
            assert!(output.status.success() && output.stdout == printed);
        }
        let manifest = cold_file::manifest(&file).unwrap();
        assert_eq!((manifest.session.as_str(), manifest.version), (talk.id.as_str(), 1));
        assert_eq!(manifest.transcripts[0].path, ctxbridge::common::paths::real(&talk.path).unwrap().to_str().unwrap());
        assert!(files::is_private(&file).unwrap() && files::is_private(&place.cold()).unwrap());
    }
}

/// By what a file says of itself, everything in it can be put together again.
#[test]
fn the_manifest_is_enough() {
    let place = Place::new();
    let agents = Talk::from(&place.sandbox.generate(Kind::Agents, 300, 2)[0]);
    place.import();
    place.optimize();
    let file = place.file(&agents);
    for listed in cold_file::manifest(&file).unwrap().transcripts {
        let mut bytes = Vec::new();
        for piece in &listed.segments {
            assert_eq!(piece.start, bytes.len() as u64);
            let data = cold_file::frame(&file, piece.offset, piece.length).unwrap();
            bytes.extend(zstd::bulk::decompress(&data, piece.bytes as usize).unwrap());
        }
        assert!(bytes == fs::read(&listed.path).unwrap(), "{}", listed.path);
    }
}

/// Ids come from files of others.
#[test]
fn strange_sessions_stay_in_the_folder() {
    let place = Place::new();
    let long = "long".repeat(60);
    let ids = ["../../escaped", "a/b", "CON", ".hidden", "ünicode", &long];
    for (number, id) in ids.into_iter().enumerate() {
        let lines = super::lines::Lines::of(id).seed(number as u64).turns(3);
        fs::write(place.sandbox.project().join(format!("{number}.jsonl")), lines).unwrap();
    }
    place.import();
    let said = place.optimize();
    assert_eq!((&said["cold"]["sessions"], &said["failed"]), (&6.into(), &serde_json::json!([])));
    assert_eq!(place.files().len(), 6);
    assert!(
        place.files().iter().all(|file| file.is_file() && file.file_name().unwrap().to_str().unwrap().ends_with(".jsonl.zst"))
    );
    assert_eq!(super::place::files(&place.sandbox.path("")).iter().filter(|path| path.ends_with("escaped")).count(), 0);
    for id in ids {
        assert!(!place.sandbox.restored(id, &[]).is_empty(), "{id}");
    }
}

/// Somebody else's file of the same name, or one that has more than we know, is not written over.
#[test]
fn files_of_others_stay() {
    let place = Place::new();
    let (first, _) = place.old(1, 10);
    let (second, mut lines) = place.old(2, 10);
    place.import();
    fs::create_dir_all(place.cold()).unwrap();
    fs::write(place.file(&first), b"something else").unwrap();
    place.optimize();
    assert_eq!(fs::read(place.file(&first)).unwrap(), b"something else");
    place.assert_all(&[&first, &second]);
    // An archive that was lost, and filled again from a transcript that has less now.
    let whole = fs::read(place.file(&second)).unwrap();
    fs::remove_dir_all(place.sandbox.data()).unwrap();
    second.write(lines.turns(3));
    place.import();
    place.optimize();
    assert!(fs::read(place.file(&second)).unwrap() == whole, "what only that file has is still there");
    place.assert_all(&[&first, &second]);
    // One that has just the same is used again.
    let files = place.files().len();
    fs::remove_dir_all(place.sandbox.data()).unwrap();
    place.import();
    place.optimize();
    assert_eq!(place.files().len(), files);
    place.assert_all(&[&first, &second]);
}
