//! Any module graph in a sound ELF file.
#![no_main]

mod native;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use native::builder::{Elf, Reading, X86_64};

static SECTIONS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| [(52, true), (36, false)].map(|(size, sorted)| native::graph(size, sorted).section()).to_vec());

fuzz_target!(|input: &[u8]| {
    let read = Reading::of(&SECTIONS[0], 52);
    let places = [8 + read.table.start..8 + read.table.end, 8 + read.byte_count..8 + read.byte_count + 32];
    let section = native::changed(&SECTIONS, &places, input);
    native::survives(Elf::new(X86_64).build(&section));
});
