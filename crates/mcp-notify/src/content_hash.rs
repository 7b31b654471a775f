//! The content hash of a list, independent of order and of file times.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::notification::EncodeError;

/// The hash of a list's content.
///
/// Equal items give an equal hash, regardless of the order of the items and of their
/// keys. A hash that was computed elsewhere can be converted with [`from`](Self::from),
/// and an empty one means "not known yet".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(Arc<str>);

impl ContentHash {
    /// SHA-256 over the canonical JSON of the items, sorted.
    ///
    /// # Errors
    /// [`EncodeError::Json`] if an item cannot be serialised.
    pub fn of<T: Serialize>(items: &[T]) -> Result<Self, EncodeError> {
        Self::of_all(&[items])
    }

    /// The hash over several collections that make up one list, such as resources and
    /// their templates. An item that moves from one collection to another changes the
    /// hash.
    ///
    /// # Errors
    /// [`EncodeError::Json`] if an item cannot be serialised.
    pub fn of_all<T: Serialize>(collections: &[&[T]]) -> Result<Self, EncodeError> {
        let mut hash = Sha256::new();
        for items in collections {
            let mut texts = items.iter().map(canonical).collect::<Result<Vec<_>, _>>()?;
            texts.sort_unstable();
            hash.update(b"[");
            for text in texts {
                hash.update(text.as_bytes());
                // Canonical JSON contains no line end, so items cannot run together.
                hash.update(b"\n");
            }
            hash.update(b"]");
        }
        let text = hex(&hash.finalize());
        Ok(Self(text.into()))
    }

    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the content is not known yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for ContentHash {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn canonical(item: &impl Serialize) -> Result<String, EncodeError> {
    let mut value = serde_json::to_value(item).map_err(|e| EncodeError::Json(Arc::new(e)))?;
    sort_keys(&mut value);
    Ok(value.to_string())
}

/// Sorts the keys of all objects. serde_json does so itself unless its feature
/// `preserve_order` is enabled by another crate.
fn sort_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = std::mem::take(map).into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            for (_, value) in &mut entries {
                sort_keys(value);
            }
            map.extend(entries);
        }
        Value::Array(values) => values.iter_mut().for_each(sort_keys),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn hash(items: &[Value]) -> ContentHash {
        ContentHash::of(items).unwrap()
    }

    #[test]
    fn the_hash_is_sha_256_of_the_canonical_text() {
        let hash = hash(&[json!({"b": [2], "a": 1})]);
        let by_hand = Sha256::digest(b"[{\"a\":1,\"b\":[2]}\n]");
        assert_eq!(hash.as_str(), hex(&by_hand));
        assert_eq!(hash.as_str().len(), 64);
    }

    #[test]
    fn an_empty_registry_has_a_hash_and_an_unknown_one_has_none() {
        assert!(!hash(&[]).is_empty());
        assert!(ContentHash::from("").is_empty());
    }

    #[test]
    fn resources_and_templates_count_and_moving_between_them_counts_too() {
        let (a, b) = (json!({"name": "a"}), json!({"name": "b"}));
        let of = |resources: &[Value], templates: &[Value]| {
            ContentHash::of_all(&[resources, templates]).unwrap()
        };
        let base = of(std::slice::from_ref(&a), std::slice::from_ref(&b));
        assert_ne!(base, of(std::slice::from_ref(&a), &[]));
        assert_ne!(base, of(&[a.clone(), b.clone()], &[]));
        assert_ne!(base, of(std::slice::from_ref(&b), std::slice::from_ref(&a)));
        assert_eq!(base, of(&[a], &[b]));
    }

    proptest! {
        #[test]
        fn order_does_not_count_and_content_does(
            mut names in proptest::collection::vec("[a-z]{1,8}", 1..20),
            seed in any::<u64>(),
        ) {
            let items = |names: &[String]| -> Vec<Value> {
                names.iter().map(|n| json!({"name": n, "x": {"b": 1, "a": n}})).collect()
            };
            let before = hash(&items(&names));
            let middle = usize::try_from(seed).unwrap_or(0) % names.len();
            names.rotate_left(middle);
            prop_assert_eq!(&before, &hash(&items(&names)));
            names[0].push('!');
            prop_assert_ne!(&before, &hash(&items(&names)));
        }
    }
}
