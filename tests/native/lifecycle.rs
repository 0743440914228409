//! The long way of a native installation: patched, verified, upgraded, put back; refused where it has to be.

use std::fs;

use ctxbridge::common::digest;
use ctxbridge::patch::inspect::TargetState;
use ctxbridge::patch::patcher::{AppliedState, RevertedState};

use crate::native::builder::{AARCH64, Bytecode, Elf, Graph, Module, X86_64, latin1};
use crate::native::client::{CODE, Installation, LOOPS, WHOLE, arm64, chunks, everywhere, reading, whole, x64};

fn clients() -> Vec<(String, Graph)> {
    let whole = WHOLE.iter().map(|name| ((*name).to_owned(), whole(name)));
    whole.chain(LOOPS.iter().map(|name| ((*name).to_owned(), chunks(name)))).collect()
}

#[test]
fn there_and_back() {
    for (name, graph) in clients() {
        for file in [arm64(&graph), x64(&graph)] {
            let installation = Installation::of(&file);
            assert_eq!(installation.state(), TargetState::Unpatched);
            let applied = installation.apply();
            let patched = installation.bytes();
            assert_eq!(applied.state, AppliedState::Patched);
            assert_eq!(applied.original_sha256, digest::of_bytes(&file));
            assert_eq!(applied.patched_sha256, digest::of_bytes(&patched));
            assert_eq!(applied.grew_by_bytes, patched.len() as i64 - file.len() as i64, "{name}");
            assert!(applied.grew_by_bytes % 4096 == 0 && applied.grew_by_bytes <= 40 << 10, "{name}: {}", applied.grew_by_bytes);
            assert_eq!(fs::read(applied.backup).unwrap(), file);
            assert_eq!(installation.state(), TargetState::Patched);
            assert_eq!(installation.state_without_journal(), TargetState::Patched, "{name}");

            let again = installation.apply();
            assert_eq!((again.state, again.patched_sha256), (AppliedState::AlreadyPatched, applied.patched_sha256));
            assert_eq!(again.grew_by_bytes, applied.grew_by_bytes);
            assert_eq!(installation.bytes(), patched);

            let reverted = installation.revert();
            assert_eq!((reverted.state, reverted.restored_sha256), (RevertedState::Reverted, applied.original_sha256));
            assert_eq!(installation.bytes(), file);
            assert_eq!(installation.state(), TargetState::Unpatched);
            assert_eq!(installation.revert().state, RevertedState::NotPatched);
            installation.assert_settled();
        }
    }
}

/// Only the module with the query loop changes, and it loses what was compiled of it.
#[test]
fn everything_but_the_patched_module_stays_as_it_was() {
    for (name, graph) in clients() {
        let file = arm64(&graph);
        let installation = Installation::of(&file);
        installation.apply();
        let (before, after) = (reading(&file), reading(&installation.bytes()));
        let (edited, was) = (&after.modules[CODE], &before.modules[CODE]);
        let has = |bytes: &[u8], code: &str| bytes.windows(code.len()).any(|window| window == code.as_bytes());
        assert!(has(&edited.contents, "= ctxbridgeAggressiveTextPrune(") && !has(&was.contents, "ctxbridge"), "{name}");
        assert_eq!((edited.bytecode.len(), edited.info.len(), edited.kinds), (0, 0, was.kinds));
        // The wrapper is around it as before, and what comes between are the bytes of Latin-1.
        assert_eq!(edited.contents[..60], was.contents[..60]);
        assert_eq!(edited.contents[edited.contents.len() - 20..], was.contents[was.contents.len() - 20..]);
        let high = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte >= 0x80).collect::<Vec<u8>>();
        assert!(!high(&was.contents).is_empty(), "{name} has nothing beyond ASCII");
        assert_eq!(high(&edited.contents), high(&was.contents));
        for (before, after) in before.modules.iter().zip(&after.modules).skip(1) {
            assert_eq!((&before.name, &before.contents, before.kinds), (&after.name, &after.contents, after.kinds));
            assert_eq!((&before.bytecode, &before.info), (&after.bytecode, &after.info));
        }
        assert_eq!((&before.argv, before.flags, before.entry_point), (&after.argv, after.flags, after.entry_point));
    }
}

