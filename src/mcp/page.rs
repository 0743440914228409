/*!
Pages of output: as many items as fit a budget, and a cursor for the next page.

A result has two forms, text and JSON, and a client shows its model one of them. Each of them keeps to the budget. A cursor is the
start of the next page, with a hash of the request, so that a cursor of another request is noticed.
A cursor of `recall` has a hash of the text as well.
*/

use serde::Serialize;

use super::error::ToolError;
use ctxbridge_common::digest;
use ctxbridge_prune::CHARS_PER_TOKEN;

/// Default tokens of a result.
pub(super) const DEFAULT_RESULT_TOKENS: u32 = 2_000;
/// Minimum tokens of a result: enough for one item of any list.
pub(super) const MIN_RESULT_TOKENS: u32 = 500;
/// Maximum tokens of a result: clients refuse much larger ones.
pub(super) const MAX_RESULT_TOKENS: u32 = 20_000;

/// Characters that are reserved for the line that names the next page.
const FOOT_CHARS: usize = 120;

/// Hexadecimal digits of the hash in a cursor.
const HASH_DIGITS: usize = 12;

/// Converts a budget in tokens to characters, [`CHARS_PER_TOKEN`] each.
pub(super) fn budget_chars(tokens: Option<u32>) -> Result<usize, ToolError> {
    let tokens = tokens.unwrap_or(DEFAULT_RESULT_TOKENS);
    if !(MIN_RESULT_TOKENS..=MAX_RESULT_TOKENS).contains(&tokens) {
        return Err(ToolError::invalid_argument(
            "max_tokens",
            format!("{tokens} is not between {MIN_RESULT_TOKENS} and {MAX_RESULT_TOKENS}"),
        ));
    }
    Ok((f64::from(tokens) * CHARS_PER_TOKEN) as usize)
}

/// The cursor of the page of the request `asked` that starts `at`.
pub(super) fn cursor(asked: &str, at: usize) -> String {
    format!("{at}-{}", &digest::of_bytes(format!("{at} {asked}").as_bytes())[..HASH_DIGITS])
}

/// Start of the page that a cursor names; 0 without a cursor.
pub(super) fn page_start(asked: &str, given: Option<&str>) -> Result<usize, ToolError> {
    let Some(given) = given else { return Ok(0) };
    let at = given.split('-').next().and_then(|at| at.parse().ok());
    at.filter(|at| cursor(asked, *at) == given).ok_or_else(|| {
        ToolError::invalid_argument(
            "cursor",
            "not one of these arguments and of what is archived now; give `next_cursor` as it came, with the same arguments, or \
             begin again without",
        )
    })
}

/// A list within a budget.
#[derive(Debug)]
pub(super) struct ResultPage<T> {
    /// Its lines.
    pub text: String,
    /// The same items as data.
    pub items: Vec<T>,
    text_left: usize,
    json_left: usize,
}

impl<T: Serialize> ResultPage<T> {
    /// Makes an empty page of at most `chars` characters. `head` comes before the lines, `frame` is the JSON around the items.
    pub fn new(chars: usize, head: String, frame: &impl Serialize) -> Self {
        let left = |used: usize| chars.saturating_sub(used + FOOT_CHARS);
        Self { text_left: left(head.chars().count()), json_left: left(json_chars(frame)), text: head, items: Vec::new() }
    }

    /// Adds an item if it fits, and returns `true` then. The first item is always added, or the same page would be asked for
    /// forever.
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

impl<T> ResultPage<T> {
    /// Ends the page of the request `asked`, which starts at item `begin` of `count`: its text, its items, and the cursor of the
    /// next page, if there is one.
    pub fn finish(mut self, asked: &str, begin: usize, count: usize) -> (String, Vec<T>, Option<String>) {
        let end = begin + self.items.len();
        let next = (end > begin && end < count).then(|| cursor(asked, end));
        foot(&mut self.text, next.as_deref());
        (self.text, self.items, next)
    }
}

/// Adds notes to the head of a result.
pub(super) fn add_notes(head: &mut String, notes: &[String]) {
    for note in notes {
        head.push_str(&format!("\nNote: {note}"));
    }
}

/// Adds the line that names the next page.
pub(super) fn foot(text: &mut String, next: Option<&str>) {
    if let Some(next) = next {
        text.push_str(&format!("\n\nThere is more: ask again with cursor {next}"));
    }
}

/// The longest start of a text that fits budgets of characters, as it is and as JSON.
pub(super) fn fitting_prefix(text: &str, text_chars: usize, json_chars: usize) -> &str {
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

/// Number of characters of a value as JSON.
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
        assert_eq!(page_start("recall a", Some(&given)).expect("its own"), 4711);
        assert_eq!(page_start("recall a", None).expect("the start"), 0);
        for wrong in ["", "0", "4711", "4711-", "-1-000000000000", "4712-000000000000", "x"] {
            assert!(page_start("recall a", Some(wrong)).is_err(), "{wrong}");
        }
        let error = page_start("recall b", Some(&given)).expect_err("another's");
        assert!(error.to_string().starts_with("`cursor`: "), "{error}");
    }

    proptest! {
        #[test]
        fn both_forms_fit(lines in proptest::collection::vec("[a-zé\"\\\\ ]{0,80}", 0..40), tokens in MIN_RESULT_TOKENS..1_000) {
            let chars = budget_chars(Some(tokens)).expect("a budget");
            let mut page = ResultPage::new(chars, "head".to_owned(), &serde_json::json!({ "items": [] }));
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
                let next = fitting_prefix(rest, chars, chars + 1);
                prop_assert!(!next.is_empty() && next.chars().count() <= chars - FOOT_CHARS, "{next:?}");
                prop_assert!(json_chars(&next) <= chars + 1 - FOOT_CHARS + 2, "{next:?}");
                whole.push_str(next);
                rest = &rest[next.len()..];
            }
            prop_assert_eq!(whole, text);
        }
    }
}
