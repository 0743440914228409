//! Keys, and what they do.

use super::*;
use crate::keys::Focus;

fn show_session(number: usize) -> Option<Decision> {
    Some(Decision::Show(Selection::Session(id(number))))
}

#[test]
fn enter_shows_what_is_selected() {
    let mut desk = Desk::new(80, 24);
    assert_eq!(desk.decision(KeyCode::Enter), show_session(0));
    desk.press(KeyCode::Down);
    desk.control('n');
    assert_eq!(desk.decision(KeyCode::Enter), show_session(2));
    desk.control('p');
    desk.press(KeyCode::Up);
    desk.press(KeyCode::Up);
    assert_eq!(desk.decision(KeyCode::Enter), show_session(0));
    desk.press(KeyCode::End);
    desk.press(KeyCode::Down);
    assert_eq!(desk.decision(KeyCode::Enter), show_session(5));
    desk.press(KeyCode::Home);
    assert_eq!(desk.decision(KeyCode::Enter), show_session(0));
}

#[test]
fn typing_filters_and_finds_turns() {
    let mut desk = Desk::new(80, 24);
    desk.type_in("retr");
    assert_eq!(desk.picker.listing.fitting.len(), 2);
    assert_eq!(desk.picker.listing.hits.len(), 2);
    // Below the sessions.
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    assert_eq!(desk.decision(KeyCode::Enter), Some(Decision::Show(Selection::Turn("ctx:1a2b3c40".to_owned()))));
    desk.control('u');
    desk.settle();
    assert_eq!((desk.picker.listing.fitting.len(), desk.picker.listing.hits.len()), (6, 0));
    assert_eq!(desk.decision(KeyCode::Enter), show_session(0));
}

#[test]
fn turns_are_searched_once_the_query_rests() {
    let mut desk = Desk::new(80, 24);
    desk.asked.clear();
    for letter in "retry".chars() {
        desk.press(KeyCode::Char(letter));
        let due = desk.picker.requests(desk.at);
        assert!(!due.iter().any(|request| matches!(request, Request::Search(_))), "{due:?}");
        desk.at += Duration::from_millis(50);
    }
    assert!(desk.picker.is_searching());
    desk.settle();
    let searches: Vec<_> = desk.asked.iter().filter(|request| matches!(request, Request::Search(_))).collect();
    assert_eq!(searches, [&Request::Search("retry".to_owned())]);
    assert!(!desk.picker.is_searching());
}

#[test]
fn hits_of_words_that_changed_since_are_not_shown() {
    let mut desk = Desk::new(80, 24);
    desk.type_in("zz");
    desk.picker.receive(Reply::Found("retr".to_owned(), Ok(found("retr"))));
    assert!(desk.picker.listing.hits.is_empty());
    desk.control('u');
    desk.picker.receive(Reply::Found("zz".to_owned(), Ok(found("retr"))));
    assert!(desk.picker.listing.hits.is_empty());
}

#[test]
fn letters_act_once_the_query_is_left() {
    let mut desk = Desk::new(80, 24);
    desk.press(KeyCode::Tab);
    assert_eq!(desk.press(KeyCode::Char('x')), None);
    desk.press(KeyCode::Char('j'));
    desk.press(KeyCode::Char('G'));
    desk.press(KeyCode::Char('k'));
    assert_eq!(desk.picker.query.text(), "");
    assert_eq!(desk.decision(KeyCode::Char('e')), Some(Decision::Export(id(4))));
    assert_eq!(desk.decision(KeyCode::Char('q')), Some(Decision::Quit));
    desk.press(KeyCode::Char('/'));
    desk.type_in("q");
    assert_eq!(desk.picker.query.text(), "q");
    assert_eq!(desk.decision(KeyCode::Esc), Some(Decision::Quit));
}

// On Windows, `/home/dev` is no folder to change to.
#[cfg(unix)]
#[test]
fn control_keys_act_while_typing() {
    let mut desk = Desk::new(80, 24);
    desk.type_in("parser");
    assert_eq!(desk.control('e'), Some(Effect::Finish(Outcome { decision: Decision::Export(id(1)), copied: None })));
    let command = format!("cd /home/dev/parser && claude --resume {}", id(1));
    assert_eq!(desk.control('r'), Some(Effect::Copy(command.clone())));
    assert!(desk.screen().contains("copied: cd /home/dev/parser && claude"));
    assert_eq!(desk.control('c'), Some(Effect::Finish(Outcome { decision: Decision::Quit, copied: Some(command) })));
    assert_eq!(desk.picker.query.text(), "parser");
}

#[test]
fn a_session_of_this_folder_is_resumed_without_changing_it() {
    let options = PickerOptions { here: Some("/home/dev/ledger".into()), ..PickerOptions::default() };
    let mut desk = Desk::with(options, usual_sessions(), (80, 24));
    desk.press(KeyCode::Tab);
    assert_eq!(desk.press(KeyCode::Char('r')), Some(Effect::Copy(format!("claude --resume {}", id(0)))));
}

