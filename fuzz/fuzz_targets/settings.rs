//! Any settings file: refused as it is, or with our hooks in it once, and out again.
#![no_main]

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::edit::{install, uninstall};
use ctxbridge::hook::settings::wiring::hooks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (chosen, bytes) = input;
    let events: Vec<Event> =
        Event::ALL.into_iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, event)| event).collect();
    if let Ok(without) = uninstall(bytes) {
        assert_eq!(uninstall(&without).expect("it was readable before"), without);
    }
    let wanted = hooks(&events, "/opt/ctxbridge/bin/ctxbridge");
    let Ok(with) = install(bytes, &wanted) else { return };
    assert_eq!(install(&with, &wanted).expect("it was readable before"), with);
    let again = uninstall(&with).expect("it was readable before");
    assert_eq!(uninstall(&again).expect("it was readable before"), again);
});
