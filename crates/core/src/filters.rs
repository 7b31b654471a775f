//! Filters of a subscription: parsed and normalised once, then matched against every event.
//!
//! A filter that was accepted is enforced; one that cannot be enforced is refused here.

mod glob;

use std::collections::BTreeSet;

use kubecrier_incidents::objects::ObjectRef;
use kubecrier_k8s_api::{InvalidSelector, LabelSelector, names::is_dns_label};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::glob::Glob;
use crate::{Event, event::LabelsOf};

/// Mode of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Delivers every event that matches.
    #[default]
    Events,
    /// Delivers warnings about pods, with evidence.
    Faults,
    /// Delivers incidents: opened, changed, resolved.
    Incidents,
}

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventType {
    /// Normal operation.
    Normal,
    /// Something went wrong.
    Warning,
}

/// Filters as a client writes them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterRequest {
    /// Mode of the subscription.
    pub mode: Mode,
    /// A namespace.
    pub namespace: Option<String>,
    /// Several namespaces; one with `*` or `?` is a pattern.
    pub namespaces: Vec<String>,
    /// Patterns of namespaces.
    pub namespace_selector: Vec<String>,
    /// Label selector for the involved object.
    pub label_selector: Option<String>,
    /// Kind of the involved object; the caller spells it as Kubernetes does.
    pub involved_kind: Option<String>,
    /// Name of the involved object.
    pub involved_name: Option<String>,
    /// Namespace of the involved object.
    pub involved_namespace: Option<String>,
    /// Types of events; all if empty.
    pub types: Vec<EventType>,
    /// Prefix of the reason.
    pub reason: Option<String>,
    /// Reasons that do not match.
    pub exclude_reasons: Vec<String>,
}

/// Filters that are enforced, and echoed to the client. Equal requests normalise to equal
/// filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filters {
    #[serde(skip)]
    mode: Mode,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    namespaces: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty", serialize_with = "texts")]
    namespace_selector: BTreeSet<Glob>,
    #[serde(
        skip_serializing_if = "LabelSelector::is_empty",
        serialize_with = "text"
    )]
    label_selector: LabelSelector,
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

/// Why a request cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// The label selector cannot be parsed.
    #[error("{0}; write for example `app=web,tier in (a,b)`")]
    Selector(#[from] InvalidSelector),
    /// Faults are warnings, and the request is for normal events.
    #[error(
        "mode `faults` is about Warning events only, so `type` cannot be Normal: leave it out, or use \
         mode `events`"
    )]
    NormalFaults,
    /// Faults are about pods, and the request is for another kind.
    #[error(
        "mode `faults` is about pods only, so `{argument}` cannot be `{kind}`: leave it out, or use mode \
         `events`"
    )]
    NotAPod {
        /// Name of the argument.
        argument: &'static str,
        /// Kind in the request.
        kind: String,
    },
    /// Incidents are about the state of objects, and the request is about events.
    #[error(
        "mode `incidents` is about the state of objects, so `{argument}`, a filter of events, cannot \
         be enforced: leave it out, or use mode `events`"
    )]
    OfEvents {
        /// Name of the argument.
        argument: &'static str,
    },
    /// A text that cannot be a name.
    #[error("`{argument}` has `{text}`, which no {what} is called")]
    Name {
        /// Name of the argument.
        argument: &'static str,
        /// Text in the request.
        text: String,
        /// What the argument names.
        what: &'static str,
    },
    /// No event could ever match.
    #[error(
        "`involvedNamespace` is `{0}`, which none of the namespaces asked for is: nothing could ever \
         match"
    )]
    Never(String),
    /// A list is too long.
    #[error("`{argument}` has {count} entries, but at most {most} are taken")]
    TooMany {
        /// Name of the argument.
        argument: &'static str,
        /// Number of entries.
        count: usize,
        /// Maximum number of entries.
        most: usize,
    },
}

/// Maximum number of entries of one list.
const ENTRIES_MAX: usize = 100;

/// Maximum length of a name in Kubernetes.
const NAME_BYTES_MAX: usize = 253;

// === impl Mode ===

impl Mode {
    /// The word of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Faults => "faults",
            Self::Incidents => "incidents",
        }
    }

    /// Logger of the messages.
    pub fn logger(self) -> &'static str {
        match self {
            Self::Events => "kubernetes/events",
            Self::Faults => "kubernetes/faults",
            Self::Incidents => "kubernetes/incidents",
        }
    }
}

// === impl EventType ===

impl EventType {
    /// The word of Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

// === impl Filters ===

impl TryFrom<FilterRequest> for Filters {
    type Error = FilterError;

