//! Classification of failures: whether to retry, how to count, whether to prune.

use std::error::Error;
use std::io;
use std::sync::Arc;

use crate::metrics::ErrorType;
use crate::sink::{BoxError, SendError};

/// The class of a failure: its consequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureClass {
    /// The label of the failure counter.
    pub error_type: ErrorType,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// Whether the session is pruned when the notification is abandoned: true if the
    /// connection is at fault, false if the payload is.
    pub prunes: bool,
}

impl SendError {
    /// The class of this failure.
    pub fn class(&self) -> FailureClass {
        let (error_type, retryable, prunes) = match self {
            Self::Network(_) => (ErrorType::Network, true, true),
            Self::Deadline(_) | Self::Timeout(_) => (ErrorType::Timeout, true, true),
            // A retry to a closed session cannot succeed.
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

    /// Classifies an error of another library by its type, never by its text.
    ///
    /// The error and its sources are inspected from the outermost inwards, and the
    /// first known type decides: [`std::io::Error`] by its kind,
    /// [`serde_json::Error`], tokio's `Elapsed` and `JoinError`, this crate's own
    /// errors, hyper's errors with the feature `hyper`, and rmcp's with the feature
    /// `rmcp`. An error of an unknown type is [`SendError::Other`] and is not retried.
    pub fn classify(error: impl Into<BoxError>) -> Self {
        let error: Arc<dyn Error + Send + Sync> = Arc::from(error.into());
        match Cause::of_chain(&*error) {
            Some(kind) => kind.with(error),
            None => Self::Other(error),
        }
    }
}

/// A recognised cause, to be combined with the whole error.
pub(crate) enum Cause {
    Network,
    Timeout,
    Serialization,
    InvalidParams,
    Cancelled,
    Other,
    Known(SendError),
}

impl Cause {
    /// The first known cause, from the outermost error inwards.
    pub(crate) fn of_chain(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(current) = cause {
            if let Some(kind) = Self::of(current) {
                return Some(kind);
            }
            // `io::Error::source` skips the error that is wrapped.
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

    /// `None` for an unknown type: its source may be known.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<SendError>() {
            return Some(Self::Known(error.clone()));
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Self::of_io(error);
        }
        if let Some(error) = error.downcast_ref::<serde_json::Error>() {
            // An I/O error inside of a serde_json error is the writer's.
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
        if let Some(kind) = crate::rmcp::cause_of(error) {
            return Some(kind);
        }
        None
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        match Self::of_io_kind(error.kind()) {
            // These kinds are unspecific; a wrapped error may be more specific.
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
            // Temporary conditions of a socket.
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
