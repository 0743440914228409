//! The picker in a terminal: what a person sees and types.
#![cfg(unix)]

use std::time::Duration;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use ctxbridge_testkit::terminal::Terminal;
use rustix::process::Signal;

use crate::archive::lines::Lines;

const ESCAPE: &str = "\u{1b}";
const ENTER: &str = "\r";
const TAB: &str = "\t";
const BACKSPACE: &str = "\u{7f}";
const DOWN: &str = "\u{1b}[B";
const CONTROL_R: &str = "\u{12}";
/// The last key of the footer: all is drawn when it is there.
const DRAWN: &str = "Esc quit";

/// Three sessions: the second one says what a terminal obeys, the third is Chinese.
fn sandbox() -> (Sandbox, [Talk; 3]) {
    let sandbox = Sandbox::new();
    let mut one = Lines::of("one").seed(1);
    let parser = one.prompt("Why does the parser hang on nested comments?")
        + &one.answer("skip_comment never advances. I made it count the depth.")
        + &one.turn("Is max_retries read from the environment?");
    let mut two = Lines::of("two").seed(2);
    let hostile = two.prompt("Upload\u{1b}]0;owned\u{7} fails\u{1b}[2J at \u{9b}31mnight")
        + &two.answer("The balancer\u{1b}[8m closes idle\u{202e} connections; keep-alive is 30 s now.");
    let mut three = Lines::of("three").seed(3);
    let chinese = three.turn("整理归档的会话并修复中文标题的截断问题，标题很长，终端里放不下，所以必须在字符之间截断");
    let talks = [sandbox.talk(1, parser), sandbox.talk(2, hostile), sandbox.talk(3, chinese)];
    let paths: Vec<&str> = talks.iter().map(|talk| talk.path.to_str().unwrap()).collect();
    sandbox.cli(&[&["archive", "import"], &paths[..]].concat());
    (sandbox, talks)
}

fn start(sandbox: &Sandbox, arguments: &[&str]) -> Terminal {
    let terminal = Terminal::start(&sandbox.command(arguments), 24, 80);
    terminal.wait_for(DRAWN);
    terminal.wait_for("3 sessions");
    terminal
}

#[test]
fn typing_filters_the_list_and_enter_shows_the_session() {
    let (sandbox, talks) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    terminal.wait_for("Why does the parser hang");
    terminal.wait_for("2 turns");
    terminal.keys("parser");
    terminal.wait_for("1 of 3 sessions");
    terminal.wait_until("only one title", |screen| !screen.contains("Upload"));
    terminal.keys(ENTER);
    let ended = terminal.finish();
    assert!(ended.is_restored && ended.code == 0, "{ended:?}");
    assert!(ended.screen.starts_with(&talks[0].id), "{}", ended.screen);
    assert!(ended.screen.contains("Is max_retries read"), "{}", ended.screen);
}

#[test]
fn a_turn_that_the_words_find_is_printed() {
    let (sandbox, _) = sandbox();
    let mut terminal = start(&sandbox, &["archive", "search", "-i"]);
    // Not a word yet, and in no title.
    terminal.keys("max_retr");
    terminal.wait_for("0 of 3 sessions, 1 turn");
    terminal.wait_for("Is max_retri");
    terminal.keys(ENTER);
    let ended = terminal.finish();
    assert!(ended.is_restored && ended.code == 0, "{ended:?}");
    assert!(ended.screen.contains("Is max_retries read from the environment?"), "{}", ended.screen);
    assert!(!ended.screen.contains("parser"), "{}", ended.screen);
}

#[test]
fn words_of_the_command_are_the_query() {
    let (sandbox, _) = sandbox();
    let mut terminal = Terminal::start(&sandbox.command(&["archive", "search", "-i", "keep", "alive"]), 24, 80);
    terminal.wait_for("> keep alive");
    terminal.wait_for("0 of 3 sessions, 1 turn");
    terminal.keys(ESCAPE);
    let ended = terminal.finish();
    assert!(ended.is_restored && ended.code == 0, "{ended:?}");
    assert_eq!(ended.screen, "");
}

#[test]
fn the_command_that_resumes_is_copied_and_printed() {
    let (sandbox, talks) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    terminal.keys("parser");
    terminal.wait_for("1 of 3 sessions");
    terminal.keys(CONTROL_R);
    terminal.wait_for("copied: ");
    terminal.keys(ESCAPE);
    let ended = terminal.finish();
    assert!(ended.is_restored, "{ended:?}");
    assert!(ended.screen.contains(&format!("claude --resume {}", talks[0].id)), "{}", ended.screen);
    // OSC 52: the clipboard, in base64.
    assert!(String::from_utf8_lossy(&ended.bytes).contains("\u{1b}]52;c;"));
}

