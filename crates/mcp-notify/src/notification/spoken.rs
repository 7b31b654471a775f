//! The bytes of a notification that has most of them in common with others.
//!
//! ```text
//!  {"jsonrpc":"2.0",..."data":{"of":7   ,"seq":12      ,"event":{...}     }}}
//!  the opening: one for all             its own, and   the members: one for all
//!  messages of one speaker              short          who are told this
//! ```
//!
//! Of thousands of messages that wait or are remembered, each takes what is its own.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use smallvec::SmallVec;

use super::body::{Body, with_scratch, write_object};
use super::{About, EncodeError};
use crate::method::Method;

/// Members of a JSON object, serialised once for any number of messages; see
/// [`Voice::say`](crate::Voice::say). A clone is the same bytes.
#[derive(Clone, Debug, Default)]
pub struct SharedMembers {
    /// Each after a comma.
    text: Option<Arc<[u8]>>,
}

/// A frame up to the end of the object that is the last member of its parameters, and
/// what else many messages have in common.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(super) method: Method,
    pub(super) about: Option<About>,
    text: Box<[u8]>,
    params: usize,
}

#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) opening: Arc<Opening>,
    /// Each after a comma, but for the first of all; most are this short.
    own: SmallVec<[u8; 96]>,
    shared: SharedMembers,
    /// For those who want it in one piece.
    joined: OnceLock<Box<Bytes>>,
}

/// What closes that object, the parameters and the frame.
const CLOSING: &[u8] = b"}}}";

// === impl SharedMembers ===

impl SharedMembers {
    /// The members of that object.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be serialised, or is no object.
    pub fn new(object: &impl Serialize) -> Result<Self, EncodeError> {
        with_scratch(|text| {
            write_members(text, object)?;
            let text = (!text.is_empty()).then(|| Arc::from(&text[..]));
            Ok(Self { text })
        })
    }

    /// How many bytes there are.
    pub fn bytes_len(&self) -> usize {
        self.as_slice().len()
    }

    fn as_slice(&self) -> &[u8] {
        self.text.as_deref().unwrap_or_default()
    }
}

// === impl Opening ===

impl Opening {
    pub(super) fn new(method: Method, body: &Body) -> Result<Self, EncodeError> {
        // A string would end in a quote, a list in a bracket, and so on.
        let text = body.frame.strip_suffix(CLOSING);
        // What was kept as text may have spaces.
        let text = text.ok_or(EncodeError::NotAnObject)?.trim_ascii_end();
        Ok(Self {
            method,
            about: None,
            text: text.into(),
            params: body.params.start,
        })
    }

    pub(crate) fn set_about(&mut self, about: About) {
        self.about = Some(about);
    }

    fn has_members(&self) -> bool {
        !self.text.ends_with(b"{")
    }
}

// === impl Spoken ===

impl Spoken {
    pub(super) fn new(
        opening: &Arc<Opening>,
        own: &impl Serialize,
        shared: SharedMembers,
    ) -> Result<Self, EncodeError> {
        let own = with_scratch(|text| {
            write_members(text, own)?;
            let comma = usize::from(!text.is_empty() && !opening.has_members());
            Ok(SmallVec::from_slice(&text[comma..]))
        })?;
        Ok(Self {
            opening: Arc::clone(opening),
            own,
            shared,
            joined: OnceLock::new(),
        })
    }

    pub(super) fn pieces(&self) -> [&[u8]; 4] {
        let mut shared = self.shared.as_slice();
        if self.own.is_empty() && !self.opening.has_members() {
            shared = shared.strip_prefix(b",").unwrap_or_default();
        }
        [&self.opening.text, &self.own, shared, CLOSING]
    }

    pub(super) fn frame(&self) -> &Bytes {
        let join = || Box::new(self.pieces().concat().into());
        self.joined.get_or_init(join)
    }

    pub(super) fn params(&self) -> Bytes {
        let frame = self.frame();
        frame.slice(self.opening.params..frame.len() - 1)
    }
}

/// Appends the members of an object, each after a comma.
fn write_members(text: &mut Vec<u8>, object: &impl Serialize) -> Result<(), EncodeError> {
    let start = text.len();
    write_object(text, object)?;
    text.pop();
    text.truncate(text.trim_ascii_end().len());
    if text.len() == start + 1 {
        text.truncate(start);
    } else {
        text[start] = b',';
    }
    Ok(())
}
