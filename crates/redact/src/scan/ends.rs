//! The ends of keys in a line.

use crate::work::examined;

/// Finds end markers of keys, and searches each stretch of text only once.
#[derive(Debug, Default)]
pub(super) enum EndMarkers {
    #[default]
    NotSearched,
    /// The first marker after the last requested offset.
    At(usize),
    NoMore,
}

// === impl EndMarkers ===

impl EndMarkers {
    /// The first marker from an offset on. The offsets have to grow from call to call.
    pub(super) fn after(&mut self, text: &str, from: usize) -> Option<usize> {
        match *self {
            Self::NoMore => return None,
            Self::At(at) if at >= from => return Some(at),
            Self::At(_) | Self::NotSearched => {}
        }
        let five = memchr::memmem::find(&text.as_bytes()[from..], b"-----END");
        let four = || memchr::memmem::find(&text.as_bytes()[from..], b"---- END");
        let found = five.or_else(four).map(|at| from + at);
        examined(found.unwrap_or(text.len()) - from);
        *self = found.map_or(Self::NoMore, Self::At);
        found
    }
}
