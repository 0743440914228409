//! Screens, as the terminal shows them.

use ratatui::style::{Color, Modifier};

use super::*;

#[test]
fn the_usual_terminal() {
    let mut desk = Desk::new(80, 24);
    insta::assert_snapshot!("80x24", desk.screen());
    desk.type_in("retr");
    insta::assert_snapshot!("80x24_filtered", desk.screen());
    desk.press(KeyCode::End);
    desk.settle();
    insta::assert_snapshot!("80x24_turn", desk.screen());
    desk.press(KeyCode::Tab);
    insta::assert_snapshot!("80x24_keys", desk.screen());
}

#[test]
fn a_small_terminal_has_no_preview() {
    let mut desk = Desk::new(60, 15);
    insta::assert_snapshot!("60x15", desk.screen());
    assert!(!desk.asked.iter().any(|request| matches!(request, Request::Preview(_))));
    desk.type_in("retr");
    insta::assert_snapshot!("60x15_filtered", desk.screen());
}

#[test]
fn a_wide_terminal_has_the_preview_beside_the_list() {
    let mut desk = Desk::new(130, 20);
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    desk.settle();
    insta::assert_snapshot!("130x20", desk.screen());
}

#[test]
fn a_terminal_of_any_size_shows_what_fits() {
    let mut desk = Desk::new(80, 24);
    for width in [1, 2, 3, 5, 20, 29, 30, 49, 50, 59, 60, 69, 70, 109, 110, 140] {
        for height in [1, 2, 3, 4, 5, 6, 7, 8, 19, 20, 30] {
            desk.terminal.backend_mut().resize(width, height);
            desk.settle();
            desk.type_in("retr");
            desk.press(KeyCode::End);
            desk.settle();
            desk.control('u');
            desk.settle();
        }
    }
    desk.terminal.backend_mut().resize(80, 24);
    desk.settle();
    assert_eq!(desk.screen(), Desk::new(80, 24).screen());
}

#[test]
fn no_control_character_is_drawn() {
    for (width, height) in [(80, 24), (130, 20), (60, 15)] {
        let mut desk = Desk::new(width, height);
        desk.press(KeyCode::End);
        desk.settle();
        desk.type_in("\u{1b}retr\u{7}");
        desk.press(KeyCode::End);
        desk.settle();
        let cells = desk.terminal.backend().buffer().content.iter();
        assert!(cells.clone().any(|cell| cell.symbol() == "r"));
        assert_eq!(cells.filter(|cell| cell.symbol().contains(char::is_control)).count(), 0);
    }
}

#[test]
fn without_colors_there_are_none_and_what_fits_is_seen_all_the_same() {
    for has_color in [true, false] {
        let mut desk = Desk::with(PickerOptions { has_color, ..PickerOptions::default() }, usual_sessions(), (80, 24));
        desk.type_in("retr");
        let cells = &desk.terminal.backend().buffer().content;
        let colored = cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count();
        assert_eq!(colored > 0, has_color);
        let underlined = cells.iter().filter(|cell| cell.modifier.contains(Modifier::UNDERLINED)).count();
        assert_eq!(underlined > 0, !has_color);
        let selected: Vec<_> = cells.iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED)).collect();
        assert_eq!(selected.len(), 80);
    }
}

#[test]
fn the_cursor_is_where_letters_go() {
    let mut desk = Desk::new(40, 10);
    desk.type_in("会话ab");
    desk.press(KeyCode::Left);
    desk.terminal.backend_mut().assert_cursor_position((2 + 5, 0));
    desk.type_in(&"long ".repeat(20));
    let cursor = ratatui::backend::Backend::get_cursor_position(desk.terminal.backend_mut()).unwrap();
    assert!(cursor.x > 15 && cursor.x < 40, "{cursor:?}");
}

#[test]
fn the_preview_scrolls_to_its_end_and_begins_anew_with_another() {
    let mut desk = Desk::new(80, 24);
    for _ in 0..200 {
        desk.key(KeyCode::Down, KeyModifiers::SHIFT);
    }
    assert!(desk.screen().contains(" 39  A prompt"));
    desk.key(KeyCode::Up, KeyModifiers::SHIFT);
    assert!(!desk.screen().contains(" 39  A prompt"));
    desk.press(KeyCode::Down);
    desk.settle();
    assert!(desk.screen().contains("  0  A prompt"));
}
