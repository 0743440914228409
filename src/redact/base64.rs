//! Text in base64: what it says is looked through as any other text.

use std::ops::Range;

/// Name of the rule for base64 that has a secret in it.
pub const BASE64_RULE: &str = "encoded-secret";

/// Minimum bytes of base64 that is decoded. Less has no token in it.
const MIN_RUN_BYTES: usize = 24;
/// Maximum bytes of base64 that are decoded at once.
const MAX_RUN_BYTES: usize = 64 << 10;
/// Minimum bytes of a line that goes on in the next one.
const MIN_WRAPPED_BYTES: usize = 60;
/// Maximum bytes of indentation of such a line.
const MAX_INDENT_BYTES: usize = 32;

/// The texts in base64, with their ranges. Most base64 is no text, which its first characters show.
pub fn texts(text: &str) -> impl Iterator<Item = (Range<usize>, String)> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let run = next_run(bytes, at)?;
            at = run.end;
            if !is_text(&bytes[run.clone()]) {
                continue;
            }
            let (range, decoded) = decode_wrapped(bytes, run);
            at = range.end;
            return Some((range, decoded));
        }
    })
}

/// `true` if base64 starts as text does.
pub fn is_text(run: &[u8]) -> bool {
    run.get(..MIN_RUN_BYTES).is_some_and(|start| {
        let mut decoded = Vec::with_capacity(MIN_RUN_BYTES);
        decode(start, &mut decoded);
        // A character may be cut at the end.
        let is_printable = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let valid = match std::str::from_utf8(&decoded) {
            Ok(_) => decoded.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => return false,
        };
        valid > 0 && decoded[..valid].iter().all(|byte| is_printable(byte) || !byte.is_ascii())
    })
}

/// The next run that is long enough.
fn next_run(bytes: &[u8], mut at: usize) -> Option<Range<usize>> {
    loop {
        // Where the last of as many characters is none, no run is before it.
        let last = at + MIN_RUN_BYTES - 1;
        let window = bytes.get(at..=last)?;
        match window.iter().rposition(|byte| !is_digit(*byte)) {
            Some(other) => at += other + 1,
            None => {
                let rest = &bytes[at..(at + MAX_RUN_BYTES).min(bytes.len())];
                return Some(at..at + rest.iter().take_while(|byte| is_digit(**byte)).count());
            }
        }
    }
}

/// The decoded text of a run and of the lines it goes on in, and the range of all of it.
fn decode_wrapped(bytes: &[u8], run: Range<usize>) -> (Range<usize>, String) {
    let mut decoded = Vec::with_capacity(run.len());
    let mut digits = bytes[run.clone()].to_vec();
    let mut end = run.end;
    let mut length = run.len();
    while length >= MIN_WRAPPED_BYTES && digits.len() < MAX_RUN_BYTES {
        let Some(start) = next_line(bytes, end) else { break };
        let next = bytes[start..].iter().take(length + 1).take_while(|byte| is_digit(**byte)).count();
        if next == 0 || next > length {
            break;
        }
        digits.extend_from_slice(&bytes[start..start + next]);
        end = start + next;
        // A shorter line is the last one.
        length = if next == length { length } else { 0 };
    }
    decode(&digits, &mut decoded);
    let padding = bytes[end..].iter().take(2).take_while(|byte| **byte == b'=').count();
    (run.start..end + padding, String::from_utf8_lossy(&decoded).into_owned())
}

/// The start of the next line, behind its indentation; the line end may be escaped.
fn next_line(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest);
    let rest = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(br"\n"))?;
    let indent = rest.iter().take(MAX_INDENT_BYTES).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Some(bytes.len() - rest.len() + indent)
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Appends what base64 of either alphabet says.
fn decode(digits: &[u8], decoded: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count & 0xff) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_images_are_not() {
        let said = |text: &str| texts(text).map(|(range, said)| (text[range].to_owned(), said)).collect::<Vec<_>>();
        let run = "aGVsbG8sIHdvcmxkLCBhbmQgYWxsIG9mIHlvdQ==";
        assert_eq!(said(&format!("x={run};")), [(run.to_owned(), "hello, world, and all of you".to_owned())]);
        let line = "bG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQsIGNvbnNldGV0dXIgc2FkaXBzY2lu";
        let wrapped = format!("  {line}\n  Z2VsaXRy\n  word");
        assert_eq!(said(&wrapped).len(), 1);
        assert!(said(&wrapped)[0].1.ends_with("sadipscingelitr"), "{:?}", said(&wrapped));
        for text in [
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "short",
            "",
        ] {
            assert!(said(text).is_empty(), "{text}");
        }
    }
}
