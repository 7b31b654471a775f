//! What can go wrong on the way to a cluster, told so that a person can act.

use std::{error::Error as StdError, fmt};

use kube::client::AuthError;
use serde::Serialize;

use super::{connect::auth_error, read_only::Refused};

/// An error of this room: what was tried, where, why it failed, what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing}: {reason}")]
pub struct ClusterError {
    kind: ErrorKind,
    doing: String,
    reason: String,
    hint: Option<String>,
}

/// The closed set of failures; a caller branches on it and a metric is labelled
/// by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no usable kubeconfig.
    Kubeconfig,
    /// No context of that name, or none to choose.
    Context,
    /// Nobody answers at the API server's address.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// The API server's certificate is not to be trusted.
    Certificate,
    /// The API server does not know who we are.
    Unauthorized,
    /// We may not do that.
    Forbidden,
    /// There is no such object.
    NotFound,
    /// The request made no sense to us or to the API server.
    Invalid,
    /// The API server asks for less.
    Throttled,
    /// Anything else that the API server or the connection did.
    Other,
}

/// What is being done, for the text of an error.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// As RBAC spells it.
    pub verb: &'static str,
    /// As RBAC spells it.
    pub resource: &'a str,
    /// The one object, if it is about one.
    pub name: Option<&'a str>,
    /// The namespace, or all of them.
    pub namespace: Option<&'a str>,
    /// The context of the kubeconfig.
    pub context: &'a str,
}

// === impl ErrorKind ===

impl ErrorKind {
    /// As it is written in metrics and in structured errors.
    pub fn as_str(self) -> &'static str {
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
    /// An error of this kind: what was being done, why it failed, and what to do about it.
    pub fn new(
        kind: ErrorKind,
        doing: impl Into<String>,
        reason: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self {
            kind,
            doing: doing.into(),
            reason: reason.into(),
            hint,
        }
    }

    /// A request that is wrong before any API server sees it.
    pub fn invalid(doing: impl Into<String>, reason: impl Into<String>, hint: &str) -> Self {
        Self::new(ErrorKind::Invalid, doing, reason, Some(hint.to_owned()))
    }

    pub(super) fn timeout(operation: &Operation<'_>, seconds: f64) -> Self {
        let hint = format!(
            "the API server of `{}` may be down or overloaded: try `kubectl --context {} version`, \
             or raise --request-timeout-seconds",
            operation.context, operation.context
        );
        // What was spent before is not the reader's business to the millisecond.
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
            other => match chain(other).find_map(|cause| cause.downcast_ref::<AuthError>()) {
                Some(error) => (ErrorKind::Unauthorized, auth_error(error)),
                None => connection_kind(other),
            },
        };
        Self::new(kind, operation.to_string(), reason, hint(kind, operation))
    }

    /// A request that our own gate has not let out.
    pub(super) fn refused(operation: &Operation<'_>, refused: &Refused) -> Self {
        let hint = match refused {
            Refused::NotReading(_) => None,
            Refused::Denied(_) => Some("whoever runs this server decides what it may read"),
            Refused::Secret => Some(
                "resources_list shows names, types and how many keys there are; values are read \
                 with kubectl",
            ),
        };
        let hint = hint.map(str::to_owned);
        let (doing, reason) = (operation.to_string(), refused.to_string());
        Self::new(ErrorKind::Forbidden, doing, reason, hint)
    }

    /// The same, with another word on what to do.
    #[must_use]
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// The same, with another word on what to do if there is no such object.
    #[must_use]
    pub(super) fn if_not_found(self, hint: &str) -> Self {
        match self.kind {
            ErrorKind::NotFound => self.with_hint(hint),
            _ => self,
        }
    }

    /// What sort of failure it is.
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
    match kind {
        ErrorKind::Forbidden => Some(format!(
            "grant `{verb}` on `{resource}`; check with `kubectl --context {context} auth can-i \
             {verb} {resource} {scope}`{}",
            if namespace.is_none() {
                ", or name a namespace you may read"
            } else {
                ""
            },
        )),
        ErrorKind::Unauthorized => Some(format!(
            "the credentials of context `{context}` are not accepted, they may have expired: log in \
             again, then check with `kubectl --context {context} auth whoami`"
        )),
        ErrorKind::Unreachable => Some(format!(
            "is the cluster up, and its address right? try `kubectl --context {context} version`"
        )),
        ErrorKind::Certificate => Some(format!(
            "the API server's certificate is expired or signed by another authority: renew it, or \
             mend certificate-authority-data of context `{context}`"
        )),
        ErrorKind::NotFound => Some(format!(
            "names are exact; {resource} are listed with `{}_list`",
            resource.split('/').next().unwrap_or(resource)
        )),
        // A kubelet answers 400 for every log that it does not have.
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
        ErrorKind::Kubeconfig | ErrorKind::Context | ErrorKind::Timeout | ErrorKind::Other => None,
    }
}

fn refusal(error: &kube::Error) -> Option<&Refused> {
    chain(error).find_map(|cause| cause.downcast_ref::<Refused>())
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// A connection that could not be made or that broke, and what the deepest cause
/// says: the layers above only say where.
fn connection_kind(error: &(dyn StdError + 'static)) -> (ErrorKind, String) {
    let reason = chain(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default();
    let broke = chain(error).any(|cause| {
        let text = cause.to_string();
        cause.is::<std::io::Error>()
            || text.contains("client error (Connect)")
            || text.contains("connection closed")
            || text.contains("connection error")
    });
    let kind = match () {
        () if reason.contains("invalid peer certificate") => ErrorKind::Certificate,
        () if broke => ErrorKind::Unreachable,
        () => ErrorKind::Other,
    };
    (kind, reason)
}
