//! Questions that every executable has to answer which can be read, and one that is made of the fuzzer's bytes.

#[path = "../../../tests/native/builder/mod.rs"]
pub mod builder;

use std::ops::Range;

use builder::{Bytecode, Graph, Module};
use ctxbridge::patch::container::{Container, RewrittenModule};
use ctxbridge::patch::{inspect, seal};

/// Small, with everything that a graph can have.
pub fn graph(entry_size: usize, sorted: bool) -> Graph {
    let mut graph = Graph::new(vec![
        Module::es("one.js", "// Version: 2.1.399\n\u{e9}").with_bytecode(Bytecode::Shared(0)),
        Module::common_js("two.js", "b()").with_bytecode(Bytecode::Own(vec![3; 9])),
        Module::file("three.node", b"\0\xff"),
        Module { info: vec![5; 3], bytecode: Bytecode::Shared(4), ..Module::es("four.js", "c").utf8() },
    ]);
    graph.entry_size = entry_size;
    graph.shared = vec![0xbc; 12];
    graph.argv = b"--smol".to_vec();
    if sorted {
        graph.junk = vec![0xee; 3];
    }
    graph.sorted = sorted;
    graph
}

/// A file as the fuzzer wants it: its own bytes, or one of these with some numbers changed.
///
/// The first byte chooses. Then come changes of eight bytes: where (two bytes, in the file or in one of the places where the numbers
/// are), what (a byte), and the number (four bytes).
pub fn changed(bases: &[Vec<u8>], places: &[Range<usize>], input: &[u8]) -> Vec<u8> {
    let Some((choice, input)) = input.split_first() else { return Vec::new() };
    let Some(base) = bases.get(usize::from(*choice) % (bases.len() + 1)) else { return input.to_vec() };
    let mut file = base.clone();
    for change in input.chunks_exact(8) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let place = places.get(usize::from(change[3])).filter(|place| !place.is_empty());
        let at = place.map_or(at, |place| place.start + at % place.len());
        let number = u32::from_le_bytes([change[4], change[5], change[6], change[7]]);
        let bytes = match change[2] % 8 {
            0 => vec![change[4]],
            1 => number.to_le_bytes()[..2].to_vec(),
            2 => number.to_le_bytes().to_vec(),
            3 => u64::from(number).to_le_bytes().to_vec(),
            4 => (u64::MAX - u64::from(number)).to_le_bytes().to_vec(),
            // A little more, or less, than there is.
            5 => {
                let old = file.get(at..at + 4).map_or(0, |old| u32::from_le_bytes([old[0], old[1], old[2], old[3]]));
                old.wrapping_add(i32::from(change[4] as i8) as u32).to_le_bytes().to_vec()
            }
            // What stands elsewhere: offsets and sizes of others.
            6 => {
                let from = number as usize % (file.len() + 1);
                file[from..file.len().min(from + 8)].to_vec()
            }
            _ => {
                file.truncate(number as usize);
                continue;
            }
        };
        if let Some(there) = file.get_mut(at..at + bytes.len()) {
            there.copy_from_slice(&bytes);
        }
    }
    file
}

/// Whatever the bytes are, nothing panics; what can be read can be written, and is what it was but for what was to change.
pub fn survives(file: Vec<u8>) {
    // Of scripts, see the target `container`.
    let Some(container) = Container::open("claude", file.clone()).ok().filter(|container| container.kind().is_native()) else {
        return;
    };
    assert!(container.rewrite(&[]).expect("nothing to write").to_bytes(&file) == file, "a file with no edits is another one");
    container.stated_version();
    seal::is_intact(&container).expect("a file in memory can be read");
    inspect::without_patches(&container);

    let edits = ["x".repeat(30), "/* longer by more than a page */".repeat(200), String::new()];
    for module in [0, container.modules().len() - 1] {
        for text in &edits {
            let edit = [RewrittenModule { module, text: text.clone() }];
            let Ok(pieces) = container.rewrite(&edit).and_then(|pieces| container.finish(pieces)) else { continue };
            let new = pieces.to_bytes(&file);
            // A signature may be longer than the one before: its hashes are of smaller pages, or its program's name is longer.
            assert!(new.len() <= 3 * file.len() + text.len() + (64 << 10), "{} became {}", file.len(), new.len());
            let patched = Container::open("claude", new).expect("what was written can be read");
            assert_eq!(patched.modules().len(), container.modules().len());
            for (index, (before, after)) in container.modules().zip(patched.modules()).enumerate() {
                assert_eq!(before.name, after.name);
                if index == module {
                    assert_eq!(after.bytes, text.as_bytes());
                } else {
                    assert_eq!(before.bytes, after.bytes);
                }
            }
            // One that is not sound by itself is not made so.
            let compared = container.compare(&patched, &[module]);
            assert!(compared.is_ok() || compared == container.compare(&container, &[]), "{compared:?}");
        }
    }
}
