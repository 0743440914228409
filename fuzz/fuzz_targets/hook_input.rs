//! Anything on the stdin of a hook: read, or no JSON.
#![no_main]

use ctxbridge::hook::HookInput;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(input) = HookInput::parse(bytes) else { return };
    let texts = [&input.session, &input.source, &input.trigger, &input.compact_summary, &input.reason];
    let paths = [&input.transcript, &input.cwd, &input.agent_transcript];
    assert!(texts.into_iter().flatten().all(|text| !text.is_empty()));
    assert!(paths.into_iter().flatten().all(|path| !path.as_os_str().is_empty()));
});
