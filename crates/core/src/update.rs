//! The part that updates of all resources have in common.

use serde::Serialize;

/// An update of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpdateSummary {
    /// The number of the update of this resource.
    pub seq: u64,
    /// How much has happened since the resource is followed.
    pub count: u64,
    /// One line for a person or a model.
    pub summary: String,
}
