//! Sessions whose title or project fits the query.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32String};

use crate::source::PickableSession;

/// Maximum characters between the first and the last letter of a word, beside those of the word: letters that are strewn over a title
/// fit any title that is long enough.
fn max_gaps(letters: usize) -> usize {
    letters + 2
}

/// Fuzzy matching of titles and projects.
pub(crate) struct SessionFilter {
    matcher: Matcher,
    pattern: Pattern,
    /// Title and project of each session.
    texts: Vec<Utf32String>,
}

impl SessionFilter {
    pub(crate) fn new() -> Self {
        Self { matcher: Matcher::new(Config::DEFAULT), pattern: Pattern::default(), texts: Vec::new() }
    }

    pub(crate) fn set_sessions(&mut self, sessions: &[PickableSession]) {
        let text = |session: &PickableSession| format!("{} {}", session.title, session.project()).into();
        self.texts = sessions.iter().map(text).collect();
    }

    /// Returns the positions of the sessions that fit all words of a query, the best first; equal ones stay in order. All of them,
    /// if it has no words.
    pub(crate) fn apply(&mut self, query: &str) -> Vec<usize> {
        self.pattern = Pattern::new(query, CaseMatching::Ignore, Normalization::Smart, AtomKind::Fuzzy);
        if self.pattern.atoms.is_empty() {
            return (0..self.texts.len()).collect();
        }
        let (texts, words, matcher) = (&self.texts, &self.pattern.atoms, &mut self.matcher);
        let mut indices = Vec::new();
        let scored = texts.iter().enumerate().filter_map(|(position, text)| {
            let mut score = 0;
            for word in words {
                indices.clear();
                score += u32::from(word.indices(text.slice(..), matcher, &mut indices)?);
                let span = indices.iter().max()?.checked_sub(*indices.iter().min()?)? as usize + 1;
                if span > indices.len() + max_gaps(indices.len()) {
                    return None;
                }
            }
            Some((position, score))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by_key(|(position, score)| (std::cmp::Reverse(*score), *position));
        scored.into_iter().map(|(position, _)| position).collect()
    }

    /// Returns which characters of a session's title fit the query that was applied last; as people count characters.
    pub(crate) fn matched(&mut self, position: usize) -> Vec<u32> {
        let mut indices = Vec::new();
        if let Some(text) = self.texts.get(position) {
            self.pattern.indices(text.slice(..), &mut self.matcher, &mut indices);
        }
        indices.sort_unstable();
        indices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles<'t>(query: &str, titles: &[&'t str]) -> Vec<&'t str> {
        let session = |title: &&str| PickableSession { title: (*title).to_owned(), ..PickableSession::default() };
        let mut filter = SessionFilter::new();
        filter.set_sessions(&titles.iter().map(session).collect::<Vec<_>>());
        filter.apply(query).into_iter().map(|position| titles[position]).collect()
    }

    #[test]
    fn each_word_fits_somewhere() {
        let all = ["Drop the retry budget", "Budget of the year", "Retries without a budget", "Fix the parser"];
        assert_eq!(titles("budget retr", &all), ["Drop the retry budget", "Retries without a budget"]);
        assert_eq!(titles("BUDGET", &all).len(), 3);
        assert_eq!(titles(" ", &all), all);
    }

    #[test]
    fn a_letter_may_be_missing_but_strewn_letters_do_not_fit() {
        assert_eq!(titles("rtry bdget", &["Drop the retry budget"]).len(), 1);
        assert_eq!(titles("dp", &["Drop parser"]).len(), 1);
        assert_eq!(titles("auth", &["Add units that the handler had"]), [""; 0]);
    }

    #[test]
    fn signs_have_no_meaning_of_their_own() {
        assert_eq!(titles("'a", &["alpha"]), [""; 0]);
        assert_eq!(titles("!fix", &["Fix", "a !fix b"]), ["a !fix b"]);
    }

    #[test]
    fn the_better_title_comes_first_and_then_the_newer_session() {
        assert_eq!(titles("parser", &["reparsers", "the parser", "parser"]), ["the parser", "parser", "reparsers"]);
        let mut filter = SessionFilter::new();
        let session = |folder: &str| PickableSession { folder: Some(folder.to_owned()), ..PickableSession::default() };
        filter.set_sessions(&[session("/home/dev/one"), session("/home/dev/two"), session("C:\\dev\\two\\")]);
        assert_eq!(filter.apply("two"), [1, 2]);
    }
}
