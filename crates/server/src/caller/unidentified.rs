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
use crate::peer::OtherUser;

/// Why a request has no caller.
#[derive(Debug)]
pub(super) enum Unidentified {
    /// It presents nothing.
    Missing { has_tokens: bool },
    /// Its token is not known.
    InvalidToken,
    /// Its access token is not accepted.
    Token(BearerError),
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
            Self::UserHeader(_) => RequestRefusal::ProxyHeader,
            Self::OtherUser(_) => RequestRefusal::OtherUser,
        }
    }

    /// What an operator should read: what is not the fault of a client that has yet to log in.
    pub(super) fn for_log(&self) -> Option<String> {
        match self {
            Self::UserHeader(error) => Some(error.to_string()),
            Self::Token(error) => Some(error.to_string()),
            Self::Missing { .. } | Self::InvalidToken | Self::Ended | Self::OtherUser(_) => None,
        }
    }
}