#[test]
fn a_module_of_utf_8_stays_one() {
    let mut graph = whole("e4c");
    graph.modules[CODE] = graph.modules[CODE].clone().utf8();
    let file = arm64(&graph);
    let installation = Installation::of(&file);
    installation.apply();
    let text = String::from_utf8(reading(&installation.bytes()).modules[CODE].contents.clone()).unwrap();
    assert!(text.contains("\\u202E é") && text.contains("ctxbridgeAggressiveTextPrune"));
    assert_eq!(installation.state_without_journal(), TargetState::Patched);
    installation.revert();
    assert_eq!(installation.bytes(), file);
}

/// Every character that Latin-1 has beyond ASCII, and what would be taken for UTF-8.
#[test]
fn bytes_beyond_ascii_are_kept() {
    let mut graph = chunks(LOOPS[0]);
    let all: String = (0x80..=0xff_u8).map(char::from).collect();
    graph.modules[CODE].contents.extend(latin1(&format!("var every=\"{all}Ã©\";")));
    let file = arm64(&graph);
    let installation = Installation::of(&file);
    installation.apply();
    let contents = reading(&installation.bytes()).modules[CODE].contents.clone();
    assert!(contents.ends_with(&latin1(&format!("var every=\"{all}Ã©\";"))));
    installation.revert();
    assert_eq!(installation.bytes(), file);
}

/// Executables of other systems are patched as well, and read back; so is one whose loader is not here.
#[test]
fn what_cannot_run_here_is_read_back() {
    let graph = chunks(LOOPS[2]);
    let strange = Elf { interpreter: Some("/lib/ld-of-nowhere.so.1"), ..Elf::new(X86_64) }.build(&graph.section());
    let files = everywhere(&graph).into_iter().map(|(_, file)| file);
    let foreign = files.filter(|file| !file.starts_with(b"\x7fELF") || file[18] == AARCH64 as u8);
    let mut read_back = 0;
    for file in foreign.chain([strange]) {
        // On the systems that they are for, these would be run.
        if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
            return;
        }
        let installation = Installation::of(&file);
        let applied = installation.try_apply(true).unwrap_or_else(|error| panic!("{error}"));
        assert!(!applied.smoke.ran);
        let said = applied.smoke.output;
        assert!(said.contains(" here; read back instead: 5 other modules and "), "{said}");
        assert!(!said.contains("macOS") || said.ends_with(" signature in the place of the publisher's is valid"), "{said}");
        assert!(
            !said.contains("Windows") || said.ends_with(", the checksum is right, the publisher's signature is out"),
            "{said}"
        );
        assert_eq!(installation.state_without_journal(), TargetState::Patched);
        installation.revert();
        assert_eq!(installation.bytes(), file);
        installation.assert_settled();
        read_back += 1;
    }
    assert_eq!(read_back, 7);
}

/// One for this machine has to start before it replaces anything, and these do not.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_client_that_does_not_start_stays_as_it_is() {
    let file = x64(&whole("e4b"));
    let installation = Installation::of(&file);
    let error = installation.try_apply(true).unwrap_err().to_string();
    assert!(error.contains("does not start here, patched or not"), "{error}");
    assert_eq!(installation.bytes(), file);
    installation.assert_settled();
}

#[test]
fn an_upgraded_client_is_patched_anew() {
    let old = arm64(&chunks(LOOPS[1]));
    let installation = Installation::of(&old);
    installation.apply();
    let new = arm64(&chunks(LOOPS[2]));
    installation.install(&new);
    let upgraded = installation.verify();
    assert_eq!((upgraded.state, upgraded.original_sha256), (TargetState::Upgraded, Some(digest::of_bytes(&old))));
    assert_eq!(installation.revert().state, RevertedState::NotPatched);
    assert_eq!(installation.bytes(), new);
    installation.apply();
    assert_eq!(installation.state(), TargetState::Patched);
    installation.revert();
    assert_eq!(installation.bytes(), new);
    installation.assert_settled();
}

