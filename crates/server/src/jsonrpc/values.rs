//! Whether text is JSON, and of how many values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{INVALID_REQUEST, PARSE_ERROR, Refusal};

/// Text that is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    /// The number of its values.
    pub(crate) values: usize,
    pub(crate) shape: Shape,
}

/// What a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An object.
    Message,
    /// An array.
    Batch,
}

/// Counts values, and names of values, without keeping any.
struct ValueCount<'a>(&'a mut usize);

/// The first byte that means something.
pub(crate) fn first(body: &[u8]) -> Option<u8> {
    body.iter()
        .copied()
        .find(|byte| !byte.is_ascii_whitespace())
}

/// Checks that text is one JSON object, or an array.
pub(crate) fn check(text: &[u8]) -> Result<Checked, Refusal> {
    let mut values = 0;
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = ValueCount(&mut values).deserialize(&mut reader);
    if let Err(error) = read.and_then(|()| reader.end()) {
        return Err(Refusal::new(PARSE_ERROR, format!("not JSON: {error}")));
    }
    let shape = match first(text) {
        Some(b'{') => Shape::Message,
        Some(b'[') => Shape::Batch,
        _ => {
            let text = "a message is a JSON object";
            return Err(Refusal::new(INVALID_REQUEST, text));
        }
    };
    Ok(Checked { values, shape })
}

impl<'de> DeserializeSeed<'de> for ValueCount<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.0 += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueCount<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(ValueCount(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key::<IgnoredAny>()?.is_some() {
            *self.0 += 1;
            entries.next_value_seed(ValueCount(self.0))?;
        }
        Ok(())
    }
}
