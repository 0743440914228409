//! Any bytes as the list of contents of a cold file: what is read of it lies inside of the file, and is the same when it is written again.
#![no_main]

use ctxbridge::archive::tier::ColdManifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u64)| {
    let (bytes, end) = input;
    if let Some((_, footer)) = bytes.split_last_chunk() {
        ColdManifest::length(*footer).ok();
    }
    if let Ok(manifest) = ColdManifest::parse(bytes, end) {
        let pieces = || manifest.transcripts.iter().flat_map(|listed| &listed.segments);
        assert!(pieces().all(|piece| piece.offset <= end && piece.length <= end - piece.offset));
        assert_eq!(manifest.hashes().count(), pieces().count());
        let frame = manifest.to_frame().expect("what was short enough to read");
        let (_, footer) = frame.split_last_chunk().expect("a footer");
        let length = ColdManifest::length(*footer).expect("a length");
        let json = &frame[frame.len() - footer.len() - length..frame.len() - footer.len()];
        assert_eq!(ColdManifest::parse(json, end).as_ref(), Ok(&manifest));
    }
});
