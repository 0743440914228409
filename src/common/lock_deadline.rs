//! A time after which this process waits for no lock: a hook must not keep its user waiting, however many locks it needs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// From this time on, locks that are held are given up at once. The first call counts.
pub fn set(after: Duration) {
    DEADLINE.set(Instant::now() + after).ok();
}

/// `true` if there is a deadline and it has passed.
pub fn has_passed() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= *deadline)
}

/// `true` if this process has a deadline.
pub fn is_set() -> bool {
    DEADLINE.get().is_some()
}
