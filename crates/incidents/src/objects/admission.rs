//! What the API server asks before it stores an object, and what it passes requests on to.

use std::sync::Arc;

use serde::Deserialize;

use super::{Condition, Meta, nullable};

/// Webhooks that validate or change objects.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct WebhookConfiguration {
    /// What every object has.
    pub metadata: Meta,
    /// One by one.
    #[serde(deserialize_with = "nullable")]
    pub webhooks: Vec<Webhook>,
}

/// A webhook.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    /// Messages of the API server name it.
    #[serde(deserialize_with = "nullable")]
    pub name: Box<str>,
    /// `Fail` or `Ignore`.
    #[serde(deserialize_with = "nullable")]
    pub failure_policy: Box<str>,
    /// Who answers.
    #[serde(deserialize_with = "nullable")]
    pub client_config: ClientConfig,
}

/// Who answers a webhook.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ClientConfig {
    /// None if it is outside of the cluster.
    pub service: Option<ServiceReference>,
}

/// A Service anywhere in the cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ServiceReference {
    /// Where it is.
    #[serde(deserialize_with = "nullable")]
    pub namespace: Arc<str>,
    /// What it is called.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
}

/// A group of the API that another server answers for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ApiService {
    /// What every object has.
    pub metadata: Meta,
    /// What is wanted.
    #[serde(deserialize_with = "nullable")]
    pub spec: ApiServiceSpec,
    /// What is.
    #[serde(deserialize_with = "nullable")]
    pub status: ApiServiceStatus,
}

/// Who answers for a group.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ApiServiceSpec {
    /// None if the API server does itself.
    pub service: Option<ServiceReference>,
}

/// Whether it answers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ApiServiceStatus {
    /// `Available`.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}