    fn try_from(request: FilterRequest) -> Result<Self, FilterError> {
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
        // A name that a pattern covers is redundant.
        namespaces.retain(|name| !namespace_selector.iter().any(|glob| glob.matches(name)));
        if namespace_selector.iter().any(|glob| glob.as_str() == "*") {
            namespace_selector.clear();
            namespaces.clear();
        }
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let label_selector = match given(request.label_selector) {
            Some(text) => text.parse()?,
            None => LabelSelector::default(),
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
    /// Mode of the subscription.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The only namespaces that can match, if they are known by name.
    pub fn exact_namespaces(&self) -> Option<Vec<&str>> {
        if let Some(namespace) = &self.involved_namespace {
            // An event is in the namespace of its involved object.
            return Some(vec![namespace]);
        }
        let exact = !self.namespaces.is_empty() && self.namespace_selector.is_empty();
        exact.then(|| self.namespaces.iter().map(String::as_str).collect())
    }

    /// Whether events of a namespace can match.
    pub fn admits_namespace(&self, namespace: &str) -> bool {
        (self.namespaces.is_empty() && self.namespace_selector.is_empty())
            || self.namespaces.contains(namespace)
            || (self.namespace_selector.iter()).any(|glob| glob.matches(namespace))
    }

    /// Kind and name of the involved object, for the API server to select by.
    pub fn involved(&self) -> (Option<&str>, Option<&str>) {
        (self.involved_kind.as_deref(), self.involved_name.as_deref())
    }

    /// Whether an event matches all but the label selector: labels may cost a request.
    pub fn admits(&self, event: &Event) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let of_mode = match self.mode {
            Mode::Events => true,
            Mode::Faults => event.kind == "Warning" && event.involved.kind == "Pod",
            Mode::Incidents => false,
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

    /// Whether an incident matches: its object, or one that is hurt by it.
    pub fn admits_incident<'a>(&self, objects: impl IntoIterator<Item = &'a ObjectRef>) -> bool {
        let same =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let mut objects = objects.into_iter();
        self.mode == Mode::Incidents
            && objects.any(|object| {
                same(&self.involved_name, &object.name)
                    && same(&self.involved_kind, &object.kind)
                    && same(&self.involved_namespace, &object.namespace)
                    && self.admits_namespace(&object.namespace)
            })
    }

    /// Whether the labels of an event match the label selector. Of labels that are not known,
    /// none is taken for absent.
    pub fn admits_labels(&self, event: &Event) -> bool {
        let label = |key: &str| event.labels.get(key);
        match event.labels_of {
            LabelsOf::Involved => self.label_selector.matches(label),
            LabelsOf::Gone | LabelsOf::Unreadable => self.label_selector.matches_surely(label),
        }
    }

    /// Whether there is a label selector.
    pub fn selects_labels(&self) -> bool {
        !self.label_selector.is_empty()
    }

    fn checked(self) -> Result<Self, FilterError> {
        if self.mode == Mode::Faults {
            if self.types.contains(&EventType::Normal) {
                return Err(FilterError::NormalFaults);
            }
            if let Some(kind) = self.involved_kind.clone().filter(|kind| kind != "Pod") {
                return Err(FilterError::NotAPod {
                    argument: "involvedKind",
                    kind,
                });
            }
        }
        if self.mode == Mode::Incidents
            && let Some(argument) = self.filter_of_events()
        {
            return Err(FilterError::OfEvents { argument });
        }
        if let Some(namespace) = &self.involved_namespace
            && !self.admits_namespace(namespace)
        {
            return Err(FilterError::Never(namespace.clone()));
        }
        Ok(self)
    }

    /// A filter that only events have something for.
    fn filter_of_events(&self) -> Option<&'static str> {
        let given = [
            ("labelSelector", self.selects_labels()),
            ("types", !self.types.is_empty()),
            ("reason", self.reason.is_some()),
            ("excludeReasons", !self.exclude_reasons.is_empty()),
        ];
        let found = given.into_iter().find(|(_, is_given)| *is_given);
        found.map(|(argument, _)| argument)
    }
}

fn bounded(argument: &'static str, count: usize) -> Result<(), FilterError> {
    if count > ENTRIES_MAX {
        return Err(FilterError::TooMany {
            argument,
            count,
            most: ENTRIES_MAX,
        });
    }
    Ok(())
}

/// Checks the name of a namespace; `shown` is the client's text for the error.
fn fits(argument: &'static str, name: &str, shown: &str) -> Result<(), FilterError> {
    if is_dns_label(name) {
        return Ok(());
    }
    Err(FilterError::Name {
        argument,
        text: shown.to_owned(),
        what: "namespace",
    })
}

fn named(
    argument: &'static str,
    what: &'static str,
    text: Option<String>,
) -> Result<Option<String>, FilterError> {
    // These characters would end a field selector early.
    let bad = |text: &String| {
        text.len() > NAME_BYTES_MAX
            || text.contains([',', '=', '!', '\\', '/'])
            || text.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    match text {
        Some(text) if bad(&text) => Err(FilterError::Name {
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
