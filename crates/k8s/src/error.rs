//! Errors of requests to a cluster, with a hint that a person can act on.

use std::{error::Error as StdError, fmt};

use kube::client::AuthError;
use kubecrier_core::{KubernetesUser, shares::LimitReached};
use serde::Serialize;

use super::{
    body_limit::TooLarge,
    connect::auth_error,
    identity::{keep_names, quoted_names},
    impersonation::kubectl_flags,
    in_cluster::{IN_CLUSTER, kubectl},
    read_only::RefusedRequest,
};
use kubecrier_redact::Redactor;

/// An error of this crate: the action, the reason, and a hint on what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action}: {reason}")]
pub struct ClusterError {
    kind: ErrorKind,
    action: String,
    reason: String,
    hint: Option<String>,
}

/// The closed set of failures: callers branch on it, and it is a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no usable kubeconfig.
    Kubeconfig,
    /// There is no context of that name, or no default context.
    Context,
    /// The address of the API server does not accept connections.
    Unreachable,
    /// No response within the deadline.
    Timeout,
    /// The certificate of the API server is not trusted.
    Certificate,
    /// The API server does not accept the credentials.
    Unauthorized,
    /// The credentials lack the permission.
    Forbidden,
    /// There is no such object.
    NotFound,
    /// The request is not valid.
    Invalid,
    /// The API server limits the rate of requests, or this server has a limit.
    Throttled,
    /// The response is larger than this server reads.
    TooLarge,
    /// Any other failure of the API server or the connection.
    Other,
}

/// The operation on the API, for the text of an error.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// As RBAC spells it.
    pub verb: &'static str,
    /// As RBAC spells it.
    pub resource: &'a str,
    /// Name of the object, for an operation on a single object.
    pub name: Option<&'a str>,
    /// Namespace; all if none.
    pub namespace: Option<&'a str>,
    /// Context of the kubeconfig.
    pub context: &'a str,
}

// === impl ErrorKind ===

impl ErrorKind {
    /// The kind as metrics and structured errors spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubeconfig => "kubeconfig",
            Self::Context => "context",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Certificate => "certificate",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Throttled => "throttled",
            Self::TooLarge => "too_large",
            Self::Other => "other",
        }
    }
}

// === impl Operation ===

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.verb, self.resource)?;
        if let Some(name) = self.name {
            write!(f, " `{name}`")?;
        }
        if let Some(namespace) = self.namespace {
            write!(f, " in namespace `{namespace}`")?;
        }
        write!(f, " of context `{}`", self.context)
    }
}

// === impl ClusterError ===

impl ClusterError {
    /// An error of this kind: the action, the reason it failed, and a hint on what to do.
    pub fn new(
        kind: ErrorKind,
        action: impl Into<String>,
        reason: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self {
            kind,
            action: action.into(),
            reason: reason.into(),
            hint,
        }
    }

    /// A request that is rejected before it is sent to an API server.
    pub fn invalid(action: impl Into<String>, reason: impl Into<String>, hint: &str) -> Self {
        Self::new(ErrorKind::Invalid, action, reason, Some(hint.to_owned()))
    }

    pub(super) fn timeout(operation: &Operation<'_>, seconds: f64) -> Self {
        let hint = format!(
            "the API server of `{}` may be down or overloaded: try `{} version`, or raise \
             --request-timeout-seconds",
            operation.context,
            kubectl(operation.context)
        );
        // Time spent before the request makes the number odd: tenths of a second are enough.
        let seconds = (seconds * 10.0).round() / 10.0;
        let reason = format!("no answer within {seconds} s");
        Self::new(
            ErrorKind::Timeout,
            operation.to_string(),
            reason,
            Some(hint),
        )
    }

    pub(super) fn from_kube(operation: &Operation<'_>, error: &kube::Error) -> Self {
        if let Some(refused) = refusal(error) {
            return Self::refused(operation, refused);
        }
        let (kind, reason) = match error {
            kube::Error::Api(status) => (api_kind(status.code), status.message.clone()),
            other => {
                let auth = || chain(other).find_map(|cause| cause.downcast_ref::<AuthError>());
                match (too_large(other), auth()) {
                    (Some(limit), _) => (ErrorKind::TooLarge, limit.to_string()),
                    (None, Some(error)) => (ErrorKind::Unauthorized, auth_error(error)),
                    (None, None) => connection_kind(other),
                }
            }
        };
        Self::new(kind, operation.to_string(), reason, hint(kind, operation))
    }

