//! Any bytes as a file of the client.
#![no_main]

use ctxbridge::patch::container::Container;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(container) = Container::open("cli.js", bytes.to_vec()) {
        let same = container.rewrite(&[]).expect("nothing to write");
        assert_eq!(same.to_bytes(bytes), bytes);
    }
});
