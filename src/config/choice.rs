//! Settings that are one of a few words.

/// A setting that is one of a few words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// The words, with what they mean.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for a value.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}
