/*!
A line of the journal, and the correction of one flipped bit in it.

Each line starts with a checksum of itself and of all lines before it: `{"crc":"0123abcd","touch":{…}}`. The checksum is a CRC-32,
so it tells which bit was flipped. A flipped bit may also be in the noted digits, in what is around them, or make two lines one or
one line two. Whatever it is, the line and the next one have to be right afterwards: 32 bits alone prove too little.
*/

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};

use memchr::{memchr, memmem};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use ctxbridge_common::crc::{CRC_32, FlippedBit};

/// A position between two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub bytes: u64,
    /// Start of the last line before it.
    pub last: u64,
    /// Lines before it.
    pub lines: u64,
    /// The checksum of these.
    pub crc: u32,
}

/// The text before the checksum, and after it.
const BEFORE: &[u8] = b"{\"crc\":\"";
const BEHIND: &[u8] = b"\",";
const DIGITS: usize = 8;
const PREFIX: usize = BEFORE.len() + DIGITS + BEHIND.len();

/// The begin of a line with a checksum.
pub(super) fn prefix(crc: u32) -> [u8; PREFIX] {
    let mut prefix = [0; PREFIX];
    let parts = [BEFORE, format!("{crc:08x}").as_bytes(), BEHIND].concat();
    prefix.copy_from_slice(&parts);
    prefix
}

/// Returns a line of an object, with its line break, and its checksum.
pub(super) fn line_of(said: &[u8], before: u32) -> (Vec<u8>, u32) {
    let body = said.strip_prefix(b"{").unwrap_or(said);
    let crc = sum(before, body);
    let mut line = Vec::with_capacity(PREFIX + body.len() + 1);
    line.extend_from_slice(&prefix(crc));
    line.extend_from_slice(body);
    line.push(b'\n');
    (line, crc)
}

/// Returns the checksum of a line with its line break, if it is right.
pub(super) fn checked(line: &[u8], before: u32) -> Option<u32> {
    let body = line.strip_suffix(b"\n")?.get(PREFIX..)?;
    let crc = sum(before, body);
    line.starts_with(&prefix(crc)).then_some(crc)
}

/// Takes the checksum out of a line that is right, and returns what it says.
pub(super) fn said(line: &mut [u8]) -> &[u8] {
    line[PREFIX - 1] = b'{';
    &line[PREFIX - 1..line.len() - 1]
}

fn sum(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

/// A byte of the file with a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlippedByte {
    /// Its position.
    pub at: u64,
    /// The byte with the flipped bit, and as it was.
    pub is: u8,
    pub was: u8,
}

/// Outcome of correcting a line.
pub(super) enum Correction {
    /// It is right now, with this checksum, and a byte had a flipped bit.
    Done(u32, FlippedByte),
    /// It is the last one, and no line.
    Unfinished,
    /// It is damaged in another way.
    Impossible,
}

/// Corrects a line that is not right, or was taken for one since its line break is damaged. The reader stands behind the corrected
/// line afterwards.
pub(super) fn corrected(reader: &mut BufReader<&File>, line: &mut Vec<u8>, at: &Position) -> io::Result<Correction> {
    if line.is_empty() {
        return Ok(Correction::Unfinished);
    }
    let has_end = line.ends_with(b"\n");
    let length = line.len();
    // Two lines at most can have been this one, or one more be needed to make it whole; the next one is the proof.
    for _ in 0..2 {
        reader.read_until(b'\n', line)?;
    }
    let Some(bit) = flipped_bit(line, at.crc) else {
        let is_last = !has_end || line.len() == length;
        return Ok(if is_last { Correction::Unfinished } else { Correction::Impossible });
    };
    let is = line[bit.at];
    bit.flip(line);
    let byte = FlippedByte { at: at.bytes + bit.at as u64, is, was: line[bit.at] };
    line.truncate(memchr(b'\n', line).map_or(line.len(), |end| end + 1));
    reader.seek(SeekFrom::Start(at.bytes + line.len() as u64))?;
    Ok(match checked(line, at.crc) {
        Some(crc) => Correction::Done(crc, byte),
        None => Correction::Impossible,
    })
}

/// Finds the one flipped bit in the first of these lines, which is damaged: in it, or in its line break. At least two more lines
/// follow, if there are any. `None` if the damage is another one, or this is an unfinished write.
fn flipped_bit(lines: &mut [u8], before: u32) -> Option<FlippedBit> {
    candidates(lines, before).into_iter().find(|bit| {
        bit.flip(lines);
        let is_right = is_right(lines, before);
        bit.flip(lines);
        is_right
    })
}

/// `true` if the first line is right, and the second one too, if it is complete.
fn is_right(lines: &[u8], before: u32) -> bool {
    let Some((first, rest)) = first_line(lines) else { return false };
    let Some(crc) = checked(first, before) else { return false };
    // Bytes that are not read are not checked for being text.
    let is_json = std::str::from_utf8(first).is_ok() && serde_json::from_slice::<IgnoredAny>(first).is_ok();
    is_json && first_line(rest).is_none_or(|(second, _)| checked(second, crc).is_some())
}

