//! Strings in JavaScript's units.

/// Length in UTF-16 code units, JavaScript's `String.prototype.length`.
pub(super) fn utf16_len(text: &str) -> u64 {
    text.chars().map(utf16_units).sum()
}

/// The longest start of `text` of at most `max_chars` UTF-16 code units that ends between two
/// characters, so that no surrogate pair is split.
pub(super) fn prefix(text: &str, max_chars: u64) -> &str {
    let mut units = 0;
    for (end, character) in text.char_indices() {
        units += utf16_units(character);
        if units > max_chars {
            return &text[..end];
        }
    }
    text
}

fn utf16_units(character: char) -> u64 {
    // One or two: the cast cannot lose anything.
    character.len_utf16() as u64
}
