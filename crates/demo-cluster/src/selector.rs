//! Which objects a list or a watch is about.

mod fields;
mod labels;

use serde_json::Value;

use crate::{resource::Resource, status::Refusal};

pub(crate) use self::{fields::FieldSelector, labels::LabelSelector};

/// Both selectors and the namespace of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

// === impl Selection ===

impl Selection {
    pub(crate) fn parse(
        resource: &Resource,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).map_err(Refusal::bad_request)?,
            fields: FieldSelector::parse(resource, fields).map_err(Refusal::bad_request)?,
        })
    }

    /// Whether everything of the namespace is meant: only then the API server
    /// knows how many are left.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let here = |wanted: &String| object["metadata"]["namespace"] == **wanted;
        self.namespace.as_ref().is_none_or(here)
            && self.labels.matches(&object["metadata"]["labels"])
            && self.fields.matches(object)
    }
}