// On Windows, `/home/dev` is no folder to change to.
#[cfg(unix)]
#[test]
fn a_turn_is_resumed_and_exported_as_its_session() {
    let mut desk = Desk::new(80, 24);
    desk.type_in("retr");
    desk.press(KeyCode::End);
    assert_eq!(desk.control('r'), Some(Effect::Copy(format!("cd /home/dev/parser && claude --resume {}", id(1)))));
    assert!(
        matches!(desk.control('e'), Some(Effect::Finish(Outcome { decision: Decision::Export(session), .. })) if session == id(1))
    );
}

#[test]
fn an_id_that_would_mean_something_to_a_shell_is_not_copied() {
    let session = PickableSession { id: "x;rm -rf ~".to_owned(), ..PickableSession::default() };
    let mut desk = Desk::with(PickerOptions::default(), vec![session], (80, 24));
    assert_eq!(desk.control('r'), None);
    assert!(desk.screen().contains("cannot be resumed"));
}

#[test]
fn nothing_can_be_picked_from_nothing() {
    let mut desk = Desk::with(PickerOptions::default(), Vec::new(), (80, 24));
    assert_eq!(desk.press(KeyCode::Enter), None);
    assert_eq!(desk.control('r'), None);
    assert_eq!(desk.control('e'), None);
    desk.press(KeyCode::PageDown);
    assert!(desk.screen().contains("no sessions"));
    assert_eq!(desk.decision(KeyCode::Esc), Some(Decision::Quit));
}

#[test]
fn what_is_pasted_is_typed_and_decides_nothing() {
    let mut desk = Desk::new(80, 24);
    desk.press(KeyCode::Tab);
    desk.picker.paste("retry\r\nq\u{1b}[A", desk.at);
    assert_eq!(desk.picker.query.text(), "retry q[A");
    assert_eq!(desk.picker.focus, Focus::Query);
}

#[test]
fn of_many_sessions_all_are_listed_and_only_those_on_the_screen_are_counted() {
    let mut desk = Desk::with(PickerOptions::default(), many_sessions(10_000), (80, 24));
    assert_eq!(desk.picker.listing.sessions().len(), 10_000);
    desk.press(KeyCode::End);
    desk.settle();
    assert!(desk.screen().contains("Session of the number 9999"));
    assert!(desk.picker.turn_counts.len() < 48, "{} of them were counted", desk.picker.turn_counts.len());
    desk.type_in("number 4711");
    assert_eq!(desk.decision(KeyCode::Enter), show_session(4_711));
}

#[test]
fn what_is_selected_stays_so_when_more_sessions_come() {
    let sessions = many_sessions(500);
    let mut desk = Desk::with(PickerOptions::default(), Vec::new(), (80, 24));
    desk.picker = Picker::new(PickerOptions::default());
    desk.sessions = sessions;
    let first = desk.picker.requests(desk.at);
    answer(&desk.sessions, &first[0]).into_iter().for_each(|reply| desk.picker.receive(reply));
    desk.draw();
    desk.press(KeyCode::PageDown);
    let selected = desk.picker.listing.selection();
    assert_ne!(selected, Some(Selection::Session(id(0))));
    // A newer one has come meanwhile.
    desk.sessions.insert(0, PickableSession { id: "newer".to_owned(), ..PickableSession::default() });
    desk.settle();
    assert_eq!(desk.picker.listing.sessions().len(), 501);
    assert_eq!(desk.picker.listing.selection(), selected);
}

#[test]
fn the_selected_one_is_on_the_screen_wherever_one_goes() {
    for lines in 3..30 {
        let mut desk = Desk::with(PickerOptions::default(), many_sessions(60), (60, lines));
        desk.type_in("retr");
        desk.control('u');
        desk.type_in("number");
        desk.picker.receive(Reply::Found("number".to_owned(), Ok(found("retr"))));
        let keys = [
            KeyCode::Down,
            KeyCode::PageDown,
            KeyCode::End,
            KeyCode::Up,
            KeyCode::Up,
            KeyCode::Up,
            KeyCode::PageUp,
            KeyCode::Home,
        ];
        for key in keys.iter().chain(&[KeyCode::PageDown; 20]).chain(&[KeyCode::PageUp; 20]) {
            desk.press(*key);
            let screen = desk.screen();
            assert_eq!(screen.matches("\"> ").count(), 2, "{lines} lines, after {key:?}:\n{screen}");
        }
    }
}

#[test]
fn an_error_is_told_and_does_not_end_the_picker() {
    let mut desk = Desk::new(80, 24);
    desk.type_in("zz");
    desk.picker.receive(Reply::Found("zz".to_owned(), Err("the index\u{1b}[2J is damaged".to_owned())));
    assert!(desk.screen().contains("the index[2J is damaged"));
    desk.picker.receive(Reply::Sessions(200, Err("no such file".to_owned())));
    assert!(desk.screen().contains("no such file"));
    assert_eq!(desk.decision(KeyCode::Esc), Some(Decision::Quit));
}
