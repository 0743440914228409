//! Any ELF file.
#![no_main]

mod native;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use native::builder::{AARCH64, Elf, X86_64, bun_of_elf};

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let section = native::graph(52, true).section();
    vec![Elf::new(X86_64).build(&section), Elf::new(AARCH64).alone().build(&section)]
});

fuzz_target!(|input: &[u8]| {
    let end = FILES[0].len();
    let places = [0..64 + 5 * 56, end - 9 * 64..end, bun_of_elf(&FILES[0])];
    native::survives(native::changed(&FILES, &places, input));
});
