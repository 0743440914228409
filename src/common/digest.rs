//! SHA-256, as lower-case hexadecimal.

use std::io::{self, Read};
use std::path::Path;

use crate::files;
use sha2::digest::common::hazmat::SerializableState;
use sha2::{Digest, Sha256};

/// A digest as it is stored.
pub type Sha256Digest = [u8; 32];

/// A digest that is being computed.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all added bytes, in hexadecimal.
    pub fn finish(self) -> String {
        hex(self.0.finalize().as_slice())
    }

    /// Returns the digest of all added bytes, in binary.
    pub fn finish_bytes(self) -> Sha256Digest {
        self.0.finalize().into()
    }

    /// Returns the state, to continue later in another process.
    pub fn suspend(&self) -> String {
        hex(self.0.serialize().as_slice())
    }

    /// Continues from a state of [`suspend`](Self::suspend); `None` if `suspended` is not one.
    pub fn resume(suspended: &str) -> Option<Self> {
        let bytes = unhex(suspended)?;
        Sha256::deserialize(bytes.as_slice().try_into().ok()?).ok().map(Self)
    }
}

/// Returns the digest of bytes in memory, in binary.
pub fn sha256(bytes: &[u8]) -> Sha256Digest {
    Sha256::digest(bytes).into()
}

/// Returns the digest of bytes in memory, in hexadecimal.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

/// Returns the digest of a file, which is read in pieces.
///
/// # Errors
/// If it cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = files::open(path)?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

/// Parses hexadecimal digits; `None` if the text is something else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; text.len() / 2];
    unhex_into(text, &mut bytes).then_some(bytes)
}

/// Parses hexadecimal digits into `bytes`, and returns `true` if the text has exactly as many bytes.
pub fn unhex_into(text: &str, bytes: &mut [u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.len() == 2 * bytes.len()
        && bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)).all(|(byte, pair)| {
            let read = digit(pair[0]).zip(digit(pair[1]));
            *byte = read.map_or(0, |(high, low)| high << 4 | low);
            read.is_some()
        })
}

/// Bytes as hexadecimal digits, for `#[serde(with)]`.
pub mod hexadecimal {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    /// Writes bytes as hexadecimal digits.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::hex(bytes))
    }

    /// Reads exactly `N` bytes.
    ///
    /// # Errors
    /// If it is something else.
    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(deserializer: D) -> Result<[u8; N], D::Error> {
        struct Digits<const N: usize>;
        impl<const N: usize> Visitor<'_> for Digits<N> {
            type Value = [u8; N];

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} hexadecimal digits", 2 * N)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<[u8; N], E> {
                let mut bytes = [0; N];
                let is_read = super::unhex_into(text, &mut bytes);
                is_read.then_some(bytes).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

/// Written as hexadecimal, as in [`Hasher::suspend`].
impl serde::Serialize for Hasher {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.suspend())
    }
}

impl<'de> serde::Deserialize<'de> for Hasher {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::resume(&text).ok_or_else(|| serde::de::Error::custom("not a digest in the making"))
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hasher").field(&self.suspend()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_where_it_was_suspended() {
        let text = "x".repeat(1000);
        for at in [0, 1, 63, 64, 65, 999, 1000] {
            let mut first = Hasher::default();
            first.update(&text.as_bytes()[..at]);
            let mut second = Hasher::resume(&first.suspend()).expect("its own state");
            second.update(&text.as_bytes()[at..]);
            assert_eq!(second.finish(), of_bytes(text.as_bytes()), "{at}");
        }
        assert!(Hasher::resume("").is_none() && Hasher::resume("xyz").is_none() && Hasher::resume("é").is_none());
    }

    #[test]
    fn agrees_with_the_standard() {
        // FIPS 180-4, "abc".
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), expected);
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), b"abc").expect("writable");
        assert_eq!(of_file(file.path()).expect("readable"), expected);
    }
}
