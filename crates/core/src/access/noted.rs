//! What is noted of the namespaces of one user.

/// A yes or no for each of some namespaces, in their order. There is one for each of many users,
/// most of whom have few namespaces: a list takes less than a map.
#[derive(Debug, Default)]
pub struct NotedNamespaces(Vec<(Box<str>, bool)>);

// === impl NotedNamespaces ===

impl NotedNamespaces {
    /// Notes it, if the namespace is known or there are fewer than `max`. Returns what was noted
    /// before.
    pub fn note(&mut self, namespace: &str, is: bool, max: usize) -> Option<bool> {
        match self.find(namespace) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, is)),
            Err(at) => {
                if self.0.len() < max {
                    if self.0.len() < 4 {
                        self.0.reserve_exact(1);
                    }
                    self.0.insert(at, (namespace.into(), is));
                }
                None
            }
        }
    }

    /// Notes it, if the namespace is known. Returns what was noted before.
    pub fn replace(&mut self, namespace: &str, is: bool) -> Option<bool> {
        self.note(namespace, is, 0)
    }

    /// All of them, from the first one behind `name` on, and then those before.
    pub fn all_behind(&self, name: &str) -> impl Iterator<Item = (&str, bool)> {
        let next = self.0.partition_point(|(one, _)| **one <= *name);
        let (first, behind) = self.0.split_at(next);
        let all = behind.iter().chain(first);
        all.map(|(name, is)| (&**name, *is))
    }

    fn find(&self, namespace: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(one, _)| (**one).cmp(namespace))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_a_bounded_map_in_order(
            notes in prop::collection::vec(("[a-e]{1,2}", any::<bool>()), 0..40), max in 0_usize..10, after in "[a-e]{0,2}",
        ) {
            let (mut noted, mut map) = (NotedNamespaces::default(), BTreeMap::new());
            for (name, is) in notes {
                let before = map.get(&name).copied();
                if before.is_some() || map.len() < max {
                    map.insert(name.clone(), is);
                }
                prop_assert_eq!(noted.note(&name, is, max), before);
            }
            let (behind, first): (Vec<_>, Vec<_>) = map.into_iter().partition(|(name, _)| *name > after);
            let expected: Vec<_> = behind.into_iter().chain(first).collect();
            let all: Vec<_> = noted.all_behind(&after).map(|(name, is)| (name.to_owned(), is)).collect();
            prop_assert_eq!(all, expected);
        }
    }
}
