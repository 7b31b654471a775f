//! The answer to a request without a caller.

use axum::response::{IntoResponse, Response};
use http::{
    StatusCode,
    header::{RETRY_AFTER, WWW_AUTHENTICATE},
};
use kubecrier_core::metrics::RequestRefusal;

use super::{
    bearer::BearerError,
    challenge::{Challenge, ChallengeError},
    trusted_user::UserHeaderError,
};
use crate::{http::HEAD_BYTES_MAX, peer::OtherUser};

/// Why a request has no caller.
#[derive(Debug)]
pub(super) enum Unidentified {
    /// It presents nothing.
    Missing { has_tokens: bool },
    /// Its token is not known.
    InvalidToken,
    /// Its access token is not accepted.
    Token(BearerError),
    /// Its head is too large to be read, because of its token or of something else.
    HeadTooLarge { is_token: bool },
    /// Its token was revoked or expired while it was being answered.
    Ended,
    /// Its header is not acceptable.
    UserHeader(UserHeaderError),
    /// It has no token, and belongs to another user of this machine.
    OtherUser(OtherUser),
}

// === impl Unidentified ===

impl Unidentified {
    /// The answer.
    pub(super) fn response(self, challenge: &Challenge) -> Response {
        const FILE: &str =
            "present a token of --auth-token-file as `Authorization: Bearer TOKEN`\n";
        const OAUTH: &str = "log in: the WWW-Authenticate header says where the authorization servers are, and the token \
                             is presented as `Authorization: Bearer TOKEN`\n";
        const PROXY: &str = "call through the proxy that authenticates (--trusted-user-header)\n";
        let unauthorized = |error, text: String| {
            let head = [(WWW_AUTHENTICATE, challenge.header(error))];
            (StatusCode::UNAUTHORIZED, head, text).into_response()
        };
        let present = match challenge.resource_metadata {
            Some(_) => OAUTH,
            None => FILE,
        };
        match self {
            Self::Missing { has_tokens: true } => {
                unauthorized(ChallengeError::Missing, present.to_owned())
            }
            Self::Missing { has_tokens: false } => {
                unauthorized(ChallengeError::Missing, PROXY.to_owned())
            }
            Self::InvalidToken => {
                let error = ChallengeError::InvalidToken("");
                unauthorized(error, present.to_owned())
            }
            Self::Ended => {
                let error = ChallengeError::InvalidToken("the token has expired or was revoked");
                unauthorized(error, present.to_owned())
            }
            Self::Token(error) => {
                let text = error.to_string();
                match error.status() {
                    StatusCode::UNAUTHORIZED => {
                        unauthorized(ChallengeError::InvalidToken(&text), format!("{text}\n"))
                    }
                    StatusCode::SERVICE_UNAVAILABLE => {
                        let head = [(RETRY_AFTER, "5")];
                        (StatusCode::SERVICE_UNAVAILABLE, head, format!("{text}\n")).into_response()
                    }
                    status => (status, format!("{text}\n")).into_response(),
                }
            }
            Self::HeadTooLarge { is_token: true } => {
                let text = format!(
                    "the token has more than {HEAD_BYTES_MAX} bytes, which no request can carry: have the \
                     issuer put fewer groups into it"
                );
                unauthorized(ChallengeError::InvalidToken(&text), format!("{text}\n"))
            }
            Self::HeadTooLarge { is_token: false } => {
                let text = format!("the headers have more than {HEAD_BYTES_MAX} bytes\n");
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text).into_response()
            }
            Self::OtherUser(other) => other.into_response(),
            Self::UserHeader(error) => {
                let status = match &error {
                    UserHeaderError::NotFromProxy { .. } | UserHeaderError::Mapping { .. } => {
                        StatusCode::FORBIDDEN
                    }
                    UserHeaderError::Invalid { .. } => StatusCode::BAD_REQUEST,
                };
                (status, format!("{error}\n")).into_response()
            }
        }
    }

    /// The reason, for metrics.
    pub(super) fn reason(&self) -> RequestRefusal {
        match self {
            Self::Missing { .. } => RequestRefusal::NoCredentials,
            Self::InvalidToken | Self::Ended => RequestRefusal::UnknownToken,
            Self::Token(error) => error.reason(),
            Self::HeadTooLarge { .. } => RequestRefusal::Malformed,
            Self::UserHeader(_) => RequestRefusal::ProxyHeader,
            Self::OtherUser(_) => RequestRefusal::OtherUser,
        }
    }

    /// Whose token it presents, if that was verified and is nobody who could be served.
    pub(super) fn identity(&self) -> Option<&str> {
        match self {
            Self::Token(BearerError::Token(error)) => error.identity(),
            Self::Token(BearerError::Review(_) | BearerError::NotReviewed | BearerError::Busy)
            | Self::Missing { .. }
            | Self::InvalidToken
            | Self::HeadTooLarge { .. }
            | Self::Ended
            | Self::UserHeader(_)
            | Self::OtherUser(_) => None,
        }
    }

    /// What an operator should read: what is not the fault of a client that has yet to log in.
    pub(super) fn for_log(&self) -> Option<String> {
        match self {
            Self::UserHeader(error) => Some(error.to_string()),
            Self::Token(error) => Some(error.to_string()),
            Self::HeadTooLarge { .. } => Some("a head of more bytes than are read".to_owned()),
            Self::Missing { .. } | Self::InvalidToken | Self::Ended | Self::OtherUser(_) => None,
        }
    }
}
