//! The meaning of keys: while the query is typed, letters are text; in the list, they act.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::query_line::Edit;

/// The part that letters go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    /// The query line: they are text.
    #[default]
    Query,
    /// The list: they are commands.
    List,
}

/// A movement in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// The meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Edit(Edit),
    Move(Movement),
    ScrollPreview(i16),
    Focus(Focus),
    Show,
    CopyResume,
    Export,
    Quit,
}

/// Returns the meaning of a key, if it has one.
pub(crate) fn action(key: KeyEvent, focus: Focus) -> Option<Action> {
    // Some terminals report that a key was let go.
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    // AltGr is reported as both, and types a character.
    match key.code {
        KeyCode::Char(letter) if is_control && !key.modifiers.contains(KeyModifiers::ALT) => control(letter, focus),
        KeyCode::Char(letter) if focus == Focus::List => command(letter),
        KeyCode::Char(letter) if is_control || !key.modifiers.contains(KeyModifiers::ALT) => {
            Some(Action::Edit(Edit::Insert(letter)))
        }
        code => named(code, key.modifiers, focus),
    }
}

fn control(letter: char, focus: Focus) -> Option<Action> {
    let edit = |edit| (focus == Focus::Query).then_some(Action::Edit(edit));
    match letter.to_ascii_lowercase() {
        'c' | 'g' => Some(Action::Quit),
        'p' | 'k' => Some(Action::Move(Movement::Up)),
        'n' | 'j' => Some(Action::Move(Movement::Down)),
        'r' => Some(Action::CopyResume),
        'e' => Some(Action::Export),
        'a' => edit(Edit::Start),
        'b' => edit(Edit::Left),
        'd' => edit(Edit::Delete),
        'f' => edit(Edit::Right),
        'h' => edit(Edit::Backspace),
        'u' => edit(Edit::Clear),
        'w' => edit(Edit::DeleteWord),
        _ => None,
    }
}

fn command(letter: char) -> Option<Action> {
    Some(match letter {
        'k' => Action::Move(Movement::Up),
        'j' => Action::Move(Movement::Down),
        'g' => Action::Move(Movement::First),
        'G' => Action::Move(Movement::Last),
        ' ' => Action::Move(Movement::PageDown),
        'K' => Action::ScrollPreview(-1),
        'J' => Action::ScrollPreview(1),
        'r' => Action::CopyResume,
        'e' => Action::Export,
        'q' => Action::Quit,
        '/' => Action::Focus(Focus::Query),
        _ => return None,
    })
}

fn named(code: KeyCode, modifiers: KeyModifiers, focus: Focus) -> Option<Action> {
    let edit = |edit| (focus == Focus::Query).then_some(Action::Edit(edit));
    let scrolls = modifiers.intersects(KeyModifiers::SHIFT | KeyModifiers::ALT);
    match code {
        KeyCode::Up if scrolls => Some(Action::ScrollPreview(-1)),
        KeyCode::Down if scrolls => Some(Action::ScrollPreview(1)),
        KeyCode::Up => Some(Action::Move(Movement::Up)),
        KeyCode::Down => Some(Action::Move(Movement::Down)),
        KeyCode::PageUp => Some(Action::Move(Movement::PageUp)),
        KeyCode::PageDown => Some(Action::Move(Movement::PageDown)),
        KeyCode::Home => Some(Action::Move(Movement::First)),
        KeyCode::End => Some(Action::Move(Movement::Last)),
        KeyCode::Enter => Some(Action::Show),
        KeyCode::Esc => Some(Action::Quit),
        KeyCode::Tab | KeyCode::BackTab => Some(Action::Focus(match focus {
            Focus::Query => Focus::List,
            Focus::List => Focus::Query,
        })),
        KeyCode::Backspace if modifiers.contains(KeyModifiers::ALT) => edit(Edit::DeleteWord),
        KeyCode::Backspace => edit(Edit::Backspace),
        KeyCode::Delete => edit(Edit::Delete),
        KeyCode::Left => edit(Edit::Left),
        KeyCode::Right => edit(Edit::Right),
        _ => None,
    }
}
