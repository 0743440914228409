//! The line that is typed into.

use unicode_segmentation::UnicodeSegmentation;

use crate::text::clean_line;

/// Maximum characters: nobody types more, but somebody may paste a file.
const MAX_CHARS: usize = 500;

/// A line of text and a cursor in it, a byte offset between two characters as people count them.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryLine {
    text: String,
    cursor: usize,
}

/// A change of the line, or of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Insert(char),
    Backspace,
    Delete,
    DeleteWord,
    Clear,
    Left,
    Right,
    Start,
}

impl QueryLine {
    pub(crate) fn new(text: &str) -> Self {
        let mut line = Self::default();
        line.paste(text);
        line
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor.
    pub(crate) fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Inserts text, as one line.
    pub(crate) fn paste(&mut self, text: &str) {
        let room = MAX_CHARS.saturating_sub(self.text.chars().count());
        let text: String = clean_line(text).chars().take(room).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    /// Returns `true` if the text changed.
    pub(crate) fn edit(&mut self, edit: Edit) -> bool {
        let before = self.text.len();
        let (start, end) = (self.cursor - self.previous(), self.cursor + self.next());
        match edit {
            // A space at the end is typed before the next word, so it is not trimmed.
            Edit::Insert(character) if !character.is_control() && self.text.chars().count() < MAX_CHARS => {
                self.text.insert(self.cursor, character);
                self.cursor += character.len_utf8();
            }
            Edit::Insert(_) => {}
            Edit::Backspace => self.remove_from(start),
            Edit::Delete => self.text.replace_range(self.cursor..end, ""),
            Edit::DeleteWord => {
                let word = self.before_cursor().trim_end().rfind(char::is_whitespace);
                self.remove_from(word.map_or(0, |space| space + self.text[space..].chars().next().map_or(0, char::len_utf8)));
            }
            Edit::Clear => {
                self.text.clear();
                self.cursor = 0;
            }
            Edit::Left => self.cursor = start,
            Edit::Right => self.cursor = end,
            Edit::Start => self.cursor = 0,
        }
        self.text.len() != before
    }

    fn remove_from(&mut self, start: usize) {
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    /// Bytes of the character before the cursor.
    fn previous(&self) -> usize {
        self.before_cursor().graphemes(true).next_back().map_or(0, str::len)
    }

    /// Bytes of the character behind the cursor.
    fn next(&self) -> usize {
        self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, edits: &[Edit]) -> String {
        let mut line = QueryLine::new(text);
        edits.iter().for_each(|edit| {
            line.edit(*edit);
        });
        format!("{}|{}", line.before_cursor(), &line.text()[line.before_cursor().len()..])
    }

    #[test]
    fn characters_are_removed_as_people_count_them() {
        assert_eq!(edited("cafe\u{301}", &[Edit::Backspace]), "caf|"); // typos: ignore
        assert_eq!(edited("会话", &[Edit::Left, Edit::Backspace]), "|话");
        assert_eq!(edited("会话", &[Edit::Start, Edit::Delete, Edit::Insert('x')]), "x|话");
        assert_eq!(edited("", &[Edit::Backspace, Edit::Delete, Edit::DeleteWord, Edit::Left, Edit::Right]), "|");
    }

    #[test]
    fn words_are_removed_up_to_the_space_before_them() {
        assert_eq!(edited("retry the budget", &[Edit::DeleteWord]), "retry the |");
        assert_eq!(edited("retry", &[Edit::Insert(' '), Edit::DeleteWord]), "|");
        assert_eq!(edited("a\u{3000}b", &[Edit::DeleteWord]), "a\u{3000}|");
        assert_eq!(edited("one two", &[Edit::Clear]), "|");
    }

    #[test]
    fn a_paste_is_one_short_line() {
        assert_eq!(edited("a\n\u{1b}[2Jb\r\n", &[]), "a [2Jb|");
        assert_eq!(QueryLine::new(&"x".repeat(9_999)).text().len(), MAX_CHARS);
    }
}