    /// A request that the read-only layer has refused.
    pub(super) fn refused(operation: &Operation<'_>, refused: &RefusedRequest) -> Self {
        let hint = match refused {
            RefusedRequest::NotReadOnly(_)
            | RefusedRequest::UnclearPath(_)
            | RefusedRequest::NamesUser
            | RefusedRequest::NoUser => None,
            RefusedRequest::Denied(_) | RefusedRequest::Namespace(_) | RefusedRequest::Logs => {
                Some("whoever runs this server decides what it may read")
            }
            RefusedRequest::ClusterWide(_) => Some(
                "name a namespace that is allowed; whoever runs this server decides what it may read",
            ),
            RefusedRequest::Secret => Some(
                "resources_list shows names, types and how many keys there are; values are read \
                 with kubectl",
            ),
        };
        let hint = hint.map(str::to_owned);
        let (action, reason) = (operation.to_string(), refused.to_string());
        Self::new(ErrorKind::Forbidden, action, reason, hint)
    }

    /// The error of a limit of this server.
    pub fn limit(action: &str, reached: &LimitReached) -> Self {
        let hint = if reached.is_callers() {
            "end a subscription that is not needed any more"
        } else {
            "try again when others have ended theirs, or ask for one that is there already"
        };
        let (reason, hint) = (reached.to_string(), hint.to_owned());
        Self::new(ErrorKind::Throttled, action, reason, Some(hint))
    }

    /// The same refusal, of a request that was made as a user: the hint says what this user
    /// needs, or what the server needs to act as the user.
    #[must_use]
    pub(super) fn for_user(self, operation: &Operation<'_>, user: &KubernetesUser) -> Self {
        let Operation { verb, resource, .. } = *operation;
        let scope = operation
            .namespace
            .map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        // Both `cannot impersonate resource` and `cannot impersonate-on:user-info:list resource`.
        if self.reason.contains("cannot impersonate") {
            return self.with_hint(
                "this server may not act as its callers in that cluster: `kubecrier doctor` with \
                 the same settings prints the RBAC that it needs",
            );
        }
        if self.hint.is_none() || self.kind != ErrorKind::Forbidden {
            return self;
        }
        self.with_hint(&format!(
            "Kubernetes decides what `{}` may read: ask for `{verb}` on `{resource}`, and \
             check with `{} auth can-i {verb} {resource} {scope} {}`{}",
            user.name(),
            kubectl(operation.context),
            kubectl_flags(user),
            if operation.namespace.is_none() {
                ", or name a namespace you may read"
            } else {
                ""
            },
        ))
    }

    /// The same error with another hint.
    #[must_use]
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// The same error, with another hint if the object does not exist.
    #[must_use]
    pub(super) fn if_not_found(self, hint: &str) -> Self {
        match self.kind {
            ErrorKind::NotFound => self.with_hint(hint),
            _ => self,
        }
    }

    /// The same error as it may leave. The reason is free text, often an API server's own; the
    /// names that the error is about stay in it.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let Self {
            kind,
            action,
            reason,
            hint,
        } = self;
        let mut names = quoted_names(action);
        names.extend(hint.as_deref().map(quoted_names).unwrap_or_default());
        let shown = |text: &str| keep_names(redactor, text, &names);
        Self {
            kind: *kind,
            action: shown(action),
            reason: shown(reason),
            hint: hint.as_deref().map(shown),
        }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

fn api_kind(code: u16) -> ErrorKind {
    match code {
        400 | 422 => ErrorKind::Invalid,
        401 => ErrorKind::Unauthorized,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::Timeout,
        429 => ErrorKind::Throttled,
        502 | 503 => ErrorKind::Unreachable,
        _ => ErrorKind::Other,
    }
}

