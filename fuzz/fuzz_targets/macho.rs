//! Any Mach-O file.
#![no_main]

mod native;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use native::builder::Macho;

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let section = native::graph(52, true).section();
    [true, false].map(|arm64| Macho { arm64 }.build(&section)).to_vec()
});

fuzz_target!(|input: &[u8]| {
    let end = FILES[1].len();
    // The load commands; the graph; the signature.
    let places = [0..0x300, 0x4000..0x4400, end - 600..end];
    native::survives(native::changed(&FILES, &places, input));
});