#[test]
fn a_client_that_another_tool_patched_is_foreign() {
    let mut graph = chunks(LOOPS[2]);
    graph.modules[1].contents.extend(b"/* tweakcc was here */");
    let file = arm64(&graph);
    let installation = Installation::of(&file);
    let found = installation.verify();
    assert_eq!((found.state, found.reason.as_deref()), (TargetState::Foreign, Some("it contains the marks of tweakcc")));
    assert!(installation.try_apply(false).unwrap_err().to_string().contains("was patched by another tool"));
    assert!(installation.try_revert().unwrap_err().to_string().contains("was patched by another tool"));
    assert_eq!(installation.bytes(), file);
    // In the program around the modules, the word says nothing.
    let mut file = arm64(&chunks(LOOPS[2]));
    file[0x1000..0x1007].copy_from_slice(b"tweakcc");
    installation.install(&file);
    assert_eq!(installation.state(), TargetState::Unpatched);
}

#[test]
fn the_patched_version_with_other_bytes_is_foreign() {
    let mut graph = chunks(LOOPS[2]);
    let installation = Installation::of(&arm64(&graph));
    installation.apply();
    graph.modules[1].contents.extend(b"//");
    installation.install(&arm64(&graph));
    let found = installation.verify();
    assert_eq!(found.state, TargetState::Foreign);
    assert!(found.reason.unwrap().contains("neither the original nor the patched file"));
    assert_eq!(installation.state_without_journal(), TargetState::Unpatched);
}

/// Zeros fill the segment up, so anything else there is something that nobody knows.
fn unknown() -> Vec<u8> {
    let mut file = arm64(&chunks(LOOPS[2]));
    let section = crate::native::builder::bun_of_elf(&file);
    assert_eq!(file[section.end], 0);
    file[section.end] = 1;
    file
}

#[test]
fn a_file_of_unknown_layout_is_told_and_left_alone() {
    let file = unknown();
    let installation = Installation::of(&file);
    for command in ["apply", "locate", "verify", "revert"] {
        let (code, stdout, stderr) = installation.run(&[command]);
        assert_eq!((code, stdout.as_str()), (Some(3), ""), "{command}");
        for words in ["ctxbridge does not know the layout of this", "something behind `.bun`", "upgrade ctxbridge"] {
            assert!(stderr.contains(words), "{command}: {stderr}");
        }
        assert_eq!(installation.bytes(), file);
    }
    assert!(!installation.data().join("backups").exists(), "something was backed up");
    installation.assert_settled();
}

/// Also one that was patched before something damaged it.
#[test]
fn a_patched_file_that_cannot_be_read_any_more_is_left_alone() {
    let original = arm64(&chunks(LOOPS[2]));
    let installation = Installation::of(&original);
    installation.apply();
    let mut file = installation.bytes();
    let end = crate::native::builder::bun_of_elf(&file).end;
    file[end] = 1;
    installation.install(&file);
    assert_eq!([installation.state(), installation.state_without_journal()], [TargetState::Modified; 2]);
    for command in ["revert", "apply"] {
        let (code, _, stderr) = installation.run(&[command]);
        assert!(code == Some(3) && stderr.contains("was changed after it was patched"), "{command}: {stderr}");
    }
    assert_eq!(installation.bytes(), file);
    // Its original is known all the same.
    let reverted = installation.force_revert();
    assert_eq!(installation.bytes(), original);
    assert_eq!(std::fs::read(reverted.kept.unwrap()).unwrap(), file);
    assert_eq!(installation.leftovers(), ["claude.changed"]);
    assert_eq!(installation.state(), TargetState::Unpatched);
}

/// The journal lost, the original is still in the backups, under the hash that the marker tells.
#[test]
fn reverting_needs_no_journal() {
    let file = x64(&whole("e4a"));
    let installation = Installation::of(&file);
    installation.apply();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::remove_file(installation.data().join(name)).ok();
    }
    assert_eq!(installation.revert().state, RevertedState::Reverted);
    assert_eq!(installation.bytes(), file);
}

#[test]
fn without_the_backup_nothing_is_reverted() {
    let file = x64(&whole("e4a"));
    let installation = Installation::of(&file);
    let applied = installation.apply();
    let patched = installation.bytes();
    fs::remove_file(&applied.backup).unwrap();
    assert!(installation.try_revert().unwrap_err().to_string().contains("the backup of the original is missing"));
    assert_eq!(installation.bytes(), patched);
    let mut damaged = file;
    damaged[0x1000] ^= 1;
    fs::write(&applied.backup, damaged).unwrap();
    assert!(installation.try_revert().unwrap_err().to_string().contains("is damaged: its SHA-256 is"));
    assert_eq!(installation.bytes(), patched);
    installation.assert_settled();
}

