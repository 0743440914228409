//! A panic while the picker has the terminal.

use std::env;
use std::process::Command;

use ctxbridge_testkit::is_left_out;
use ctxbridge_testkit::terminal::Terminal;

use crate::screen::Screen;

/// Set in the process that panics.
const PANICS: &str = "CTXBRIDGE_TEST_PANICS";

#[test]
fn a_panic_leaves_the_terminal_as_it_was() {
    if env::var_os(PANICS).is_some() {
        let _screen = Screen::enter().unwrap();
        panic!("on purpose");
    }
    let own = env::current_exe().unwrap();
    if is_left_out("exec", Command::new(&own).arg("--list").output().is_ok()) {
        return;
    }
    let mut command = Command::new(own);
    command.args(["--exact", "tests::panics::a_panic_leaves_the_terminal_as_it_was", "--nocapture"]).env(PANICS, "1");
    command.env("PATH", env::var_os("PATH").unwrap()).current_dir(env::temp_dir());
    let ended = Terminal::start(&command, 24, 80).finish();
    assert_eq!((ended.code, ended.is_restored), (101, true), "{ended:?}");
    // It had it.
    assert!(String::from_utf8_lossy(&ended.bytes).contains("\u{1b}[?1049h"), "{ended:?}");
}
