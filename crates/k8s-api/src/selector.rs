//! Label selectors in the grammar of Kubernetes: `a=b`, `a==b`, `a!=b`, `a in (b,c)`,
//! `a notin (b,c)`, `a`, `!a`, `a>1`, `a<1`, joined by commas.

mod error;
mod parser;

use std::{fmt, str::FromStr};

pub use self::error::InvalidSelector;
use self::{error::Cause, parser::Parser};

/// A conjunction of requirements on labels.
///
/// The requirements are sorted and distinct, so that selectors which mean the same are
/// equal and print the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    condition: Condition,
}

/// What a requirement asks of the value under its key. Sets of values are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

/// Up to so many values, a comparison with each of them is faster than a binary search: texts
/// of different lengths differ without a look at their bytes.
const LINEAR_SEARCH_MAX: usize = 16;

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether labels satisfy every requirement; `label` looks one up by its key.
    ///
    /// A lookup instead of a map, so that labels are matched where they are, whatever
    /// holds them. Nothing is allocated.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |one: &Requirement| one.condition.holds(label(&one.key));
        self.0.iter().all(holds)
    }

    /// Whether labels satisfy every requirement, whatever the labels are that are not known;
    /// `label` looks up those that are. A label that is not found need not be absent.
    pub fn matches_surely<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |one: &Requirement| {
            label(&one.key).is_some_and(|value| one.condition.holds(Some(value)))
        };
        self.0.iter().all(holds)
    }

    /// Whether everything matches, because nothing is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let parsed = Parser::new(text).requirements();
        let mut requirements = parsed.map_err(|cause| InvalidSelector::new(text, cause))?;
        requirements.sort();
        requirements.dedup();
        Ok(Self(requirements))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

// === impl Requirement ===

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, condition } = self;
        match condition {
            Condition::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                values => write!(f, "{key} in ({})", values.join(",")),
            },
            Condition::NotIn(values) => match values.as_slice() {
                [value] => write!(f, "{key}!={value}"),
                values => write!(f, "{key} notin ({})", values.join(",")),
            },
            Condition::Exists => f.write_str(key),
            Condition::DoesNotExist => write!(f, "!{key}"),
            Condition::GreaterThan(limit) => write!(f, "{key}>{limit}"),
            Condition::LessThan(limit) => write!(f, "{key}<{limit}"),
        }
    }
}

// === impl Condition ===

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String], value: &str| {
            if values.len() <= LINEAR_SEARCH_MAX {
                return values.iter().any(|one| one == value);
            }
            let found = values.binary_search_by(|one| one.as_str().cmp(value));
            found.is_ok()
        };
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| among(values, value)),
            // As in Kubernetes: an object without the label is in no set.
            Self::NotIn(values) => value.is_none_or(|value| !among(values, value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(limit) => number().is_some_and(|number| number > *limit),
            Self::LessThan(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

#[cfg(test)]
mod tests;
