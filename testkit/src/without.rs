//! Tests that are left out since the machine lacks something. The list is given by the person who runs them: a test that cannot run
//! does not pretend that it passed.

/// Lists what the machine lacks, separated by commas.
const VARIABLE: &str = "CTXBRIDGE_TEST_WITHOUT";

/// `true` where a test is to be left out, since the machine lacks what it needs and `CTXBRIDGE_TEST_WITHOUT` says so.
///
/// # Panics
/// When the machine lacks it and nobody said so.
pub fn is_left_out(need: &str, is_there: bool) -> bool {
    let named = std::env::var(VARIABLE).unwrap_or_default();
    let is_named = named.split(',').any(|name| name.trim() == need);
    assert!(is_there || is_named, "this test needs {need}; {VARIABLE}={need} leaves it out");
    !is_there
}
