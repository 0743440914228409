/*!
From a line to its records.

A line holds one JSON object, and a client that was killed while it wrote leaves others: half a record with a whole one behind
it, two whole ones, runs of NULs, a byte order mark. Every whole record is found; bytes that belong to none are damage.
*/

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memmem};

use super::record::Record;
use super::repair::{replace_lone_surrogates, replace_lone_surrogates_in_text};

/// Maximum to parse of a damaged line, in lengths of the line: each place where a record may begin is tried.
const MAX_PARSED_LENGTHS: usize = 64;

/// Byte order mark, in UTF-8.
const BOM: &[u8] = "\u{feff}".as_bytes();

/// Condition of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineCondition {
    /// Nothing but blanks, NULs and byte order marks.
    Blank,
    /// Every byte belongs to a record, or to a gap between two.
    Whole,
    /// There are bytes of no record, or no UTF-8.
    Damaged,
}

/// Passes each record of a line, which has no line break, to `sink`, with the bytes of the line from its start to the next one's.
pub fn read_line(line: &[u8], sink: &mut dyn FnMut(Range<usize>, &Record<'_>)) -> LineCondition {
    if line.trim_ascii().is_empty() {
        return LineCondition::Blank;
    }
    // A text that is known to be one is read in half the time.
    let (text, is_text) = match std::str::from_utf8(line) {
        Ok(text) => (Cow::Borrowed(text), true),
        Err(_) => (String::from_utf8_lossy(line), false),
    };
    if let Ok(record) = Record::parse_text(&replace_lone_surrogates_in_text(&text)) {
        sink(0..line.len(), &record);
        return if is_text { LineCondition::Whole } else { LineCondition::Damaged };
    }
    resynchronize(line, is_text, sink)
}

/// Finds the records of a line that is not one as a whole.
fn resynchronize(line: &[u8], is_text: bool, sink: &mut dyn FnMut(Range<usize>, &Record<'_>)) -> LineCondition {
    // Offsets must stay: what is no UTF-8 is replaced byte by byte.
    let text = if is_text { Cow::Borrowed(line) } else { Cow::Owned(with_question_marks(line)) };
    let text = replace_lone_surrogates(&text);
    let Ok(text) = std::str::from_utf8(&text) else { return LineCondition::Damaged };
    let found = records_in(text);
    if found.records.is_empty() {
        if found.is_blank {
            return LineCondition::Blank;
        }
        // A hole in the middle of a record.
        if memchr(0, line).is_some()
            && let Ok(record) = Record::parse_text(&text.replace('\0', ""))
        {
            sink(0..line.len(), &record);
        }
        return LineCondition::Damaged;
    }
    for (number, range) in found.records.iter().enumerate() {
        let start = if number == 0 && !found.is_damaged_before { 0 } else { range.start };
        let end = found.records.get(number + 1).map_or(line.len(), |next| next.start);
        if is_text {
            if let Ok(record) = Record::parse_text(&text[range.clone()]) {
                sink(start..end, &record);
            }
            continue;
        }
        // It says the same as when it is read again by itself, as a turn may begin with it.
        let own = String::from_utf8_lossy(&line[range.clone()]);
        if let Ok(record) = Record::parse_text(&replace_lone_surrogates_in_text(&own)) {
            sink(start..end, &record);
        }
    }
    if found.is_damaged || !is_text { LineCondition::Damaged } else { LineCondition::Whole }
}

#[derive(Default)]
struct LineRecords {
    records: Vec<Range<usize>>,
    is_blank: bool,
    is_damaged: bool,
    /// `true` if there is damage before the first record.
    is_damaged_before: bool,
}

fn records_in(text: &str) -> LineRecords {
    let bytes = text.as_bytes();
    let mut found = LineRecords { is_blank: true, ..LineRecords::default() };
    let mut budget = bytes.len().saturating_mul(MAX_PARSED_LENGTHS);
    let mut at = 0;
    while let Some(open) = memmem::find(&bytes[at..], b"{\"").map(|next| at + next) {
        found.note_gap(&bytes[at..open]);
        found.is_blank = false;
        let mut values = serde_json::Deserializer::from_str(&text[open..]).into_iter::<Record<'_>>();
        match values.next() {
            Some(Ok(record)) => {
                let end = open + values.byte_offset();
                // An object inside of half a record is followed by what follows it there.
                if is_line(&record) && is_end(&bytes[end..]) {
                    found.records.push(open..end);
                } else {
                    found.note_damage();
                }
                at = end;
            }
            Some(Err(error)) => {
                found.note_damage();
                budget = budget.saturating_sub(error.column().max(1));
                at = open + 1;
            }
            None => break,
        }
        if budget == 0 {
            break;
        }
    }
    found.note_gap(&bytes[at..]);
    found
}

impl LineRecords {
    fn note_gap(&mut self, gap: &[u8]) {
        if !is_gap(gap) {
            self.is_blank = false;
            self.note_damage();
        }
    }

    fn note_damage(&mut self) {
        self.is_damaged = true;
        self.is_damaged_before |= self.records.is_empty();
    }
}

/// `true` if an object is a line of its own. Blocks of a message have a type as well.
fn is_line(record: &Record<'_>) -> bool {
    let is_named = || record.type_name().is_some_and(|name| name.contains('-') || name == "summary");
    record.uuid().is_some() || record.session_id().is_some() || is_named()
}

/// `true` if a record may end here.
fn is_end(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| *byte == 0 || *byte == b'{' || byte.is_ascii_whitespace()) || rest.starts_with(BOM)
}

fn is_gap(mut gap: &[u8]) -> bool {
    while !gap.is_empty() {
        gap = match gap.strip_prefix(BOM) {
            Some(rest) => rest,
            None if gap[0] == 0 || gap[0].is_ascii_whitespace() => &gap[1..],
            None => return false,
        };
    }
    true
}

fn with_question_marks(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.extend_from_slice(chunk.valid().as_bytes());
        text.resize(text.len() + chunk.invalid().len(), b'?');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8]) -> (LineCondition, Vec<(Range<usize>, String)>) {
        let mut found = Vec::new();
        let condition = read_line(line, &mut |range, record| found.push((range, record.uuid().unwrap_or_default().to_owned())));
        (condition, found)
    }

    fn record(uuid: &str) -> String {
        format!(r#"{{"type":"user","uuid":"{uuid}","message":{{"role":"user","content":[{{"type":"text","text":"x"}}]}}}}"#)
    }

    #[test]
    fn one_record_is_a_line() {
        let line = record("a");
        assert_eq!(read(line.as_bytes()), (LineCondition::Whole, vec![(0..line.len(), "a".to_owned())]));
        for blank in [&b""[..], b"  \r", b"\0\0\0", b"\xef\xbb\xbf", b" \0\xef\xbb\xbf\0"] {
            assert_eq!(read(blank), (LineCondition::Blank, Vec::new()), "{blank:?}");
        }
    }

    #[test]
    fn what_lies_between_records_is_no_damage() {
        let (a, b) = (record("a"), record("b"));
        for (line, second) in [
            (format!("{a}{b}"), a.len()),
            (format!("\u{feff}{a}\0\0\0{b}\0"), 3 + a.len() + 3),
            (format!("\0\0{a} {b}"), 2 + a.len() + 1),
        ] {
            let (condition, found) = read(line.as_bytes());
            assert_eq!(condition, LineCondition::Whole, "{line:?}");
            assert_eq!(found, [(0..second, "a".to_owned()), (second..line.len(), "b".to_owned())]);
        }
    }

    #[test]
    fn half_a_record_does_not_hide_the_next() {
        let (half, whole) = (record("a"), record("b"));
        for cut in 1..half.len() {
            let line = format!("{}{whole}", &half[..cut]);
            let (condition, found) = read(line.as_bytes());
            assert_eq!(condition, LineCondition::Damaged, "{line}");
            assert_eq!(found, [(cut..line.len(), "b".to_owned())], "{line}");
            // Nor does one behind it.
            let line = format!("{whole}{}", &half[..cut]);
            let (condition, found) = read(line.as_bytes());
            assert_eq!((condition, found.len()), (LineCondition::Damaged, 1), "{line}");
        }
    }

    /// A turn begins with it, and is read from there later.
    #[test]
    fn a_damaged_record_says_the_same_behind_half_a_record() {
        let texts = |line: &[u8]| {
            let mut found = Vec::new();
            read_line(line, &mut |_, record| found.extend(record.content().map(|content| content.texts().collect::<String>())));
            found
        };
        let record = record("a").into_bytes();
        let middle = record.len() - 5;
        for noise in [&b"\x80"[..], b"\xe2\x82", b"\xff\xfe", "\u{e9}".as_bytes()] {
            let record = [&record[..middle], noise, &record[middle..]].concat();
            assert_eq!(texts(&record).len(), 1);
            for half in ["{", r#"{"type":"user","#] {
                assert_eq!(texts(&[half.as_bytes(), &record].concat()), texts(&record), "{noise:?}");
            }
        }
    }

    #[test]
    fn a_hole_in_a_record_is_skipped() {
        let mut line = record("a").into_bytes();
        let middle = line.len() - 10;
        line.splice(middle..middle, [0; 5]);
        let (condition, found) = read(&line);
        assert_eq!((condition, found.len()), (LineCondition::Damaged, 1));
    }

    #[test]
    fn no_line_takes_long() {
        // Each of these begins an object that never ends.
        let line = r#"{"a":[1,2,3,"#.repeat(50_000);
        assert_eq!(read(line.as_bytes()).0, LineCondition::Damaged);
        let line = r#"{"a":1"#.repeat(200_000);
        assert_eq!(read(line.as_bytes()).0, LineCondition::Damaged);
    }
}
