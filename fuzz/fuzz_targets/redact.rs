//! Any text: redacting twice is redacting once, and JSON stays JSON.
#![no_main]

use ctxbridge::redact::Redactor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let redactor = Redactor::standard();
    let once = redactor.redact(text);
    assert_eq!(redactor.redact(&once.text).text, once.text);
    if let Ok(mut value) = serde_json::from_str::<serde_json::Value>(text) {
        assert!(serde_json::from_str::<serde_json::Value>(&once.text).is_ok());
        redactor.redact_json(&mut value);
        let clean = value.clone();
        assert!(redactor.redact_json(&mut value).is_empty() && value == clean);
    }
});