fn hint(kind: ErrorKind, operation: &Operation<'_>) -> Option<String> {
    let Operation {
        verb,
        resource,
        namespace,
        context,
        ..
    } = *operation;
    let scope = namespace.map_or("-A".to_owned(), |namespace| format!("-n {namespace}"));
    let kubectl = kubectl(context);
    match kind {
        ErrorKind::Forbidden if context == IN_CLUSTER => Some(format!(
            "grant `{verb}` on `{resource}` to the ServiceAccount of the pod; `kubecrier doctor` in \
             the pod prints the manifest"
        )),
        ErrorKind::Unauthorized if context == IN_CLUSTER => Some(
            "the token of the pod's ServiceAccount is not accepted: if the ServiceAccount was \
             deleted or made anew, start a new pod"
                .to_owned(),
        ),
        ErrorKind::Forbidden => Some(format!(
            "grant `{verb}` on `{resource}`; check with `{kubectl} auth can-i \
             {verb} {resource} {scope}`{}",
            if namespace.is_none() {
                ", or name a namespace you may read"
            } else {
                ""
            },
        )),
        ErrorKind::Unauthorized => Some(format!(
            "the credentials of context `{context}` are not accepted, they may have expired: log in \
             again, then check with `{kubectl} auth whoami`"
        )),
        ErrorKind::Unreachable => Some(format!(
            "is the cluster up, and its address right? try `{kubectl} version`"
        )),
        ErrorKind::Certificate => Some(format!(
            "the API server's certificate is expired or signed by another authority: renew it, or \
             mend certificate-authority-data of context `{context}`"
        )),
        ErrorKind::NotFound => Some(format!(
            "names are exact; {resource} are listed with `{}_list`",
            resource.split('/').next().unwrap_or(resource)
        )),
        // A kubelet returns 400 for every log that it does not have.
        ErrorKind::Invalid if resource == "pods/log" => Some(
            "a container that has not started has no log, and one that has not been restarted no \
             previous one; see `pods_list` for its state"
                .to_owned(),
        ),
        ErrorKind::Invalid => Some(
            "selectors are written as kubectl takes them, e.g. `app=web,tier in (a,b)` or \
             `status.phase=Failed`"
                .to_owned(),
        ),
        ErrorKind::Throttled => Some("wait a little, then ask for less".to_owned()),
        ErrorKind::TooLarge => Some(
            "ask for less: a namespace, a selector, a lower limit, one name; an object of many \
             megabytes is best found with kubectl"
                .to_owned(),
        ),
        ErrorKind::Kubeconfig | ErrorKind::Context | ErrorKind::Timeout | ErrorKind::Other => None,
    }
}

fn refusal(error: &kube::Error) -> Option<&RefusedRequest> {
    chain(error).find_map(|cause| cause.downcast_ref::<RefusedRequest>())
}

/// The limit that a response has passed.
pub(super) fn too_large(error: &kube::Error) -> Option<TooLarge> {
    chain(error).find_map(|cause| {
        // The cause of an I/O error is inside of it, and not its source.
        let inner = cause.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(|error| error.get_ref());
        let inside = inner.and_then(|inner| inner.downcast_ref::<TooLarge>().copied());
        let nested = || inner.and_then(|inner| too_large(inner.downcast_ref::<kube::Error>()?));
        cause
            .downcast_ref::<TooLarge>()
            .copied()
            .or(inside)
            .or_else(nested)
    })
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The kind of a connection error, and the message of its innermost cause: the causes above
/// only name the layer.
fn connection_kind(error: &(dyn StdError + 'static)) -> (ErrorKind, String) {
    let reason = chain(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    let is_connection = chain(error).any(|cause| {
        let text = cause.to_string();
        cause.is::<std::io::Error>()
            || text.contains("client error (Connect)")
            || text.contains("connection closed")
            || text.contains("connection error")
    });
    let kind = match () {
        () if reason.contains("invalid peer certificate") => ErrorKind::Certificate,
        () if is_connection => ErrorKind::Unreachable,
        () => ErrorKind::Other,
    };
    (kind, reason)
}
