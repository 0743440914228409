//! `apply` and `revert` of an executable that are killed with SIGKILL; tests/faults has the same for a cli.js, at more places.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use ctxbridge_testkit::sandbox::PATIENCE;

use crate::native::client::{Installation, LOOPS, arm64, chunks};

fn spawn(installation: &Installation, arguments: &[&str]) -> Child {
    let mut command = installation.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until `it` is so, or the child has ended; then kills it. Whether it was alive.
fn kill_when(child: &mut Child, mut it: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !it() && child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it never came to pass");
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// The files are large enough for writing one to take a moment.
fn large() -> Vec<u8> {
    let mut graph = chunks(LOOPS[2]);
    graph.shared = (0..12_usize << 20).map(|at| (at % 249) as u8).collect();
    arm64(&graph)
}

#[test]
fn the_client_is_whole_and_the_next_command_settles_the_rest() {
    let original = large();
    let installation = Installation::of(&original);
    installation.apply();
    let patched = installation.bytes();
    installation.revert();
    let mut hits = 0;
    for round in 0..4_u32 {
        for (arguments, before, after) in
            [(&["apply", "--no-smoke"][..], &original, &patched), (&["revert"], &patched, &original)]
        {
            let mut child = spawn(&installation, arguments);
            // As soon as the new file is there, and at moments behind that.
            let mut seen: Option<Instant> = None;
            let killed = kill_when(&mut child, || {
                if seen.is_none() && !installation.leftovers().is_empty() {
                    seen = Some(Instant::now());
                }
                seen.is_some_and(|seen| seen.elapsed() >= Duration::from_millis(5) * round)
            });
            hits += usize::from(killed);
            let now = installation.bytes();
            assert!(now == *before || now == *after, "the client is neither file");
            let state = installation.json(&["verify", "--json"], i32::from(now == original))["state"].clone();
            assert_eq!(state, if now == patched { "patched" } else { "unpatched" });
            installation.assert_settled();
            assert!(installation.bytes() == now, "looking has changed the client");
            // And it works.
            let (code, _, stderr) = installation.run(arguments);
            assert!(matches!(code, Some(0 | 1)), "{stderr}");
            assert!(installation.bytes() == *after);
            installation.assert_settled();
        }
    }
    assert!(hits > 0, "every kill came too late");
}
