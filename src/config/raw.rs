//! A value as it was written, in a file or as text, and its conversions.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use toml::Value;

use super::choice::Choice;
use super::server::SecretString;
use ctxbridge_common::paths;

/// A value as it was written.
#[derive(Clone, Copy)]
pub enum WrittenValue<'a> {
    /// From a file.
    Toml(&'a Value),
    /// From the environment or the command line.
    Text(&'a str),
}

/// Maximum number of items of a list: each regular expression is searched for in every text.
const MAX_LIST_ITEMS: usize = 100;

/// Maximum characters of a value that are repeated in a message.
const MAX_QUOTED_CHARS: usize = 40;

impl WrittenValue<'_> {
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

    /// A switch: on or off.
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

    /// One word or number of a type that parses itself. Its error says what was expected.
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

    /// A folder, which need not exist. Its path is absolute, since commands and hooks run anywhere, or starts with `~/`.
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

    /// A text that no message repeats.
    pub fn secret(self) -> Result<SecretString, String> {
        self.text().map(SecretString::new).map_err(|_| "is not a text".to_owned())
    }

    /// A file with an absolute path; `None` for `system`, libpq's name for the system's certificates.
    pub fn path(self) -> Result<Option<PathBuf>, String> {
        if self.text().is_ok_and(|text| text == "system") {
            return Ok(None);
        }
        self.folder().map(Some).map_err(|_| self.not("a file with its whole path, or ~/…"))
    }

    /// A list of texts, of which the example is one. In a text, it is one item a line, or a JSON list.
    pub fn list(self, example: &str) -> Result<Vec<String>, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = match self {
            Self::Toml(Value::Array(values)) => values.iter().map(text).collect(),
            Self::Toml(Value::String(text)) => Some(vec![text.clone()]),
            Self::Toml(_) => None,
            Self::Text(text) => serde_json::from_str(text).ok().or_else(|| Some(text.lines().map(str::to_owned).collect())),
        };
        let texts = texts.filter(|texts: &Vec<String>| texts.len() <= MAX_LIST_ITEMS);
        let texts =
            texts.ok_or_else(|| self.not(&format!("a list of at most {MAX_LIST_ITEMS} texts, such as [\"{example}\"]")))?;
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

/// Prepares foreign text for a message: shortened, with everything escaped that a terminal would obey.
pub fn quote(text: &str) -> String {
    let mut quoted = escape_controls(&text.chars().take(MAX_QUOTED_CHARS).collect::<String>());
    if text.chars().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push('…');
    }
    quoted
}

/// Escapes everything in foreign text that a terminal would obey.
pub fn escape_controls(text: &str) -> String {
    let harmless = |c: char| matches!(c, '\'' | '"' | '\\');
    text.chars().map(|c| if harmless(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}
