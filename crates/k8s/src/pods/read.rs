//! A pod as far as it is read: the fields that kubecrier shows or decides by. The type of the API
//! has hundreds of others, and the code that reads them would be half a megabyte of the program.

use std::borrow::Cow;

use k8s_openapi::{
    NamespaceResourceScope, api::core::v1 as api, api::core::v1::PodStatus,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, api::Log};
use serde::{Deserialize, Deserializer};

/// A pod without what nothing here looks at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    pub(crate) status: Option<PodStatus>,
}

/// What a pod should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) init_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ephemeral_containers: Vec<Container>,
}

/// A container as it is declared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    #[serde(deserialize_with = "nullable")]
    pub(crate) name: String,
    pub(crate) image: Option<String>,
    pub(crate) restart_policy: Option<String>,
    pub(crate) termination_message_policy: Option<String>,
}

/// What is `null` is not there.
fn nullable<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(from).map(Option::unwrap_or_default)
}

// === impl Pod ===

impl Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        <api::Pod as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <api::Pod as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <api::Pod as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <api::Pod as Resource>::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// It has logs.
impl Log for Pod {}
