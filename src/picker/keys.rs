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
pub(crate) enum KeyAction {
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
pub(crate) fn action(key: KeyEvent, focus: Focus) -> Option<KeyAction> {
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
            Some(KeyAction::Edit(Edit::Insert(letter)))
        }
        code => named(code, key.modifiers, focus),
    }
}

fn control(letter: char, focus: Focus) -> Option<KeyAction> {
    let edit = |edit| (focus == Focus::Query).then_some(KeyAction::Edit(edit));
    match letter.to_ascii_lowercase() {
        'c' | 'g' => Some(KeyAction::Quit),
        'p' | 'k' => Some(KeyAction::Move(Movement::Up)),
        'n' | 'j' => Some(KeyAction::Move(Movement::Down)),
        'r' => Some(KeyAction::CopyResume),
        'e' => Some(KeyAction::Export),
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

fn command(letter: char) -> Option<KeyAction> {
    Some(match letter {
        'k' => KeyAction::Move(Movement::Up),
        'j' => KeyAction::Move(Movement::Down),
        'g' => KeyAction::Move(Movement::First),
        'G' => KeyAction::Move(Movement::Last),
        ' ' => KeyAction::Move(Movement::PageDown),
        'K' => KeyAction::ScrollPreview(-1),
        'J' => KeyAction::ScrollPreview(1),
        'r' => KeyAction::CopyResume,
        'e' => KeyAction::Export,
        'q' => KeyAction::Quit,
        '/' => KeyAction::Focus(Focus::Query),
        _ => return None,
    })
}

fn named(code: KeyCode, modifiers: KeyModifiers, focus: Focus) -> Option<KeyAction> {
    let edit = |edit| (focus == Focus::Query).then_some(KeyAction::Edit(edit));
    let scrolls = modifiers.intersects(KeyModifiers::SHIFT | KeyModifiers::ALT);
    match code {
        KeyCode::Up if scrolls => Some(KeyAction::ScrollPreview(-1)),
        KeyCode::Down if scrolls => Some(KeyAction::ScrollPreview(1)),
        KeyCode::Up => Some(KeyAction::Move(Movement::Up)),
        KeyCode::Down => Some(KeyAction::Move(Movement::Down)),
        KeyCode::PageUp => Some(KeyAction::Move(Movement::PageUp)),
        KeyCode::PageDown => Some(KeyAction::Move(Movement::PageDown)),
        KeyCode::Home => Some(KeyAction::Move(Movement::First)),
        KeyCode::End => Some(KeyAction::Move(Movement::Last)),
        KeyCode::Enter => Some(KeyAction::Show),
        KeyCode::Esc => Some(KeyAction::Quit),
        KeyCode::Tab | KeyCode::BackTab => Some(KeyAction::Focus(match focus {
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
