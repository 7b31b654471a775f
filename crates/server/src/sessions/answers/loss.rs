//! Why there is no answer any more, in the words for who resumes it.

use std::fmt;

use kubecrier_core::shares::LimitReached;

/// Why an answer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sessions) enum LossReason {
    /// It was written to a connection that had just shown life.
    Written,
    /// It was parked for as long as it may be.
    Expired,
    /// The client has cancelled the request.
    Cancelled,
    /// There was no room to park it.
    NoRoom(LimitReached),
}

// === impl LossReason ===

impl LossReason {
    /// Its name in metrics and in the data of the error.
    pub(in crate::sessions) fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::NoRoom(_) => "no_room",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written => f.write_str(
                "the answer was written at once to the connection that asked for it, and is not kept",
            ),
            Self::Expired => f.write_str(
                "the answer was kept for as long as --parked-answer-timeout says, and is gone",
            ),
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::NoRoom(reached) => write!(f, "the answer could not be kept: {reached}"),
        }
    }
}
