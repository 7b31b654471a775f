//! The objects that a list or a watch selects.

use kubecrier_k8s_api::{InvalidSelector, LabelSelector};
use serde_json::Value;

use crate::{fields::FieldSelector, resource::Resource, status::StatusError};

/// The namespace and both selectors of a request.
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
    ) -> Result<Self, StatusError> {
        let invalid = |error: InvalidSelector| StatusError::bad_request(error.api_message());
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels: labels.parse().map_err(invalid)?,
            fields: FieldSelector::parse(resource, fields).map_err(StatusError::bad_request)?,
        })
    }

    /// Whether nothing is filtered out of the namespace. Only then does the API server
    /// count the remaining items of a list.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let in_namespace = |namespace: &String| metadata["namespace"] == **namespace;
        let label = |key: &str| metadata["labels"].get(key)?.as_str();
        self.namespace.as_ref().is_none_or(in_namespace)
            && self.labels.matches(label)
            && self.fields.matches(object)
    }
}
