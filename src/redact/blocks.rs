//! Secrets that are not beside their names: blocks of YAML, objects with a value or a default, Kubernetes' secrets, words of a wallet.

use std::ops::Range;

use super::value::{self, ScannedText, ValueSpan};
use super::{calls, strength};

/// Maximum bytes of a block.
const MAX_BLOCK_BYTES: usize = 8 << 10;
/// Bytes of a block by which it is judged.
const MAX_TELLING_BYTES: usize = 256;

/// The block of YAML behind `name: >-` or `name: |`; `at` is that of the sign. `is_secret` judges its start.
pub fn yaml(text: ScannedText<'_>, name: &Range<usize>, at: usize, is_secret: impl Fn(&str) -> bool) -> Option<Range<usize>> {
    const MAX_INDENT: usize = 256;
    let bytes = text.text.as_bytes();
    let sign = bytes[at..].iter().take(3).take_while(|byte| b"|>+-0123456789".contains(byte)).count();
    if !matches!(text.byte(at), b'|' | b'>') {
        return None;
    }
    let line = line_end(bytes, at)?;
    if line != text.skip_blanks(at + sign) && bytes.get(text.skip_blanks(at + sign)) != Some(&b'\r') {
        return None;
    }
    let indent_of_name =
        bytes[..name.start].iter().rev().take(MAX_INDENT).take_while(|byte| matches!(byte, b' ' | b'-' | b'"')).count();
    let block = |limit: usize| {
        let (mut start, mut end) = (None, line);
        let mut next = line + 1;
        while next < bytes.len() && next - line < limit {
            let stop = line_end(bytes, next).unwrap_or(bytes.len());
            let first = text.skip_blanks(next);
            if first < stop && bytes[first] != b'\r' {
                if first - next <= indent_of_name {
                    break;
                }
                start = start.or(Some(first));
                end = stop;
            }
            next = stop + 1;
        }
        let block = start?..end;
        let said = text.text.get(block.clone())?.trim_end();
        Some(block.start..block.start + said.len())
    };
    // Its first lines tell. The others are looked for only where these are a secret, since any name may have a block.
    let first = block(MAX_TELLING_BYTES)?;
    let said = &text.text[first.start..text.boundary(first.end.min(first.start + MAX_TELLING_BYTES))];
    // A key in lines is found by its first one, and more is said about it there.
    if !is_secret(said) || value::is_placeholder(said) || value::is_prose(said) || said.contains("-----BEGIN") {
        return None;
    }
    block(MAX_BLOCK_BYTES).filter(|block| !text.crosses_string(name.start..block.end))
}

fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    let window = &bytes[at..(at + MAX_BLOCK_BYTES).min(bytes.len())];
    memchr::memchr(b'\n', window).map(|end| at + end)
}

/// The text under `value` or `default` in the braces that start at a position, behind the name of a secret.
pub fn value_within(text: ScannedText<'_>, at: usize) -> Option<Range<usize>> {
    const FURTHEST: usize = 320;
    const KEYS: &[&str] = &["defaultValue", "default", "stringValue", "secretValue", "value", "Value", "Default", "example"];
    let at = text.skip_blanks(at);
    let at = if matches!(text.byte(at), b':' | b'=') { text.skip_blanks(at + 1) } else { at };
    if text.byte(at) != b'{' {
        return None;
    }
    let within = &text.text[at + 1..text.boundary(at + FURTHEST)];
    let within = &within[..within.find(['}', '{']).unwrap_or(within.len())];
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Each key has one of these, in capitals or not.
    let parts = ["alue", "efault", "xample"]; // typos: ignore
    if !parts.iter().any(|part| within.contains(part)) {
        return None;
    }
    KEYS.iter().find_map(|key| {
        let start = within.find(key)?;
        let is_alone = start.checked_sub(1).is_none_or(|before| !is_of_name(within.as_bytes()[before]));
        let mut next = at + 1 + start + key.len();
        let slashes = text.backslashes(next);
        if matches!(text.byte(next + slashes), b'"' | b'\'') {
            next += slashes + 1;
        }
        next = text.skip_blanks(next);
        if !is_alone || !matches!(text.byte(next), b':' | b'=') {
            return None;
        }
        calls::literal(text, text.skip_blanks(next + 1))
    })
}

/// The lines behind the kinds of Kubernetes' secrets, each of which is looked at once.
#[derive(Debug, Default)]
pub struct KubernetesLines {
    /// The start of the next line.
    next: usize,
    /// `true` if that is below `data` or `stringData`.
    is_within: bool,
}

impl KubernetesLines {
    /// The values of `data` and `stringData` in a secret of Kubernetes, whose kind ends at a position.
    pub fn values(&mut self, text: ScannedText<'_>, at: usize) -> Vec<Range<usize>> {
        const MAX_SECRET_BYTES: usize = 4 << 10;
        let end = text.boundary(at + MAX_SECRET_BYTES);
        let mut found = Vec::new();
        if at > self.next {
            *self = Self { next: at, is_within: false };
        }
        let Some(lines) = text.text.get(self.next..end) else { return found };
        for line in lines.split_inclusive('\n') {
            let said = line.trim_end();
            let key = said.trim_start_matches([' ', '\t']);
            if said.starts_with("---") || key.starts_with("kind:") || text.crosses_string(self.next..self.next + said.len()) {
                self.is_within = false;
                break;
            }
            if matches!(key, "data:" | "stringData:") {
                self.is_within = true;
            } else if self.is_within && key.len() == said.len() && !key.is_empty() {
                self.is_within = false;
            } else if let Some((_, value)) = key.split_once(": ").filter(|_| self.is_within) {
                let value = value.trim_matches([' ', '"', '\'']);
                let offset = self.next + said.rfind(value).unwrap_or(0);
                if !value::is_placeholder(value) {
                    found.push(offset..offset + value.len());
                }
            }
            self.next += line.len();
        }
        found
    }
}

/// The twelve or more words that a wallet is restored from, behind their name.
pub fn mnemonic(text: ScannedText<'_>, value: &ValueSpan) -> Option<Range<usize>> {
    const MAX_WORDS: usize = 24;
    const MAX_BYTES: usize = 9 * MAX_WORDS;
    let start = value.range.start;
    let rest = &text.text[start..text.boundary(start + MAX_BYTES)];
    let is_word = |word: &&str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words = rest.split(' ').take(MAX_WORDS).take_while(is_word);
    let (count, length) = words.fold((0, 0), |(count, length), word| (count + 1, length + word.len() + 1));
    // The last one may have a quote or a full stop behind it.
    let last = rest.get(length..).unwrap_or_default().bytes().take_while(u8::is_ascii_lowercase).count();
    let count = count + usize::from(last > 2);
    (count >= 12).then(|| start..start + length.saturating_sub(usize::from(last == 0)) + last)
}

/// The password in `ConvertTo-SecureString "…"`, whose name ends at a position.
pub fn secure_string(text: ScannedText<'_>, at: usize) -> Option<Range<usize>> {
    let at = text.skip_blanks(at);
    let at = if text.text[at..].starts_with("-String") { text.skip_blanks(at + "-String".len()) } else { at };
    let value = text.value(at, b" );");
    let said = &text.text[value.range.clone()];
    let is_secret = if value.quote.is_some() { said.len() >= 4 } else { strength::is_strong(said) };
    (is_secret && !value::is_placeholder(said) && !said.starts_with('$') && !text.is_after_string(value.range.start))
        .then_some(value.range)
}
