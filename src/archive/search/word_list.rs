//! Lists of words as text: a word at the start of each line, and behind a space what is known of it.
//!
//! To look a word up takes some microseconds, and nothing has to be made of the list before, which a process that looks up ten words has
//! no time for.

use memchr::memmem;

/// Returns what is behind a word in a list. The first line is a heading.
pub(super) fn behind_word<'l>(list: &'l str, word: &str) -> Option<&'l str> {
    let start = memmem::find(list.as_bytes(), format!("\n{word} ").as_bytes())? + word.len() + 2;
    list[start..].lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_whole_and_not_in_the_heading() {
        let list = "head 1\nparse 2\nparser 3 *\nlast ";
        let found = ["head", "parse", "parser", "pars", "arser", "", "last"].map(|word| behind_word(list, word));
        assert_eq!(found, [None, Some("2"), Some("3 *"), None, None, None, None]);
    }
}
