/*!
Floating-point numbers that survive JSON to the bit, for `#[serde(with)]`: a replay has to give the same result.

They are written as the bits of a double, an integer. As a decimal fraction they would be easier to read, and serde_json's usual
way to read those is off by one bit now and then.
*/

use serde::{Deserialize, Deserializer, Serializer};

/// Writes the bits.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.to_bits())
}

/// Reads the bits.
///
/// # Errors
/// If it is no such integer.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    u64::deserialize(deserializer).map(f64::from_bits)
}
