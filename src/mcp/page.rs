/*!
As much as fits, and where to go on.

A result has two forms, text and JSON, of which a client shows its model one: each of them keeps to the budget. A cursor is where the
next page begins, with a hash of what was asked, so that one that belongs to something else is noticed.
*/

use serde::Serialize;

use super::error::Failure;
use ctxbridge_common::digest;
use ctxbridge_prune::CHARS_PER_TOKEN;

/// Tokens of a result unless asked for more or less.
pub(super) const DEFAULT_TOKENS: u32 = 2_000;
/// Tokens of a result at least: enough for one of whatever is listed.
pub(super) const LEAST_TOKENS: u32 = 500;
/// Tokens of a result at most: clients refuse what is much larger.
pub(super) const MOST_TOKENS: u32 = 20_000;

/// Characters that are left free for the line that names the next page.
const FOOT_CHARS: usize = 120;

/// Hexadecimal digits of the hash in a cursor.
const HASH_DIGITS: usize = 12;

/// Characters of a budget in tokens, each [`CHARS_PER_TOKEN`].
pub(super) fn chars_of(tokens: Option<u32>) -> Result<usize, Failure> {
    let tokens = tokens.unwrap_or(DEFAULT_TOKENS);
    if !(LEAST_TOKENS..=MOST_TOKENS).contains(&tokens) {
        return Err(Failure::argument("max_tokens", format!("{tokens} is not between {LEAST_TOKENS} and {MOST_TOKENS}")));
    }
    Ok((f64::from(tokens) * CHARS_PER_TOKEN) as usize)
}

/// The cursor of a page that begins `at`, of what `asked` says.
pub(super) fn cursor(asked: &str, at: usize) -> String {
    format!("{at}-{}", &digest::of_bytes(format!("{at} {asked}").as_bytes())[..HASH_DIGITS])
}

/// Where a page begins; at the start without a cursor.
pub(super) fn begin(asked: &str, given: Option<&str>) -> Result<usize, Failure> {
    let Some(given) = given else { return Ok(0) };
    let at = given.split('-').next().and_then(|at| at.parse().ok());
    at.filter(|at| cursor(asked, *at) == given).ok_or_else(|| {
        Failure::argument(
            "cursor",
            "not one of these arguments and of what is archived now; give `next_cursor` as it came, with the same arguments, or \
             begin again without",
        )
    })
}

/// A list within a budget.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// Its lines.
    pub text: String,
    /// The same as data.
    pub items: Vec<T>,
    text_left: usize,
    json_left: usize,
}

impl<T: Serialize> Page<T> {
    /// An empty one of so many characters: `head` stands before the lines, `frame` is the JSON around the items.
    pub fn new(chars: usize, head: String, frame: &impl Serialize) -> Self {
        let left = |used: usize| chars.saturating_sub(used + FOOT_CHARS);
        Self { text_left: left(head.chars().count()), json_left: left(json_chars(frame)), text: head, items: Vec::new() }
    }

    /// Adds an item if it fits; the first one in any case, or there would be no end of asking.
    pub fn add(&mut self, line: &str, item: T) -> bool {
        let (text, json) = (line.chars().count() + 1, json_chars(&item) + 1);
        if !self.items.is_empty() && (text > self.text_left || json > self.json_left) {
            return false;
        }
        self.text_left = self.text_left.saturating_sub(text);
        self.json_left = self.json_left.saturating_sub(json);
        self.text.push('\n');
        self.text.push_str(line);
        self.items.push(item);
        true
    }
}

/// The line that names the next page.
pub(super) fn foot(text: &mut String, next: Option<&str>) {
    if let Some(next) = next {
        text.push_str(&format!("\n\nThere is more: ask again with cursor {next}"));
    }
}

/// The begin of a text that fits a budget of characters, as it is and as JSON.
pub(super) fn piece(text: &str, text_chars: usize, json_chars: usize) -> &str {
    let (mut plain, mut escaped) = (0, 0);
    for (at, character) in text.char_indices() {
        plain += 1;
        escaped += if matches!(character, '"' | '\\' | '\n' | '\t') { 2 } else { 1 };
        if plain > text_chars.saturating_sub(FOOT_CHARS) || escaped > json_chars.saturating_sub(FOOT_CHARS) {
            return &text[..at];
        }
    }
    text
}

/// Characters of a value as JSON.
pub(super) fn json_chars(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |json| json.chars().count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_belongs_to_what_was_asked() {
        let given = cursor("recall a", 4711);
        assert_eq!(begin("recall a", Some(&given)).expect("its own"), 4711);
        assert_eq!(begin("recall a", None).expect("the start"), 0);
        for wrong in ["", "0", "4711", "4711-", "-1-000000000000", "4712-000000000000", "x"] {
            assert!(begin("recall a", Some(wrong)).is_err(), "{wrong}");
        }
        let error = begin("recall b", Some(&given)).expect_err("another's");
        assert!(error.to_string().starts_with("`cursor`: "), "{error}");
    }

    proptest! {
        #[test]
        fn both_forms_fit(lines in proptest::collection::vec("[a-zé\"\\\\ ]{0,80}", 0..40), tokens in LEAST_TOKENS..1_000) {
            let chars = chars_of(Some(tokens)).expect("a budget");
            let mut page = Page::new(chars, "head".to_owned(), &serde_json::json!({ "items": [] }));
            for line in &lines {
                if !page.add(line, line.clone()) {
                    break;
                }
            }
            let json = serde_json::json!({ "items": page.items }).to_string();
            prop_assert!(page.text.chars().count() + FOOT_CHARS <= chars && json.chars().count() + FOOT_CHARS <= chars);
        }

        #[test]
        fn pieces_make_the_whole(text in "[a-zé\"\\\\\n😀]{0,400}", chars in FOOT_CHARS + 1..300) {
            let mut rest = text.as_str();
            let mut whole = String::new();
            while !rest.is_empty() {
                let next = piece(rest, chars, chars + 1);
                prop_assert!(!next.is_empty() && next.chars().count() <= chars - FOOT_CHARS, "{next:?}");
                prop_assert!(json_chars(&next) <= chars + 1 - FOOT_CHARS + 2, "{next:?}");
                whole.push_str(next);
                rest = &rest[next.len()..];
            }
            prop_assert_eq!(whole, text);
        }
    }
}