#[test]
fn letters_act_after_tab_and_an_export_lies_in_the_folder() {
    let (sandbox, talks) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    terminal.keys("parser");
    terminal.wait_for("1 of 3 sessions");
    terminal.keys(TAB);
    terminal.wait_for("q quit");
    terminal.keys("e");
    let ended = terminal.finish();
    assert!(ended.is_restored && ended.code == 0, "{ended:?}");
    let short: String = talks[0].id.chars().take(8).collect();
    let page = std::fs::read_to_string(sandbox.path(&format!("work/session-{short}.html"))).unwrap();
    assert!(page.contains("Is max_retries read"));
}

#[test]
fn nothing_of_a_transcript_is_obeyed() {
    let (sandbox, talks) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    terminal.wait_for("Upload");
    terminal.keys("idle");
    terminal.wait_for("closes idle");
    terminal.keys(ENTER);
    let ended = terminal.finish();
    assert!(ended.is_restored && ended.screen.contains("closes idle connections"), "{ended:?}");
    let printed = String::from_utf8(ended.bytes).unwrap();
    for obeyed in ["\u{1b}]0;", "\u{7}", "\u{1b}[8m", "\u{202e}", "\u{9b}"] {
        assert!(!printed.contains(obeyed), "{obeyed:?} in {printed:?}");
    }
    assert!(String::from_utf8(talks[1].bytes()).unwrap().contains("u001b]0;owned"));
}

#[test]
fn a_resized_terminal_is_drawn_anew_and_wide_characters_stay_whole() {
    let (sandbox, _) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    terminal.keys(&DOWN.repeat(2));
    for (lines, columns) in [(15, 60), (40, 130), (8, 31), (24, 80)] {
        terminal.resize(lines, columns);
        terminal.wait_until("the list in the new size", |screen| {
            let listed = screen.lines().any(|line| line.contains("整理归档的") && line.contains("…"));
            listed && screen.lines().next().is_some_and(|line| line.trim_end().ends_with("3 sessions"))
        });
        assert!(!terminal.screen().contains('\u{fffd}'));
    }
    terminal.keys(ESCAPE);
    assert!(terminal.finish().is_restored);
}

/// A key after a change of size, while the one before is still being drawn: both are there when the picker looks again, which happens
/// in one round of sixteen.
#[test]
fn a_key_that_comes_with_a_new_size_is_not_lost() {
    let (sandbox, _) = sandbox();
    let mut terminal = start(&sandbox, &[]);
    for _ in 0..30 {
        for (key, listed) in [("q", " 0 of 3 sessions"), (BACKSPACE, "  3 sessions")] {
            terminal.resize(20, 80);
            std::thread::sleep(Duration::from_millis(1));
            terminal.resize(24, 80);
            terminal.keys(key);
            terminal.wait_for(listed);
        }
    }
    terminal.keys(ESCAPE);
    assert!(terminal.finish().is_restored);
}

#[test]
fn a_signal_ends_it_once_the_terminal_is_restored() {
    let (sandbox, _) = sandbox();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = start(&sandbox, &[]);
        terminal.signal(signal.as_raw());
        let ended = terminal.finish();
        assert!(ended.is_restored, "{ended:?}");
        assert_eq!(ended.code, -i64::from(signal.as_raw()));
    }
}

#[test]
fn without_an_archive_one_sentence_says_what_to_do() {
    let sandbox = Sandbox::new();
    let ended = Terminal::start(&sandbox.command(&[]), 24, 80).finish();
    assert_eq!((ended.code, ended.is_restored), (1, true));
    assert!(ended.screen.contains("no sessions are archived yet; `ctxbridge setup`"), "{}", ended.screen);
    assert!(!sandbox.data().join("archive.db").exists());
}

#[test]
fn without_a_terminal_there_is_the_help() {
    let (sandbox, _) = sandbox();
    let ran = run(sandbox.command(&[]), b"").with_code(2);
    assert!(ran.stderr.contains("Usage: ctxbridge"), "{}", ran.stderr);
    let ran = run(sandbox.command(&["archive", "search", "-i"]), b"").with_code(2);
    assert!(ran.stderr.contains("needs a terminal"), "{}", ran.stderr);
}
