//! The record of a subscription: what another process needs to go on with it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::output::ToolError;
use kubecrier_core::{
    filters::{FilterRequest, Filters, Mode},
    subscriptions::{Subscription, SubscriptionId},
};

/// A subscription, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubscriptionRecord {
    pub(crate) id: String,
    pub(crate) context: String,
    mode: Mode,
    filters: Value,
    pub(super) created_at: Timestamp,
    /// resourceVersion after which everything is to be delivered; 0 if it is not known.
    pub(super) version: u64,
}

// === impl SubscriptionRecord ===

impl SubscriptionRecord {
    pub(super) fn new(one: &Subscription) -> Self {
        Self {
            id: one.id().to_string(),
            context: one.cluster().to_owned(),
            mode: one.filters().mode(),
            filters: serde_json::to_value(one.filters()).unwrap_or_default(),
            created_at: one.created_at(),
            version: one.feed().first_version(),
        }
    }

    /// The number of its feed in the ids of the stream.
    pub(crate) fn short_id(&self) -> Option<u32> {
        SubscriptionId::parse(&self.id).map(|id| id.short())
    }

    /// When it was made.
    pub(crate) fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// The filters, as they are shown.
    pub(crate) fn filters(&self) -> &Value {
        &self.filters
    }

    /// The mode, which may be switched off by now.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn parse(&self) -> Result<(SubscriptionId, Filters), ToolError> {
        let wrong = |why: String| ToolError::Arguments(format!("it cannot be continued: {why}"));
        let id = SubscriptionId::parse(&self.id);
        let id = id.ok_or_else(|| wrong("it has no id".to_owned()))?;
        let request = serde_json::from_value::<FilterRequest>(self.filters.clone());
        let mut request = request.map_err(|error| wrong(error.to_string()))?;
        request.mode = self.mode;
        let filters = Filters::try_from(request).map_err(|error| wrong(error.to_string()))?;
        Ok((id, filters))
    }
}
