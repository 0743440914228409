//! Records of the file format: varints, a header of serial types, and the values behind it.

use rusqlite::types::ValueRef;

/// Reads a varint of 1 to 9 bytes; returns it with the bytes behind it, or `None` where they end too early.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        // The ninth byte has no flag: all of its bits count.
        if at == 8 {
            return Some((value << 8 | u64::from(*byte), bytes.get(9..)?));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

/// Decodes the values of a record. `None` if it is none: types that do not exist, or another length than they add up to.
pub(super) fn decode(record: &[u8]) -> Option<Vec<ValueRef<'_>>> {
    let (header_bytes, types) = varint(record)?;
    let varint_bytes = record.len() - types.len();
    let types_bytes = usize::try_from(header_bytes).ok()?.checked_sub(varint_bytes)?;
    let (mut types, mut body) = types.split_at_checked(types_bytes)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        let (serial_type, rest) = varint(types)?;
        types = rest;
        let (value, rest) = value(serial_type, body)?;
        body = rest;
        values.push(value);
    }
    body.is_empty().then_some(values)
}

/// Decodes the values that are complete at the begin of a record whose rest is missing.
pub(super) fn decode_begin(begin: &[u8]) -> Option<Vec<ValueRef<'_>>> {
    let (header_bytes, types) = varint(begin)?;
    let types_bytes = usize::try_from(header_bytes).ok()?.checked_sub(begin.len() - types.len())?;
    let (mut types, mut body) = types.split_at_checked(types_bytes)?;
    let mut values = Vec::new();
    while let Some((serial_type, rest)) = varint(types) {
        let Some((value, behind)) = value(serial_type, body) else { break };
        (types, body) = (rest, behind);
        values.push(value);
    }
    Some(values)
}

/// The value of a serial type, and the bytes behind it.
fn value(serial_type: u64, body: &[u8]) -> Option<(ValueRef<'_>, &[u8])> {
    let integer = |bytes: usize| {
        let (digits, rest) = body.split_at_checked(bytes)?;
        let sign = if digits.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
        let number = digits.iter().fold(sign, |number: i64, digit| number << 8 | i64::from(*digit));
        Some((ValueRef::Integer(number), rest))
    };
    match serial_type {
        0 => Some((ValueRef::Null, body)),
        1..=4 => integer(serial_type as usize),
        5 => integer(6),
        6 => integer(8),
        7 => {
            let (bits, rest) = body.split_first_chunk()?;
            Some((ValueRef::Real(f64::from_be_bytes(*bits)), rest))
        }
        8 => Some((ValueRef::Integer(0), body)),
        9 => Some((ValueRef::Integer(1), body)),
        10 | 11 => None,
        _ => {
            let (bytes, rest) = body.split_at_checked(usize::try_from((serial_type - 12) / 2).ok()?)?;
            Some((if serial_type.is_multiple_of(2) { ValueRef::Blob(bytes) } else { ValueRef::Text(bytes) }, rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_one_to_nine_bytes() {
        assert_eq!(varint(&[0x7f, 9]), Some((127, &[9][..])));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, &[][..])));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, &[][..])));
        assert_eq!(varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 5, 6]), Some((5, &[6][..])));
        for short in [&[][..], &[0x80], &[0xff; 8]] {
            assert_eq!(varint(short), None);
        }
    }

    #[test]
    fn each_serial_type_has_its_value() {
        let record = [
            13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 16, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xfd, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0, 1,
            0,
        ];
        let mut record = record.to_vec();
        record.extend(i64::MIN.to_be_bytes());
        record.extend(0.5_f64.to_be_bytes());
        record.extend(*b"ab\x01\x02");
        let expected = [
            ValueRef::Null,
            ValueRef::Integer(-1),
            ValueRef::Integer(-2),
            ValueRef::Integer(-3),
            ValueRef::Integer(-4),
            ValueRef::Integer(256),
            ValueRef::Integer(i64::MIN),
            ValueRef::Real(0.5),
            ValueRef::Integer(0),
            ValueRef::Integer(1),
            ValueRef::Text(b"ab"),
            ValueRef::Blob(&[1, 2]),
        ];
        assert_eq!(decode(&record).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn a_record_of_another_length_is_none() {
        assert_eq!(decode(&[2, 1, 7]).as_deref(), Some(&[ValueRef::Integer(7)][..]));
        for wrong in [&[][..], &[0], &[2, 1], &[2, 1, 7, 7], &[2, 10], &[3, 1, 7], &[0xff; 9], &[2, 0x80, 0]] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_begin_of_a_record_has_the_values_before_the_cut() {
        let begin = [4, 1, 17, 33, 7, b'a', b'b', b'c', b'd'];
        assert_eq!(decode(&begin), None);
        assert_eq!(decode_begin(&begin).as_deref(), Some(&[ValueRef::Integer(7), ValueRef::Text(b"ab")][..]));
    }
}
