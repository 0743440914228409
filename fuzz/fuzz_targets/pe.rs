//! Any PE file.
#![no_main]

mod native;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use native::builder::Pe;

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let section = native::graph(52, true).section();
    [0x8664, 0xaa64].map(|machine| Pe { machine }.build(&section)).to_vec()
});

fuzz_target!(|input: &[u8]| {
    // The headers; the graph.
    let places = [0..0x80 + 24 + 240 + 80, 0x600..FILES[0].len()];
    native::survives(native::changed(&FILES, &places, input));
});
