//! Labels in little memory: each object of the graph has some.

use serde::{Serialize, Serializer};

/// Holds the labels of an object, or the selector of a Service, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

// === impl Labels ===

impl Labels {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(one, _)| (**one).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether these labels, as a selector, match an object with those labels. An empty
    /// selector matches nothing, as that of a Service.
    pub fn selects(&self, labels: &Self) -> bool {
        let same = |(key, value): (&str, &str)| labels.get(key) == Some(value);
        !self.is_empty() && self.iter().all(same)
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut all: Vec<_> = pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        all.sort_unstable();
        all.dedup_by(|b, a| a.0 == b.0);
        Self(all.into_boxed_slice())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_matches_all_its_labels_and_an_empty_one_nothing() {
        let labels = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
        let pod = labels(&[("tier", "front"), ("app", "web")]);
        assert!(labels(&[("app", "web")]).selects(&pod));
        assert!(labels(&[("app", "web"), ("tier", "front")]).selects(&pod));
        assert!(!labels(&[("app", "web"), ("tier", "back")]).selects(&pod));
        assert!(!labels(&[("ap", "web")]).selects(&pod));
        assert!(!Labels::default().selects(&pod));
        let json = serde_json::to_string(&pod).unwrap();
        assert_eq!(json, r#"{"app":"web","tier":"front"}"#);
    }
}
