//! What a subscriber asks for, normalised, and whether an event is it.
//!
//! A filter that was accepted is enforced; one that cannot be is refused here.

mod glob;
mod selector;

use std::collections::BTreeSet;

use serde::Serialize;
use thiserror::Error;

pub use self::{
    glob::Glob,
    selector::{NotASelector, Selector},
};
use crate::Event;

/// How events are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every event that matches.
    #[default]
    Events,
    /// Warnings about pods, with the evidence.
    Faults,
}

/// The types that Kubernetes has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// As it should not.
    Warning,
}

/// What was asked for, as it was written.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// How events are told.
    pub mode: Mode,
    /// One namespace.
    pub namespace: Option<String>,
    /// Several; a pattern is taken as one.
    pub namespaces: Vec<String>,
    /// Patterns.
    pub namespace_selector: Vec<String>,
    /// Of the involved object.
    pub label_selector: Option<String>,
    /// Of the involved object; whether a kind is spelled as Kubernetes does is the
    /// caller's affair.
    pub involved_kind: Option<String>,
    /// Of the involved object.
    pub involved_name: Option<String>,
    /// Of the involved object.
    pub involved_namespace: Option<String>,
    /// Any of them; none is all.
    pub types: Vec<EventType>,
    /// What a reason begins with.
    pub reason: Option<String>,
    /// Reasons that are not wanted.
    pub exclude_reasons: Vec<String>,
}

/// What is enforced, and echoed: the same request always normalises to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filters {
    #[serde(skip)]
    mode: Mode,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    namespaces: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty", serialize_with = "texts")]
    namespace_selector: BTreeSet<Glob>,
    #[serde(skip_serializing_if = "Selector::is_empty", serialize_with = "text")]
    label_selector: Selector,
    #[serde(skip_serializing_if = "Option::is_none")]
    involved_kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    involved_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    involved_namespace: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    types: BTreeSet<EventType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    exclude_reasons: BTreeSet<String>,
}

/// A request that cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotAFilter {
    /// The labels.
    #[error("{0}; write for example `app=web,tier in (a,b)`")]
    Selector(#[from] NotASelector),
    /// Faults are warnings.
    #[error(
        "mode `faults` is about Warning events only, so `type` cannot be Normal: leave it out, or use \
         mode `events`"
    )]
    NormalFaults,
    /// Faults are about pods.
    #[error(
        "mode `faults` is about pods only, so `{argument}` cannot be `{kind}`: leave it out, or use mode \
         `events`"
    )]
    NotAPod {
        /// Which argument said so.
        argument: &'static str,
        /// What it said.
        kind: String,
    },
    /// A text that no name is.
    #[error("`{argument}` has `{text}`, which no {what} is called")]
    Name {
        /// Which argument.
        argument: &'static str,
        /// What it said.
        text: String,
        /// What it should name.
        what: &'static str,
    },
    /// Nothing could ever match.
    #[error(
        "`involvedNamespace` is `{0}`, which none of the namespaces asked for is: nothing could ever \
         match"
    )]
    Never(String),
    /// More than anybody means.
    #[error("`{argument}` has {count} entries, but at most {most} are taken")]
    TooMany {
        /// Which argument.
        argument: &'static str,
        /// So many.
        count: usize,
        /// May be.
        most: usize,
    },
}

/// Entries of one list.
const ENTRIES_MAX: usize = 100;

/// Kubernetes has no longer names.
const NAME_BYTES_MAX: usize = 253;

// === impl Mode ===

impl Mode {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Faults => "faults",
        }
    }

    /// Who logs.
    pub fn logger(self) -> &'static str {
        match self {
            Self::Events => "kubernetes/events",
            Self::Faults => "kubernetes/faults",
        }
    }
}

// === impl EventType ===

impl EventType {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

// === impl Filters ===

impl TryFrom<Request> for Filters {
    type Error = NotAFilter;

