//! Why there is no store, for whoever has to repair it.

use std::{error::Error, path::PathBuf};

use async_nats::{ConnectErrorKind, rustls};
use thiserror::Error;

/// Why a store cannot be used. URLs in it have no password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting makes no sense.
    #[error("the settings of the shared store cannot be used: {0}")]
    Settings(String),
    /// The URL is none.
    #[error("`{url}` is no URL of a NATS server: {why} (--cluster-store nats://host:4222)")]
    Url {
        /// As it was set.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file of credentials or certificates cannot be read.
    #[error("cannot read the {what} `{}` of the shared store: {why}", .path.display())]
    File {
        /// Credentials or certificates.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody answers.
    #[error(
        "cannot reach NATS at {url}: {why}; is it running, and is --cluster-store the right URL?"
    )]
    Down {
        /// The servers.
        url: String,
        /// What the system says.
        why: String,
    },
    /// The server wants to know who connects.
    #[error(
        "NATS at {url} asks for credentials: put a user and a password into the URL of \
         --cluster-store, or name a .creds file"
    )]
    CredentialsAsked {
        /// The servers.
        url: String,
    },
    /// The server does not know these credentials.
    #[error("NATS at {url} refuses the credentials that it is given")]
    CredentialsRefused {
        /// The servers.
        url: String,
    },
    /// The certificate is signed by nobody who is trusted.
    #[error(
        "the certificate of NATS at {url} is not trusted: {why}; name the certificates of its \
         authority as the CA file of the shared store"
    )]
    NotTrusted {
        /// The servers.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// TLS does not work.
    #[error("there is no TLS with NATS at {url}: {why}")]
    Tls {
        /// The servers.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The user lacks a right.
    #[error(
        "NATS at {url} does not let this user do what is needed ({why}): let it publish and \
         subscribe to `{fleet}.>`, `$JS.API.>` and `$JS.FC.>` (`permissions` of the user in NATS; \
         --cluster-store-fleet is the first of them)"
    )]
    Rights {
        /// The servers.
        url: String,
        /// The prefix of all names.
        fleet: String,
        /// What the server says.
        why: String,
    },
    /// The server has no streams.
    #[error(
        "NATS at {url} has no JetStream for this user: switch it on (`jetstream {{}}` in its \
         configuration, or `--jetstream`)"
    )]
    JetStreamOff {
        /// The servers.
        url: String,
    },
    /// The server does not know all that is needed.
    #[error("NATS at {url} is version {version}; 2.11 or later is needed")]
    TooOld {
        /// The servers.
        url: String,
        /// What it says.
        version: String,
    },
    /// The server takes no messages of the size that is needed.
    #[error("NATS at {url} takes messages of {bytes} bytes: its max_payload must be 1 MB or more")]
    PayloadTooSmall {
        /// The servers.
        url: String,
        /// Its limit.
        bytes: usize,
    },
    /// There is no room for the stream.
    #[error(
        "NATS at {url} has no room for the stream `{stream}`: {why}; give JetStream more \
         (max_file_store), or let the log of the shared store keep less"
    )]
    NoRoom {
        /// The servers.
        url: String,
        /// The stream.
        stream: String,
        /// What the server says.
        why: String,
    },
    /// A stream of that name belongs to somebody else.
    #[error(
        "the stream `{stream}` of NATS at {url} was not made by kubecrier ({why}): choose another \
         name with --cluster-store-fleet, or another server with --cluster-store"
    )]
    Foreign {
        /// The servers.
        url: String,
        /// The stream.
        stream: String,
        /// What shows that.
        why: String,
    },
    /// Another version of kubecrier made the stream.
    #[error(
        "the stream `{stream}` of NATS at {url} has format {found}, and this version of kubecrier \
         has format {ours}: run one version, or choose another name with --cluster-store-fleet"
    )]
    Format {
        /// The servers.
        url: String,
        /// The stream.
        stream: String,
        /// Its format.
        found: String,
        /// The one of this version.
        ours: u32,
    },
    /// The server says no, for another reason.
    #[error("NATS at {url} does not {what}: {why}")]
    Refused {
        /// The servers.
        url: String,
        /// What it was asked for.
        what: String,
        /// What it says.
        why: String,
    },
}

// === impl ConnectError ===

impl ConnectError {
    /// What the client says, in words that help.
    pub(crate) fn of_client(
        error: &async_nats::ConnectError,
        url: &str,
        has_credentials: bool,
    ) -> Self {
        let url = url.to_owned();
        if let Some(tls) = tls_error(error) {
            let why = tls.to_string();
            return match tls {
                rustls::Error::InvalidCertificate(_) => Self::NotTrusted { url, why },
                _ => Self::Tls { url, why },
            };
        }
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation if has_credentials => {
                Self::CredentialsRefused { url }
            }
            ConnectErrorKind::AuthorizationViolation => Self::CredentialsAsked { url },
            ConnectErrorKind::Authentication => Self::CredentialsRefused { url },
            ConnectErrorKind::Tls => Self::Tls {
                url,
                why: innermost(error),
            },
            ConnectErrorKind::ServerParse
            | ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => Self::Down {
                url,
                why: innermost(error),
            },
        }
    }
}

fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref() {
            return Some(tls);
        }
        // What an I/O error wraps is not its source.
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// The error that the others were made of: what the system says.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
