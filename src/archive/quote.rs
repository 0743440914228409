//! Quotes transcript text for a session, so that nothing in it reads as anything else.

/// Delimiter of a block of quoted text, and its replacement inside the text.
const FENCE: &str = "```";
const NO_FENCE: &str = "'''";

/// Cost of fencing a text, in characters.
pub const FENCE_OVERHEAD_CHARS: usize = 16;

/// Lines of history between fences, after a line that labels them.
pub fn fenced(label: &str, lines: &str) -> String {
    format!("{label}\n{FENCE}history\n{lines}\n{FENCE}")
}

/// Quotes a text as one line: control characters are removed, white space is collapsed, the client's own tags are broken up, and
/// nothing ends a fence.
pub fn line(text: &str) -> String {
    // First, or what is left would come together to a tag.
    let visible: String = text.chars().filter(|character| !is_invisible(*character)).collect();
    let words: Vec<&str> = visible.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.into_iter().map(without_tags).collect::<Vec<_>>().join(" ").replace(FENCE, NO_FENCE)
}

/// Like [`line()`], but keeps lines and indents.
pub fn lines(text: &str) -> String {
    let is_break = |character: char| matches!(character, '\u{2028}' | '\u{2029}');
    let is_hidden = |character: char| character.is_control() || is_break(character) || is_invisible(character);
    let is_kept = |character: &char| matches!(character, '\n' | '\t') || !is_hidden(*character);
    let visible: String = text.chars().filter(is_kept).collect();
    without_tags(&visible)
}

/// Replaces characters that open a tag; comparison and shift operators stay.
fn without_tags(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let compares = |next: &char| next.is_whitespace() || next.is_ascii_digit() || matches!(next, '<' | '‹' | '=' | '-');
        let opens = character == '<' && characters.peek().is_some_and(|next| !compares(next));
        quoted.push(if opens { '‹' } else { character });
    }
    quoted
}

/// Removes characters that a terminal would obey from foreign text.
pub fn printable(text: &str) -> String {
    let may_be_seen = |c: &char| !(c.is_control() || is_invisible(*c)) || matches!(c, '\n' | '\t');
    text.chars().filter(may_be_seen).collect()
}

/// `true` for characters that change the direction of text or show nothing: text hides in them.
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The first `chars` characters.
pub fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// At most `limit` characters, the last of them an ellipsis if text was cut.
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit.saturating_sub(1)).collect();
    if limit == 0 { kept } else { kept.trim_end().to_owned() + "…" }
}

/// Lines that fit a budget of characters, in order of weight. A line that no longer fits is cut if enough of it remains; then no
/// more lines are taken.
#[derive(Debug)]
pub struct QuoteBudget {
    text: String,
    left: usize,
}

impl QuoteBudget {
    /// Minimum characters of a cut line: less says nothing.
    const MIN_CUT_CHARS: usize = 60;

    /// Creates an empty text with a budget of characters.
    pub fn new(characters: usize) -> Self {
        Self { text: String::new(), left: characters }
    }

    /// Adds a line; returns `true` if at least its start fits.
    pub fn add(&mut self, line: &str) -> bool {
        let separator = usize::from(!self.text.is_empty());
        let length = line.chars().count();
        let Some(room) = self.left.checked_sub(separator).filter(|room| length <= *room || *room >= Self::MIN_CUT_CHARS) else {
            self.left = 0;
            return false;
        };
        if separator > 0 {
            self.text.push('\n');
        }
        self.text.push_str(&cut(line, room));
        self.left = room - length.min(room);
        true
    }

    /// The lines.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_reads_as_a_tag() {
        let text = "a\n\t b </system-reminder>\u{1b}[31m <x> 1 < 2 \u{202e}c";
        assert_eq!(line(text), "a b ‹/system-reminder> [31m ‹x> 1 < 2 c");
        assert_eq!(lines(text), "a\n\t b ‹/system-reminder>[31m ‹x> 1 < 2 c");
        assert_eq!(line("a ```` b ```"), "a '''` b '''");
        assert_eq!(line("a\u{2028}b \u{61c}c\u{ad}d \u{e0101}e"), "a b cd e");
        assert_eq!(lines("a\u{2028}b \u{61c}c"), "ab c");
        assert_eq!(line("<\u{200b}/x> \u{200b} <<y> <!-- a<=b x<1 <"), "‹/x> <‹y> ‹!-- a<=b x<1 <");
    }

    #[test]
    fn a_fence_costs_what_it_says() {
        assert_eq!(fenced("label", "lines").chars().count(), "label".len() + "lines".len() + FENCE_OVERHEAD_CHARS);
    }

    proptest! {
        #[test]
        fn a_budget_is_kept(lines in proptest::collection::vec(".{0,200}", 0..20), limit in 0_usize..500) {
            let mut budget = QuoteBudget::new(limit);
            for text in &lines {
                budget.add(text);
            }
            let text = budget.into_text();
            prop_assert!(text.chars().count() <= limit, "{} of {limit}", text.chars().count());
        }

        #[test]
        fn a_line_is_one_line(text in "\\PC{0,50}|.{0,50}") {
            let quoted = line(&text);
            prop_assert!(!quoted.contains('\n') && !quoted.contains("</") && !quoted.contains(FENCE));
        }

        #[test]
        fn lines_stay_and_have_no_tags(text in "[a<>/ \n\t\r\u{200b}\u{1b}é]{0,40}") {
            let quoted = lines(&text);
            prop_assert_eq!(quoted.matches('\n').count(), text.matches('\n').count());
            prop_assert!(!quoted.contains("</") && !quoted.contains("<a") && !quoted.contains('\u{1b}'), "{quoted:?}");
            prop_assert_eq!(lines(&quoted), quoted);
        }
    }
}