    fn try_from(request: Request) -> Result<Self, NotAFilter> {
        let mode = request.mode;
        bounded("namespaces", request.namespaces.len())?;
        bounded("namespaceSelector", request.namespace_selector.len())?;
        bounded("excludeReasons", request.exclude_reasons.len())?;
        let mut namespaces = BTreeSet::new();
        let mut namespace_selector = BTreeSet::new();
        let exact = request.namespace.into_iter().chain(request.namespaces);
        for name in exact.chain(request.namespace_selector) {
            if Glob::is_pattern(&name) {
                fits("namespaceSelector", &name.replace(['*', '?'], "x"), &name)?;
                namespace_selector.insert(Glob::new(&name));
            } else {
                fits("namespaces", &name, &name)?;
                namespaces.insert(name);
            }
        }
        // What a pattern covers does not have to be named as well.
        namespaces.retain(|name| !namespace_selector.iter().any(|glob| glob.matches(name)));
        if namespace_selector.iter().any(|glob| glob.as_str() == "*") {
            namespace_selector.clear();
            namespaces.clear();
        }
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let label_selector = match given(request.label_selector) {
            Some(text) => text.parse()?,
            None => Selector::default(),
        };
        let filters = Self {
            mode,
            namespaces,
            namespace_selector,
            label_selector,
            involved_kind: named("involvedKind", "kind", given(request.involved_kind))?,
            involved_name: named("involvedName", "object", given(request.involved_name))?,
            involved_namespace: match given(request.involved_namespace) {
                Some(name) => {
                    fits("involvedNamespace", &name, &name)?;
                    Some(name)
                }
                None => None,
            },
            types: request.types.into_iter().collect(),
            reason: named("reason", "reason", given(request.reason))?,
            exclude_reasons: (request.exclude_reasons.into_iter())
                .filter(|reason| !reason.is_empty())
                .collect(),
        };
        filters.checked()
    }
}

impl Filters {
    /// How events are told.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The namespaces that can ever match, if they can be named.
    pub fn exact_namespaces(&self) -> Option<Vec<&str>> {
        if let Some(namespace) = &self.involved_namespace {
            // An event lives in the namespace of what it is about.
            return Some(vec![namespace]);
        }
        let exact = !self.namespaces.is_empty() && self.namespace_selector.is_empty();
        exact.then(|| self.namespaces.iter().map(String::as_str).collect())
    }

    /// Whether events of that namespace can match.
    pub fn admits_namespace(&self, namespace: &str) -> bool {
        (self.namespaces.is_empty() && self.namespace_selector.is_empty())
            || self.namespaces.contains(namespace)
            || (self.namespace_selector.iter()).any(|glob| glob.matches(namespace))
    }

    /// What it is about, for the API server to select by: kind and name.
    pub fn involved(&self) -> (Option<&str>, Option<&str>) {
        (self.involved_kind.as_deref(), self.involved_name.as_deref())
    }

    /// Everything but the labels, which cost more to know.
    pub fn admits(&self, event: &Event) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let of_mode = match self.mode {
            Mode::Events => true,
            Mode::Faults => event.kind == "Warning" && event.involved.kind == "Pod",
        };
        of_mode
            && (self.types.is_empty() || self.types.iter().any(|one| one.as_str() == event.kind))
            && same(&self.involved_name, &event.involved.name)
            && same(&self.involved_kind, &event.involved.kind)
            && same(&self.involved_namespace, &event.involved.namespace)
            && (self.reason.as_ref()).is_none_or(|prefix| event.reason.starts_with(prefix))
            && !self.exclude_reasons.contains(&event.reason)
            && self.admits_namespace(&event.namespace)
    }

    /// Whether the labels are as they should be.
    pub fn admits_labels(&self, event: &Event) -> bool {
        self.label_selector.matches(&event.labels)
    }

    fn checked(self) -> Result<Self, NotAFilter> {
        if self.mode == Mode::Faults {
            if self.types.contains(&EventType::Normal) {
                return Err(NotAFilter::NormalFaults);
            }
            if let Some(kind) = self.involved_kind.clone().filter(|kind| kind != "Pod") {
                return Err(NotAFilter::NotAPod {
                    argument: "involvedKind",
                    kind,
                });
            }
        }
        if let Some(namespace) = &self.involved_namespace
            && !self.admits_namespace(namespace)
        {
            return Err(NotAFilter::Never(namespace.clone()));
        }
        Ok(self)
    }
}

fn bounded(argument: &'static str, count: usize) -> Result<(), NotAFilter> {
    if count > ENTRIES_MAX {
        return Err(NotAFilter::TooMany {
            argument,
            count,
            most: ENTRIES_MAX,
        });
    }
    Ok(())
}

/// Whether a namespace can be called so; `shown` is what the caller wrote.
fn fits(argument: &'static str, name: &str, shown: &str) -> Result<(), NotAFilter> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    let fits = name.len() <= 63
        && name.chars().all(inner)
        && edge(name.chars().next())
        && edge(name.chars().next_back());
    if fits {
        return Ok(());
    }
    Err(NotAFilter::Name {
        argument,
        text: shown.to_owned(),
        what: "namespace",
    })
}

fn named(
    argument: &'static str,
    what: &'static str,
    text: Option<String>,
) -> Result<Option<String>, NotAFilter> {
    // These characters would end a field selector early.
    let bad = |text: &String| {
        text.len() > NAME_BYTES_MAX
            || text.contains([',', '=', '!', '\\', '/'])
            || text.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    match text {
        Some(text) if bad(&text) => Err(NotAFilter::Name {
            argument,
            text: text.chars().take(80).collect(),
            what,
        }),
        text => Ok(text),
    }
}

fn text<S: serde::Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

fn texts<S: serde::Serializer>(values: &BTreeSet<Glob>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(Glob::as_str))
}

#[cfg(test)]
mod tests;
