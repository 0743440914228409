//! Secrets in lines of transcripts.

use std::borrow::Cow;

use super::{Found, Redactor};

impl Redactor {
    /// A line without its secrets, borrowed where it has none; and how many were found, by rule.
    pub fn redact_line<'l>(&self, line: &'l [u8]) -> (Cow<'l, [u8]>, Found) {
        let text = String::from_utf8_lossy(line);
        let redacted = self.redact(&text);
        match redacted.text {
            Cow::Borrowed(_) => (Cow::Borrowed(line), redacted.found),
            Cow::Owned(text) => (Cow::Owned(text.into_bytes()), redacted.found),
        }
    }
}
