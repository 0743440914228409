//! Lenient reading of JSON: a part that is missing or has another type counts as absent, and the rest is read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value if it has the expected type, or nothing.
#[derive(Clone, Debug)]
pub struct Lenient<T>(pub Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Types that can be read leniently. A type overrides the methods for the JSON values that it can be made from.
pub trait FromAny<'de>: Sized {
    /// From a text.
    fn from_str(_text: Cow<'de, str>) -> Option<Self> {
        None
    }
    /// From `true` or `false`.
    fn from_bool(_value: bool) -> Option<Self> {
        None
    }
    /// From a number.
    fn from_u64(_value: u64) -> Option<Self> {
        None
    }
    /// From an array.
    ///
    /// # Errors
    /// If it is not JSON.
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    /// From an object.
    ///
    /// # Errors
    /// If it is not JSON.
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de, T: FromAny<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor(PhantomData))
    }
}

struct AnyVisitor<T>(PhantomData<T>);

impl<'de, T: FromAny<'de>> Visitor<'de> for AnyVisitor<T> {
    type Value = Lenient<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Lenient(T::from_str(Cow::Borrowed(text))))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Lenient(T::from_str(Cow::Owned(text.to_owned()))))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Lenient(T::from_bool(value)))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Lenient(T::from_u64(value)))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Lenient(None))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Lenient(None))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Lenient(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        T::from_seq(seq).map(Lenient)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::from_map(map).map(Lenient)
    }
}

impl<'de: 'a, 'a> FromAny<'de> for Cow<'a, str> {
    /// From a text.
    fn from_str(text: Cow<'de, str>) -> Option<Self> {
        Some(text)
    }
}

impl FromAny<'_> for bool {
    fn from_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl FromAny<'_> for u64 {
    fn from_u64(value: u64) -> Option<Self> {
        Some(value)
    }
}

impl<'de, T: FromAny<'de>> FromAny<'de> for Vec<T> {
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(Lenient(item)) = seq.next_element()? {
            items.extend(item);
        }
        Ok(Some(items))
    }
}

/// Reads a struct whose fields are all lenient from a map.
pub fn object<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: A) -> Result<Option<T>, A::Error> {
    T::deserialize(MapAccessDeserializer::new(map)).map(Some)
}

/// Makes structs of lenient fields readable from an object; any other value counts as absent.
#[macro_export]
macro_rules! lenient_object {
    ($($name:ident $(<$life:lifetime>)?),*) => {
        $(impl<'de $(: $life, $life)?> $crate::lenient::FromAny<'de> for $name $(<$life>)? {
            fn from_map<A: serde::de::MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
                $crate::lenient::object(map)
            }
        })*
    };
}
pub use lenient_object;
