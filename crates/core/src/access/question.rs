//! What is asked of an authorizer.

use std::{borrow::Cow, fmt, sync::Arc};

use kubecrier_k8s_api::{BuiltinKind, kinds};

/// A verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    /// The verb: `list` for what is shared by watches, `get` for what belongs to one object.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The resource, in plural.
    pub resource: Cow<'static, str>,
    /// The subresource, such as `log`.
    pub subresource: Option<&'static str>,
}

/// An action in a namespace, or in all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessQuestion {
    /// The action.
    pub action: Action,
    /// The namespace; all of them, or a resource without namespaces, if there is none.
    pub namespace: Option<Arc<str>>,
}

// === impl Action ===

impl Action {
    /// Whoever may list events could ask for the same ones again and again, so that `list` is
    /// the verb that counts, and not `watch`.
    pub const LIST_EVENTS: Self = Self::of(kinds::EVENT, "list");
    /// The state of a pod.
    pub const GET_PODS: Self = Self::of(kinds::POD, "get");
    /// The logs of a pod.
    pub const GET_LOGS: Self = Self {
        verb: "get",
        group: Cow::Borrowed(kinds::POD.group),
        resource: Cow::Borrowed(kinds::POD.plural),
        subresource: Some("log"),
    };

    const fn of(kind: BuiltinKind, verb: &'static str) -> Self {
        Self {
            verb,
            group: Cow::Borrowed(kind.group),
            resource: Cow::Borrowed(kind.plural),
            subresource: None,
        }
    }

    /// To get an object of a kind.
    pub const fn get(kind: BuiltinKind) -> Self {
        Self::of(kind, "get")
    }

    /// To list the objects of a kind.
    pub const fn list(kind: BuiltinKind) -> Self {
        Self::of(kind, "list")
    }

    /// To list the objects of a resource that is known by its names alone.
    pub fn list_named(group: &str, resource: &str) -> Self {
        Self {
            verb: "list",
            group: Cow::Owned(group.to_owned()),
            resource: Cow::Owned(resource.to_owned()),
            subresource: None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

// === impl AccessQuestion ===

impl AccessQuestion {
    /// The action in a namespace; an empty name is that of an object without one.
    pub fn within(action: Action, namespace: &str) -> Self {
        Self {
            action,
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
        }
    }

    /// The same in all namespaces, if it is about one.
    pub(super) fn everywhere(&self) -> Option<Self> {
        self.namespace.as_ref().map(|_| Self {
            action: self.action.clone(),
            namespace: None,
        })
    }
}

impl fmt::Display for AccessQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in `{namespace}`", self.action),
            None => write!(f, "{} in the whole cluster", self.action),
        }
    }
}
