//! Failures between the client and the server.

use http::StatusCode;

/// A failed request to a server, with a text that a person can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The URL is not one of a server.
    #[error("`{0}` is not the address of a kubecrier; write for example http://127.0.0.1:8080/mcp")]
    InvalidUrl(String),
    /// The file of trusted certificate authorities cannot be used.
    #[error("the certificate authority `{path}` cannot be used: {reason}")]
    CertificateAuthority {
        /// The file.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The token cannot be sent in a header.
    #[error("the token has characters that no token has (a line break?)")]
    InvalidToken,
    /// There is no connection, or no answer in time.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// The URL of the server.
        url: String,
        /// The innermost error, with a hint if there is one.
        reason: String,
    },
    /// The server answered 401.
    #[error(
        "{0} asks for a token, and ours is missing or not accepted\n\
         hint: set KUBECRIER_TOKEN, or name a file with --token-file"
    )]
    Unauthorized(String),
    /// The session has ended on the server.
    #[error("the server does not know this session any more")]
    SessionExpired,
    /// Any other HTTP status that is not a success.
    #[error("{url} answered {status}: {body}")]
    Status {
        /// The URL of the server.
        url: String,
        /// The HTTP status.
        status: StatusCode,
        /// The beginning of the body.
        body: String,
    },
    /// The answer is an error of JSON-RPC, or not JSON-RPC at all.
    #[error("{0}")]
    Rpc(String),
    /// The tool answered with an error.
    #[error("{text}")]
    Tool {
        /// The kind of the error, such as `not_found`.
        kind: String,
        /// What the tool says, with a hint.
        text: String,
    },
    /// The server has no context of that name.
    #[error("there is no context `{name}`\nhint: contexts are: {known}")]
    UnknownContext {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
}

// === impl ClientError ===

impl ClientError {
    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            // A tool may fail because the API server behind it is down for a while.
            // A kubeconfig may be in the course of being written.
            Self::Unreachable { .. }
            | Self::SessionExpired
            | Self::Tool { .. }
            | Self::UnknownContext { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::InvalidUrl(_)
            | Self::CertificateAuthority { .. }
            | Self::InvalidToken
            | Self::Unauthorized(_)
            | Self::Rpc(_) => false,
        }
    }
}