fn first_line(lines: &[u8]) -> Option<(&[u8], &[u8])> {
    memchr(b'\n', lines).map(|end| lines.split_at(end + 1))
}

/// Bits that may be the flipped one.
fn candidates(lines: &[u8], before: u32) -> Vec<FlippedBit> {
    let end = memchr(b'\n', lines);
    let line = &lines[..end.unwrap_or(lines.len())];
    // A line break that is something else now: before the next line, or at the end of the file.
    let begins = memmem::find_iter(line, BEFORE).filter_map(|begin| begin.checked_sub(1));
    let last = line.len().checked_sub(1).filter(|_| end.is_none());
    let mut found: Vec<FlippedBit> = begins.chain(last).filter_map(|at| one_bit(at, line[at], b'\n')).collect();
    let (Some(end), Some(body)) = (end, line.get(PREFIX..)) else { return found };
    let crc = sum(before, body);
    let differing = |wanted: [u8; PREFIX]| {
        let mut bits = (0..PREFIX).filter(|at| line[*at] != wanted[*at]);
        bits.next().filter(|_| bits.next().is_none()).and_then(|at| one_bit(at, line[at], wanted[at]))
    };
    found.extend(differing(prefix(crc)));
    if let Some(noted) = noted(line) {
        let in_body = CRC_32.find(body.len(), (crc ^ noted).into());
        found.extend(in_body.map(|bit| FlippedBit { at: PREFIX + bit.at, ..bit }));
    }
    // Something else that is a line break now.
    found.extend((0..8).map(|bit| FlippedBit { at: end, mask: 1 << bit }));
    found
}

/// The checksum that a line notes, if everything around it is right.
fn noted(line: &[u8]) -> Option<u32> {
    let digits = line.get(BEFORE.len()..BEFORE.len() + DIGITS)?;
    let noted = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    line.starts_with(&prefix(noted)).then_some(noted)
}

fn one_bit(at: usize, is: u8, wanted: u8) -> Option<FlippedBit> {
    (is ^ wanted).is_power_of_two().then_some(FlippedBit { at, mask: is ^ wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal of some lines, one of them with bytes that are one bit away from a line break.
    fn journal() -> (Vec<u8>, Vec<usize>) {
        let (mut text, mut starts, mut crc) = (Vec::new(), Vec::new(), 0);
        for said in ["{\"journal\":{\"id\":\"0a\"}}", "{\"a\":\"J*\u{2028}\u{288a}\"}", "{\"b\":[1,2,{\"c\":null}]}", "{\"d\":1}"]
        {
            starts.push(text.len());
            let (line, next) = line_of(said.as_bytes(), crc);
            text.extend(line);
            crc = next;
        }
        (text, starts)
    }

    /// Reads a text as the journal does, and corrects it.
    fn mended(text: &[u8]) -> Option<Vec<u8>> {
        let (mut text, mut at, mut crc) = (text.to_vec(), 0, 0);
        while at < text.len() {
            let line = first_line(&text[at..]).and_then(|(line, _)| Some((line.len(), checked(line, crc)?)));
            match line {
                Some((length, next)) => (at, crc) = (at + length, next),
                None => flipped_bit(&mut text[at..], crc)?.flip(&mut text[at..]),
            }
        }
        Some(text)
    }

    #[test]
    fn every_bit_is_turned_back() {
        let (whole, _) = journal();
        assert_eq!(mended(&whole).as_ref(), Some(&whole));
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(mended(&damaged).as_ref(), Some(&whole), "bit {bit}: {}", String::from_utf8_lossy(&damaged));
        }
    }

    #[test]
    fn other_damage_is_left_alone() {
        let (whole, starts) = journal();
        for (first, second) in (0..whole.len()).zip(1..whole.len()).step_by(3) {
            let mut damaged = whole.clone();
            damaged[first] ^= 0x11;
            damaged[second] ^= 0x24;
            assert_eq!(mended(&damaged), None, "{first}");
        }
        // A line that is lost, doubled, or moved.
        let line = |number: usize| &whole[starts[number]..starts.get(number + 1).copied().unwrap_or(whole.len())];
        for order in [&[0, 2, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3], &[1, 2, 3]] {
            let text: Vec<u8> = order.iter().flat_map(|number| line(*number)).copied().collect();
            assert_eq!(mended(&text), None, "{order:?}");
        }
    }

    /// A write that stopped anywhere in the last line, also where the disk has its length but not its bytes.
    #[test]
    fn an_unfinished_line_is_none() {
        let (whole, starts) = journal();
        let last = starts[3];
        for end in last + 1..whole.len() {
            assert_eq!(mended(&whole[..end]), None, "{end}");
            let mut torn = whole.clone();
            torn[end..].fill(0);
            assert_eq!(mended(&torn), None, "{end}");
        }
    }
}
