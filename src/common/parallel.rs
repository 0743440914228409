//! Using the processors there are.

/// Does two things at once, where the system has a thread to spare; `other` stays on this one.
pub fn beside<A: Send, B>(one: impl Fn() -> A + Sync, other: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, &one);
        let other = other();
        let one = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => one(),
        };
        (one, other)
    })
}
