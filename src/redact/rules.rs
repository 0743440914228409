//! Secrets that are known by their form: the table in `rules.toml`, of which only what is needed is compiled.

use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

use super::value;

/// What examples of the documentation of a service end with, instead of being a secret.
const EXAMPLE: &str = "EXAMPLE";

#[derive(Deserialize)]
struct Table {
    rule: Vec<Rule>,
}

/// A form that a secret has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, as it stands in place of the secret.
    pub id: String,
    /// Words of which one is in every match, in lower case.
    pub keywords: Vec<String>,
    regex: String,
    /// Whether what it finds is the begin or the end of a private key, and the secret is what follows, or was before.
    #[serde(default)]
    pub is_key_marker: bool,
    /// Whether people choose what it finds: what stands for a secret is none.
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
        RULES.get_or_init(|| toml::from_str(include_str!("rules.toml")).map_or_else(|_| Vec::new(), |table: Table| table.rule))
    }

    /// The regex, all of it in a group of its own. A process of milliseconds does not pay for those that it does not need.
    ///
    /// No word goes on where a match begins, but for the letter of an escape of JSON. It is the regex that says so: to look at what it found
    /// and begin again a character later takes the square of the length where a text has one begin after the other.
    pub fn regex(&self) -> Option<&Regex> {
        let begin = if self.is_key_marker { "" } else { r"(?:(?-u:\b{start-half})|\\[nrtbf])" };
        self.compiled.get_or_init(|| Regex::new(&format!("{begin}({})", self.regex)).ok()).as_ref()
    }

    /// Whether what the regex found is a secret indeed.
    pub fn is_secret(&self, found: &str) -> bool {
        !(found.ends_with(EXAMPLE) || (self.is_chosen && value::is_placeholder(found)))
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