/// Two modules that share their contents: one cannot change without the other.
#[test]
fn a_client_whose_loop_is_also_something_else_is_refused() {
    let mut graph = chunks(LOOPS[2]);
    graph.modules[1].bytecode = Bytecode::None;
    let mut file = arm64(&graph);
    let (section, read) = (crate::native::builder::bun_of_elf(&file), reading(&file));
    let row = section.start + 8 + read.table.start + 52;
    // The second module's bytecode is in the contents of the first.
    let [at, _] = read.modules[CODE].spans[1];
    file[row + 24..row + 28].copy_from_slice(&(at as u32 + 5).to_le_bytes());
    file[row + 28..row + 32].copy_from_slice(&6_u32.to_le_bytes());
    let installation = Installation::of(&file);
    let error = installation.try_apply(false).unwrap_err().to_string();
    assert!(error.contains("are part of `/$bunfs/root/chunk-8vy2m0kd.js`, too"), "{error}");
    assert_eq!(installation.bytes(), file);
    installation.assert_settled();
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn inode(path: &std::path::Path) -> (u64, u64) {
        let metadata = fs::metadata(path).unwrap();
        (metadata.dev(), metadata.ino())
    }

    #[test]
    fn the_backup_is_the_original_file_itself_and_comes_back_as_that() {
        let file = x64(&whole("e4d"));
        let installation = Installation::of(&file);
        let original = inode(&installation.path());
        let before = fs::metadata(installation.path()).unwrap();
        let applied = installation.apply();
        assert_eq!(inode(&applied.backup), original);
        assert_ne!(inode(&installation.path()), original);
        let patched = fs::metadata(installation.path()).unwrap();
        assert_eq!((patched.mode(), patched.uid(), patched.gid()), (before.mode(), before.uid(), before.gid()));
        installation.revert();
        assert_eq!(inode(&installation.path()), original);
        let after = fs::metadata(installation.path()).unwrap();
        assert_eq!((after.mtime(), after.mtime_nsec(), after.mode()), (before.mtime(), before.mtime_nsec(), before.mode()));
    }

    /// As in the store of a package manager: the other name must never show the patched bytes.
    #[test]
    fn a_client_that_is_a_hard_link_becomes_one_again() {
        let file = arm64(&chunks(LOOPS[2]));
        let installation = Installation::of(&file);
        let store = installation.beside("store");
        fs::hard_link(installation.path(), &store).unwrap();
        installation.apply();
        assert_eq!(fs::read(&store).unwrap(), file);
        assert_ne!(inode(&store), inode(&installation.path()));
        // Patching again, and looking, do not touch it either.
        installation.apply();
        assert_eq!(installation.state(), TargetState::Patched);
        installation.revert();
        assert_eq!(inode(&store), inode(&installation.path()));
        assert_eq!(fs::read(&store).unwrap(), file);
    }

    #[test]
    fn a_link_to_the_client_leads_to_it_and_stays_a_link() {
        let file = arm64(&chunks(LOOPS[2]));
        let installation = Installation::of(&file);
        let link = installation.beside("claude");
        std::os::unix::fs::symlink("versions/claude", &link).unwrap();
        let output = installation.command_on(&link, &["apply", "--no-smoke"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_link(&link).unwrap().to_str(), Some("versions/claude"));
        assert_eq!(installation.state(), TargetState::Patched);
        installation.revert();
        assert_eq!(installation.bytes(), file);
    }
}

/// Only modules with the words of a site are read as JavaScript; of those, each has to be.
#[test]
fn a_module_that_is_no_javascript_matters_when_it_may_hold_a_site() {
    let mut graph = chunks(LOOPS[2]);
    let broken = [&graph.modules[CODE].contents[..], b"("].concat();
    graph.modules.push(Module { contents: broken, ..Module::es("broken.js", "") });
    let installation = Installation::of(&arm64(&graph));
    let error = installation.try_apply(false).unwrap_err().to_string();
    assert!(error.contains("/$bunfs/root/broken.js is not JavaScript"), "{error}");
    graph.modules.last_mut().unwrap().contents = latin1("this is ( no");
    installation.install(&arm64(&graph));
    installation.apply();
    assert_eq!(installation.state(), TargetState::Patched);
}
