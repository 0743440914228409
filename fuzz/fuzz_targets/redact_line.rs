//! Any bytes as a line of a transcript: redacting twice is redacting once, JSON stays JSON, and what has no secret stays as it is.
#![no_main]

use ctxbridge::redact::Redactor;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|line: &[u8]| {
    let redactor = Redactor::standard();
    let (once, found) = redactor.redact_line(line);
    assert_eq!(found.is_empty(), once == line);
    let (twice, again) = redactor.redact_line(&once);
    assert!(again.is_empty() && twice == once);
    if serde_json::from_slice::<Value>(line).is_ok() {
        assert!(serde_json::from_slice::<Value>(&once).is_ok());
    }
});
