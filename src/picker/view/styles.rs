//! Styles of the picker, of the terminal's own colors: the user chose those.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy)]
pub(super) struct Styles {
    pub(super) strong: Style,
    pub(super) faint: Style,
    /// Characters that fit the query.
    pub(super) matched: Style,
    pub(super) selected: Style,
    pub(super) failed: Style,
}

impl Styles {
    pub(super) fn new(has_color: bool) -> Self {
        let colored = |color: Color, otherwise: Modifier| match has_color {
            true => Style::new().fg(color).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::BOLD | otherwise),
        };
        Self {
            strong: Style::new().add_modifier(Modifier::BOLD),
            faint: Style::new().add_modifier(Modifier::DIM),
            matched: colored(Color::Green, Modifier::UNDERLINED),
            selected: Style::new().add_modifier(Modifier::REVERSED),
            failed: colored(Color::Red, Modifier::empty()),
        }
    }
}
