//! The longest word that a text begins with, of words in order.

/// Finds the longest of `count` words that a text begins with: its place and length. Words are in the order of their bytes, each once; one that is
/// empty is not found.
///
/// The last word that is not behind the text begins with the longest one, for it stands between that and the text. So what it has in
/// common with the text is looked for next, until it is a word itself.
pub(super) fn longest<'v>(text: &str, count: usize, word: impl Fn(usize) -> &'v str) -> Option<(usize, usize)> {
    let (mut text, mut count) = (text.as_bytes(), count);
    loop {
        count = partition_point(count, |place| word(place).as_bytes() <= text);
        let last = word(count.checked_sub(1)?).as_bytes();
        let common = last.iter().zip(text).take_while(|(one, other)| one == other).count();
        match common {
            0 => return None,
            _ if common == last.len() => return Some((count - 1, common)),
            _ => text = &text[..common],
        }
    }
}

/// The first of `count` places for which something that holds up to there does not hold.
pub(super) fn partition_point(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_word_that_a_text_begins_with_is_found(
            words in proptest::collection::btree_set("[abé]{1,4}", 0..30),
            text in "[abé]{0,7}",
        ) {
            let expected = words.iter().filter(|word| text.starts_with(word.as_str())).map(String::len).max();
            let lines: Vec<&String> = words.iter().collect();
            let found = longest(&text, lines.len(), |place| lines[place]);
            prop_assert_eq!(found.map(|(_, length)| length), expected);
            prop_assert!(found.is_none_or(|(place, length)| text.get(..length) == Some(lines[place].as_str())));
        }
    }
}
