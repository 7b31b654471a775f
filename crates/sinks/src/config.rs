//! What a sink is, validated: the target, and what it is told.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use http::Uri;
use kubecrier_core::filters::Filters;
use kubecrier_incidents::{Incident, Severity, Transition};

use crate::{
    address::AllowedAddresses,
    payload::{alert::Labels, cloud_event::ContentMode},
    secret::SecretSource,
};

/// One sink.
#[derive(Clone, Debug)]
pub struct SinkConfig {
    /// Its name in logs and metrics.
    pub name: String,
    /// What it is told.
    pub filter: SinkFilter,
    /// Where incidents go.
    pub target: TargetConfig,
    /// Incidents that can wait.
    pub queue_max: usize,
    /// How long a delivery may take.
    pub timeout: Duration,
}

/// What a sink is told.
#[derive(Clone, Debug)]
pub struct SinkFilter {
    /// The contexts; empty for the current one.
    pub contexts: Vec<String>,
    /// The namespaces, as subscriptions have them.
    pub filters: Filters,
    /// The least severity.
    pub severity: Severity,
    /// Names of detectors; empty for all.
    pub detectors: BTreeSet<String>,
    /// What happened.
    pub transitions: Transitions,
}

/// What has to happen to an incident for a sink to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transitions {
    /// It is there.
    pub opened: bool,
    /// It is materially another.
    pub changed: bool,
    /// It is over.
    pub resolved: bool,
}

/// The target of a sink.
#[derive(Clone, Debug)]
pub enum TargetConfig {
    /// The API of Alertmanager, version 2.
    Alertmanager {
        /// The server.
        http: HttpTarget,
        /// Labels of every alert.
        labels: Labels,
    },
    /// A receiver of Alertmanager's webhook, version 4.
    AlertmanagerWebhook {
        /// The receiver.
        http: HttpTarget,
        /// Labels of every alert.
        labels: Labels,
    },
    /// A receiver of CloudEvents 1.0.
    CloudEvents {
        /// The receiver.
        http: HttpTarget,
        /// How events are put into requests.
        mode: ContentMode,
    },
    /// An agent that speaks A2A 1.0.
    A2a {
        /// The agent.
        http: HttpTarget,
    },
    /// A program.
    Exec(ExecTarget),
}

/// A server, and how to talk to it.
#[derive(Clone, Debug)]
pub struct HttpTarget {
    /// Its URL.
    pub url: TargetUrl,
    /// How it knows us.
    pub credentials: Option<Credentials>,
    /// Secrets that messages are signed with, as Standard Webhooks specifies it.
    pub signing_secrets: Option<SecretSource>,
    /// Authorities that are trusted, instead of those of the system (PEM).
    pub ca_file: Option<PathBuf>,
    /// Internal addresses that may be connected to.
    pub allowed: AllowedAddresses,
}

/// The URL of a target. One that is a secret by itself is read where it is.
#[derive(Clone, Debug)]
pub enum TargetUrl {
    /// A URL without a secret.
    Known(Uri),
    /// The place of a URL with a secret.
    Secret(SecretSource),
}

/// The value of the header `Authorization`.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A token.
    Bearer(SecretSource),
    /// A user and the password.
    Basic {
        /// The name of the user.
        user: String,
        /// The password.
        password: SecretSource,
    },
}

/// A program that is started for each message, without a shell.
#[derive(Clone, Debug)]
pub struct ExecTarget {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables of this process that it gets, besides PATH.
    pub passed: Vec<String>,
}

// === impl TargetConfig ===

impl TargetConfig {
    /// The word for the kind of target.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Alertmanager { .. } => "alertmanager",
            Self::AlertmanagerWebhook { .. } => "alertmanager-webhook",
            Self::CloudEvents { .. } => "cloudevents",
            Self::A2a { .. } => "a2a",
            Self::Exec(_) => "exec",
        }
    }

    /// The server, if it is one.
    pub fn http(&self) -> Option<&HttpTarget> {
        match self {
            Self::Alertmanager { http, .. }
            | Self::AlertmanagerWebhook { http, .. }
            | Self::CloudEvents { http, .. }
            | Self::A2a { http } => Some(http),
            Self::Exec(_) => None,
        }
    }
}

// === impl SinkFilter ===

impl SinkFilter {
    /// Whether the sink is told of an incident.
    pub(crate) fn admits(&self, incident: &Incident) -> bool {
        let effects = incident.effects.iter().map(|effect| &effect.object);
        let objects = std::iter::once(&incident.object).chain(effects);
        incident.severity >= self.severity
            && (self.detectors.is_empty() || self.detectors.contains(incident.detector))
            && self.filters.admits_incident(objects)
    }
}

// === impl Transitions ===

impl Transitions {
    /// Everything.
    pub const ALL: Self = Self {
        opened: true,
        changed: true,
        resolved: true,
    };

    /// The beginning and the end.
    pub const ENDS: Self = Self {
        opened: true,
        changed: false,
        resolved: true,
    };

    pub(crate) fn admits(self, transition: &Transition) -> bool {
        match transition {
            Transition::Opened(_) => self.opened,
            Transition::Changed(_) => self.changed,
            Transition::Resolved { .. } => self.resolved,
        }
    }
}

// === impl TargetUrl ===

impl TargetUrl {
    /// A URL that can be posted to: `http` or `https` with a host, without a user and a password.
    pub fn parse(text: &str) -> Result<Uri, InvalidUrl> {
        let uri: Uri = text.parse().map_err(|_| InvalidUrl::Malformed)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidUrl::Malformed);
        }
        let authority = uri.authority().ok_or(InvalidUrl::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(InvalidUrl::Credentials);
        }
        if authority.host().is_empty() || uri.host().is_none() {
            return Err(InvalidUrl::Malformed);
        }
        Ok(uri)
    }
}

/// Why a text is no URL of a target. The text may have a secret, so it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// It is no URL of HTTP.
    #[error("a URL that begins with http:// or https:// and has a host")]
    Malformed,
    /// It has a user and a password.
    #[error(
        "a URL without a user and a password: name these in a [[sink]] of the --config file, with \
         basic_auth_user and basic_auth_password_file"
    )]
    Credentials,
}
