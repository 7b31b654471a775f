//! Which failures are worth a retry, how they are counted, and whom they prune.

use std::error::Error;
use std::io;
use std::sync::Arc;

use crate::metrics::ErrorType;
use crate::sink::{BoxError, SendError};

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureClass {
    /// The label of the counter.
    pub error_type: ErrorType,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// Whether the session should stop being a target once this is given up:
    /// true when the connection is at fault, false when the payload is.
    pub prunes: bool,
}

impl SendError {
    /// What follows from this failure.
    pub fn class(&self) -> FailureClass {
        let (error_type, retryable, prunes) = match self {
            Self::Network(_) => (ErrorType::Network, true, true),
            Self::Deadline(_) | Self::Timeout(_) => (ErrorType::Timeout, true, true),
            // Retrying a session that is known to be gone helps nobody.
            Self::Closed => (ErrorType::Network, false, true),
            Self::Serialization(_) => (ErrorType::Serialization, false, false),
            Self::InvalidParams(_)
            | Self::Cancelled
            | Self::Full
            | Self::Panicked(_)
            | Self::Other(_) => (ErrorType::Other, false, false),
        };
        FailureClass {
            error_type,
            retryable,
            prunes,
        }
    }

    /// Sorts an error of a foreign library by what it *is*, never by its text.
    ///
    /// The error and its sources are looked at from the outside in; the first
    /// one that is known decides: [`std::io::Error`] by its kind,
    /// [`serde_json::Error`], tokio's `Elapsed` and `JoinError`, this crate's
    /// own errors, hyper's errors with the feature `hyper`, rmcp's with the
    /// feature `rmcp`. An error nobody knows is [`SendError::Other`] and is not
    /// retried.
    pub fn classify(error: impl Into<BoxError>) -> Self {
        let error: Arc<dyn Error + Send + Sync> = Arc::from(error.into());
        match Kind::of_chain(&*error) {
            Some(kind) => kind.with(error),
            None => Self::Other(error),
        }
    }
}

/// A recognised cause, before it is joined with the whole error.
pub(crate) enum Kind {
    Network,
    Timeout,
    Serialization,
    InvalidParams,
    Cancelled,
    Other,
    Known(SendError),
}

impl Kind {
    /// The first known cause, from the outside in.
    pub(crate) fn of_chain(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(current) = cause {
            if let Some(kind) = Self::of(current) {
                return Some(kind);
            }
            // `io::Error` hides the error it wraps from `source`.
            cause = match current.downcast_ref().and_then(io::Error::get_ref) {
                Some(wrapped) => Some(wrapped),
                None => current.source(),
            };
        }
        None
    }

    fn with(self, error: Arc<dyn Error + Send + Sync>) -> SendError {
        match self {
            Self::Network => SendError::Network(error),
            Self::Timeout => SendError::Timeout(error),
            Self::Serialization => SendError::Serialization(error),
            Self::InvalidParams => SendError::InvalidParams(error.to_string()),
            Self::Cancelled => SendError::Cancelled,
            Self::Other => SendError::Other(error),
            Self::Known(error) => error,
        }
    }

    /// `None`: not known, ask its source.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<SendError>() {
            return Some(Self::Known(error.clone()));
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Self::of_io(error);
        }
        if let Some(error) = error.downcast_ref::<serde_json::Error>() {
            // A writer that failed underneath serde_json is the writer's error.
            return Some(
                error
                    .io_error_kind()
                    .map_or(Self::Serialization, Self::of_io_kind),
            );
        }
        if error.is::<tokio::time::error::Elapsed>() {
            return Some(Self::Timeout);
        }
        if let Some(error) = error.downcast_ref::<tokio::task::JoinError>() {
            return Some(if error.is_cancelled() {
                Self::Cancelled
            } else {
                Self::Other
            });
        }
        #[cfg(feature = "hyper")]
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return Self::of_hyper(error);
        }
        #[cfg(feature = "rmcp")]
        if let Some(kind) = crate::rmcp::known(error) {
            return Some(kind);
        }
        None
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        match Self::of_io_kind(error.kind()) {
            // These say little; what the error wraps may say more.
            Self::Other | Self::InvalidParams if error.get_ref().is_some() => None,
            kind => Some(kind),
        }
    }

    fn of_io_kind(kind: io::ErrorKind) -> Self {
        use io::ErrorKind as K;
        match kind {
            K::TimedOut => Self::Timeout,
            K::ConnectionRefused
            | K::ConnectionReset
            | K::ConnectionAborted
            | K::NotConnected
            | K::BrokenPipe
            | K::HostUnreachable
            | K::NetworkUnreachable
            | K::NetworkDown
            | K::UnexpectedEof
            | K::WriteZero
            // The two a socket returns when asked at a bad moment: temporary.
            | K::Interrupted
            | K::WouldBlock => Self::Network,
            K::InvalidInput | K::InvalidData => Self::InvalidParams,
            _ => Self::Other,
        }
    }

    #[cfg(feature = "hyper")]
    fn of_hyper(error: &hyper::Error) -> Option<Self> {
        if error.is_timeout() {
            Some(Self::Timeout)
        } else if error.is_canceled() {
            Some(Self::Cancelled)
        } else if error.is_closed()
            || error.is_incomplete_message()
            || error.is_body_write_aborted()
            || error.is_shutdown()
        {
            Some(Self::Network)
        } else if error.is_user() || error.is_parse() {
            Some(Self::Other)
        } else {
            // An I/O error of the connection, with the io::Error as its source.
            None
        }
    }
}

#[cfg(test)]
mod tests;
