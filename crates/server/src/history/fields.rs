//! Field selectors, for events that no API server selects.

use kubecrier_core::Event;

/// A field selector of events.
#[derive(Clone, Debug)]
pub(super) struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    field: Field,
    value: String,
    is_equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Namespace,
    ObjectKind,
    ObjectNamespace,
    ObjectName,
    ObjectUid,
    ObjectApiVersion,
    ObjectFieldPath,
    Reason,
    Type,
    Source,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses a selector; `None` if it is not one, or has a field that is not kept.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let terms = text.split(',').filter(|term| !term.is_empty()).map(|term| {
            let (field, value, is_equal) = match term.split_once("!=") {
                Some((field, value)) => (field, value, false),
                None => {
                    let (field, value) = term.split_once('=')?;
                    (field, value.strip_prefix('=').unwrap_or(value), true)
                }
            };
            // An escape is for values that no name has.
            (!value.contains('\\')).then_some(())?;
            Some(Term {
                field: Field::parse(field.trim())?,
                value: value.trim().to_owned(),
                is_equal,
            })
        });
        terms.collect::<Option<_>>().map(Self)
    }

    /// Whether an event is selected.
    pub(super) fn selects(&self, event: &Event) -> bool {
        let selects = |term: &Term| (term.field.of(event) == term.value.as_str()) == term.is_equal;
        self.0.iter().all(selects)
    }
}

// === impl Field ===

impl Field {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "metadata.namespace" => Self::Namespace,
            "involvedObject.kind" => Self::ObjectKind,
            "involvedObject.namespace" => Self::ObjectNamespace,
            "involvedObject.name" => Self::ObjectName,
            "involvedObject.uid" => Self::ObjectUid,
            "involvedObject.apiVersion" => Self::ObjectApiVersion,
            "involvedObject.fieldPath" => Self::ObjectFieldPath,
            "reason" => Self::Reason,
            "type" => Self::Type,
            "source" | "reportingComponent" => Self::Source,
            _ => return None,
        })
    }

    fn of(self, event: &Event) -> &str {
        match self {
            Self::Namespace => &event.namespace,
            Self::ObjectKind => &event.involved.kind,
            Self::ObjectNamespace => &event.involved.namespace,
            Self::ObjectName => &event.involved.name,
            Self::ObjectUid => &event.involved.uid,
            Self::ObjectApiVersion => &event.involved.api_version,
            Self::ObjectFieldPath => &event.involved.field_path,
            Self::Reason => &event.reason,
            Self::Type => &event.kind,
            Self::Source => &event.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_core::{EventFields, InvolvedObject};

    #[test]
    fn a_selector_selects_as_the_api_server_does() {
        let event = Event::from(EventFields {
            kind: "Warning".to_owned(),
            reason: "BackOff".to_owned(),
            involved: InvolvedObject {
                kind: "Pod".to_owned(),
                uid: "u1".to_owned(),
                ..InvolvedObject::default()
            },
            ..EventFields::default()
        });
        let selects = |text: &str| FieldSelector::parse(text).map(|one| one.selects(&event));
        assert_eq!(selects("involvedObject.uid=u1,type==Warning"), Some(true));
        assert_eq!(selects("involvedObject.uid=u2"), Some(false));
        assert_eq!(selects("reason!=BackOff"), Some(false));
        assert_eq!(
            selects("reason!=Pulled,involvedObject.kind=Pod"),
            Some(true)
        );
        for unknown in ["metadata.name=x", "reason", "reason=a\\,b"] {
            assert_eq!(selects(unknown), None, "{unknown}");
        }
    }
}
