//! A value as it was written, in a file or as text, and what can be made of it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use toml::Value;

use super::server::Secret;
use super::settings::Choice;
use ctxbridge_common::paths;

/// As written.
#[derive(Clone, Copy)]
pub enum Raw<'a> {
    /// In a file.
    Toml(&'a Value),
    /// In the environment or on the command line.
    Text(&'a str),
}

/// Items of a list: each regular expression is looked for in every text.
const LONGEST_LIST: usize = 100;

/// The longest piece of a value that is repeated in a message, in characters.
const LONGEST_QUOTE: usize = 40;

impl Raw<'_> {
    /// A whole number in a range.
    pub fn count(self, range: RangeInclusive<u64>) -> Result<u64, String> {
        let number = match self {
            Self::Toml(Value::Integer(number)) => u64::try_from(*number).ok(),
            Self::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.not(&format!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// A share of a whole: above 0, up to 1.
    pub fn share(self) -> Result<f64, String> {
        let number = match self {
            Self::Toml(Value::Float(number)) => Some(*number),
            Self::Toml(Value::Integer(number)) => Some(*number as f64),
            Self::Text(text) => text.parse().ok(),
            Self::Toml(_) => None,
        };
        number.filter(|number| *number > 0.0 && *number <= 1.0).ok_or_else(|| self.not("a share of the window, such as 0.70"))
    }

    /// On or off.
    pub fn switch(self) -> Result<bool, String> {
        let told = match self {
            Self::Toml(Value::Boolean(told)) => Some(*told),
            Self::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "on" | "yes" => Some(true),
                "false" | "0" | "off" | "no" => Some(false),
                _ => None,
            },
            Self::Toml(_) => None,
        };
        told.ok_or_else(|| self.not("true or false"))
    }

    /// One of a few words.
    pub fn choice<T: Choice>(self) -> Result<T, String> {
        let word = match self {
            Self::Toml(Value::String(word)) => Some(word.as_str()),
            Self::Text(word) => Some(word),
            Self::Toml(_) => None,
        };
        let found = word.and_then(|word| T::WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)));
        let words = || T::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| self.not(&format!("one of {}", words())))
    }

    /// What is written as one word or number, and says itself what it is not.
    pub fn parsed<T: FromStr<Err: Display>>(self) -> Result<T, String> {
        let number;
        let text = match self {
            Self::Toml(Value::String(text)) => text,
            Self::Toml(Value::Integer(integer)) => {
                number = integer.to_string();
                &number
            }
            Self::Text(text) => text,
            Self::Toml(_) => "",
        };
        text.parse().map_err(|error: T::Err| self.not(error.to_string().trim_start_matches("not ")))
    }

    /// A folder, which need not exist: with its whole path, since commands and hooks run anywhere, or below the home, as `~/…`.
    pub fn folder(self) -> Result<PathBuf, String> {
        let text = match self {
            Self::Toml(Value::String(text)) => text.as_str(),
            Self::Text(text) => text,
            Self::Toml(_) => "",
        };
        let path = match text.strip_prefix("~/") {
            Some(below) => paths::home_dir().map(|home| home.join(below)),
            None => Some(PathBuf::from(text)),
        };
        path.filter(|path| path.is_absolute())
            .ok_or_else(|| self.not("a folder with its whole path, such as /mnt/archive, or ~/archive"))
    }

    /// A text that is not empty.
    pub fn text(self) -> Result<String, String> {
        let text = match self {
            Self::Toml(Value::String(text)) => text.as_str(),
            Self::Text(text) => text,
            Self::Toml(_) => "",
        };
        if text.is_empty() { Err(self.not("a text")) } else { Ok(text.to_owned()) }
    }

    /// A text that is repeated in no message.
    pub fn secret(self) -> Result<Secret, String> {
        self.text().map(Secret::new).map_err(|_| "is not a text".to_owned())
    }

    /// A file with its whole path; none for `system`, as libpq calls the system's own certificates.
    pub fn path(self) -> Result<Option<PathBuf>, String> {
        if self.text().is_ok_and(|text| text == "system") {
            return Ok(None);
        }
        self.folder().map(Some).map_err(|_| self.not("a file with its whole path, or ~/…"))
    }

    /// Texts: a list, or as text one a line, unless it is a JSON list of texts.
    pub fn list(self) -> Result<Vec<String>, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = match self {
            Self::Toml(Value::Array(values)) => values.iter().map(text).collect(),
            Self::Toml(Value::String(text)) => Some(vec![text.clone()]),
            Self::Toml(_) => None,
            Self::Text(text) => serde_json::from_str(text).ok().or_else(|| Some(text.lines().map(str::to_owned).collect())),
        };
        let texts = texts.filter(|texts: &Vec<String>| texts.len() <= LONGEST_LIST);
        let texts =
            texts.ok_or_else(|| self.not(&format!("a list of at most {LONGEST_LIST} texts, such as [\"ACME-[0-9]{{8}}\"]")))?;
        Ok(texts.into_iter().filter(|text| !text.trim().is_empty()).collect())
    }

    fn not(self, expected: &str) -> String {
        let quoted = match self {
            Self::Toml(Value::String(text)) => format!("\"{}\"", quote(text)),
            Self::Toml(value) if value.is_table() || value.is_array() => format!("this {}", value.type_str()),
            Self::Toml(value) => quote(&value.to_string()),
            Self::Text(text) => format!("\"{}\"", quote(text)),
        };
        format!("is {quoted}, not {expected}")
    }
}

/// Foreign text for a message: short, and nothing in it that a terminal would obey.
pub fn quote(text: &str) -> String {
    let mut quoted = plain(&text.chars().take(LONGEST_QUOTE).collect::<String>());
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        quoted.push('…');
    }
    quoted
}

/// Foreign text with everything escaped that a terminal would obey.
pub fn plain(text: &str) -> String {
    let harmless = |c: char| matches!(c, '\'' | '"' | '\\');
    text.chars().map(|c| if harmless(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}
