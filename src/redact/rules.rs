//! Secrets with a known form: the table in `rules.toml`. Only needed regexes are compiled.

use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

use super::value;

/// Suffix of example keys in a service's documentation, which are no secrets.
const EXAMPLE_SUFFIX: &str = "EXAMPLE";

#[derive(Deserialize)]
struct RuleTable {
    rule: Vec<Rule>,
}

/// The form of a secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which is written in place of the secret.
    pub id: String,
    /// Words in lower case. Every match contains one.
    pub keywords: Vec<String>,
    regex: String,
    /// `true` if a match is the first or last line of a private key, and the secret is the text after or before it.
    #[serde(default)]
    pub is_key_marker: bool,
    /// `true` if people choose the secret, so that placeholders are no secrets.
    #[serde(default)]
    is_chosen: bool,
    #[serde(skip)]
    compiled: OnceLock<Option<Regex>>,
}

impl Rule {
    /// All rules.
    pub fn all() -> &'static [Self] {
        static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
        // A test reads the table; without one, nothing would be found by its form.
        RULES
            .get_or_init(|| toml::from_str(include_str!("rules.toml")).map_or_else(|_| Vec::new(), |table: RuleTable| table.rule))
    }

    /// The regex, with the whole match in group 1. It is compiled when needed, since a hook runs for milliseconds.
    ///
    /// A match starts at a word boundary, or after the letter of a JSON escape. The regex itself checks that: checking matches
    /// afterwards and restarting one character later would take quadratic time in a text with many starts in sequence.
    pub fn regex(&self) -> Option<&Regex> {
        let begin = if self.is_key_marker { "" } else { r"(?:(?-u:\b{start-half})|\\[nrtbf])" };
        self.compiled.get_or_init(|| Regex::new(&format!("{begin}({})", self.regex)).ok()).as_ref()
    }

    /// `true` if a match of the regex is really a secret.
    pub fn is_secret(&self, found: &str) -> bool {
        !(found.ends_with(EXAMPLE_SUFFIX) || (self.is_chosen && value::is_placeholder(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_regex_compiled() {
        let mut ids = std::collections::BTreeSet::new();
        for rule in Rule::all() {
            assert!(rule.regex().is_some(), "{}", rule.id);
            assert!(!rule.keywords.is_empty(), "{}", rule.id);
            assert!(rule.keywords.iter().all(|keyword| *keyword == keyword.to_lowercase()), "{}", rule.id);
            assert!(ids.insert(&rule.id), "{} twice", rule.id);
        }
        assert!(ids.len() > 15);
    }
}
