//! Secrets of a line as they are shown before anything is shared: with what is around them, and without themselves.

use super::line::unescape;
use super::{Redactor, SecretSpan};

/// Maximum characters before and behind a mark.
const CHARS_BEFORE: usize = 28;
const CHARS_BEHIND: usize = 12;

/// A secret that would be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that finds it.
    pub rule: &'static str,
    /// Its mark, with what is around it in the redacted line.
    pub context: String,
}

impl Redactor {
    /// The secrets of a line, in order.
    pub fn findings(&self, line: &[u8]) -> Vec<Finding> {
        let (redacted, marks) = self.mark_line(line);
        let finding = |SecretSpan { rule, range }: SecretSpan| {
            // The whole line is redacted, so that no context has another secret.
            let before = visible(&redacted[..range.start]);
            let behind = visible(&redacted[range.end..]);
            let start = before.char_indices().rev().nth(CHARS_BEFORE - 1).map_or(0, |(at, _)| at);
            let end = behind.char_indices().nth(CHARS_BEHIND).map_or(behind.len(), |(at, _)| at);
            let mark = String::from_utf8_lossy(&redacted[range]);
            Finding { rule, context: format!("{}{mark}{}", &before[start..], &behind[..end]).trim().to_owned() }
        };
        marks.into_iter().map(finding).collect()
    }
}

/// A piece of a line as its reader sees it, on one line. Of a long one, only the ends are looked at.
fn visible(bytes: &[u8]) -> String {
    const MAX_BYTES: usize = 512;
    let bytes = if bytes.len() <= 2 * MAX_BYTES {
        bytes.to_vec()
    } else {
        [&bytes[..MAX_BYTES], &bytes[bytes.len() - MAX_BYTES..]].concat()
    };
    unescape(&bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_their_surroundings_and_no_secret() {
        let line = br#"{"type":"user","text":"first [redacted:x]\n export DB_PASSWORD=kQ83mxP02v\n and API_TOKEN=a8Kd03mXq9ZbL2wR","pin":1}"#;
        let contexts: Vec<_> = Redactor::standard().findings(line).into_iter().map(|found| (found.rule, found.context)).collect();
        let expected = [
            ("named-secret", "acted:x] export DB_PASSWORD=[redacted:named-secret] and API_TO"),
            ("named-secret", "[redacted:named-secret] and API_TOKEN=[redacted:named-secret]\",\"pin\":1}"),
        ];
        assert_eq!(contexts.len(), expected.len());
        for ((rule, context), (expected_rule, expected)) in contexts.iter().zip(expected) {
            assert_eq!(*rule, expected_rule);
            assert!(!context.contains("kQ83") && !context.contains("a8Kd"), "{context}");
            assert!(context.contains("=[redacted:named-secret]"), "{context} {expected}");
        }
        assert!(Redactor::standard().findings(b"nothing here").is_empty());
    }
}
