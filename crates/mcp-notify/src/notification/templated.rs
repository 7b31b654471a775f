//! The bytes of a notification that was rendered from a template.
//!
//! ```text
//!  {"jsonrpc":"2.0",..."data":{"cart":7   ,"seq":12          ,"price":5          }}}
//!  prefix: shared by all messages of      own members:       shared members: one
//!  one template                           short, per message copy for all templates
//! ```
//!
//! Thousands of pending or replayable messages take memory for their own members only.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use smallvec::SmallVec;

use super::body::{Body, with_scratch, write_object};
use super::mark::PackedMark;
use super::{EncodeError, ResourceRef};
use crate::gate::Gate;
use crate::method::Method;

/// Members of a JSON object, serialised once for any number of messages; see
/// [`MessageTemplate::render`](crate::MessageTemplate::render). Clones share the bytes.
#[derive(Clone, Debug, Default)]
pub struct SharedMembers {
    /// Each member follows a comma.
    text: Option<Arc<[u8]>>,
}

/// What the messages of one template have in common: a frame up to the end of the
/// object that is its last parameter, and the metadata.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    pub(super) method: Method,
    pub(super) resource: Option<ResourceRef>,
    text: Box<[u8]>,
    params: usize,
}

pub(super) struct Templated {
    pub(super) prefix: Arc<Prefix>,
    /// Each member follows a comma, except the first of the object. The inline size
    /// fits most messages.
    own: SmallVec<[u8; 96]>,
    shared: SharedMembers,
    pub(super) mark: PackedMark,
    pub(super) gate: Option<Arc<dyn Gate>>,
    /// The whole frame, joined on demand.
    joined: OnceLock<Box<Bytes>>,
}

/// Closes the object, the parameters and the frame.
const CLOSING: &[u8] = b"}}}";

// === impl SharedMembers ===

impl SharedMembers {
    /// Serialises the members of `object`.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be serialised or is not an object.
    pub fn new(object: &impl Serialize) -> Result<Self, EncodeError> {
        with_scratch(|text| {
            write_members(text, object)?;
            let text = (!text.is_empty()).then(|| Arc::from(&text[..]));
            Ok(Self { text })
        })
    }

    /// The size in bytes.
    pub fn bytes_len(&self) -> usize {
        self.as_slice().len()
    }

    /// The members as JSON, each after a comma.
    pub fn as_slice(&self) -> &[u8] {
        self.text.as_deref().unwrap_or_default()
    }
}

// === impl Prefix ===

impl Prefix {
    pub(super) fn new(method: Method, body: &Body) -> Result<Self, EncodeError> {
        // Only an object as the last parameter makes a frame end in three braces.
        let text = body.frame.strip_suffix(CLOSING);
        // A raw JSON value may contain spaces.
        let text = text.ok_or(EncodeError::NotAnObject)?.trim_ascii_end();
        Ok(Self {
            method,
            resource: None,
            text: text.into(),
            params: body.params.start,
        })
    }

    pub(crate) fn set_resource(&mut self, resource: ResourceRef) {
        self.resource = Some(resource);
    }

    fn has_members(&self) -> bool {
        !self.text.ends_with(b"{")
    }
}

// === impl Templated ===

impl Templated {
    pub(super) fn new(
        prefix: &Arc<Prefix>,
        own: &impl Serialize,
        shared: SharedMembers,
    ) -> Result<Self, EncodeError> {
        let own = with_scratch(|text| {
            write_members(text, own)?;
            let comma = usize::from(!text.is_empty() && !prefix.has_members());
            Ok(SmallVec::from_slice(&text[comma..]))
        })?;
        Ok(Self {
            prefix: Arc::clone(prefix),
            own,
            shared,
            mark: PackedMark::default(),
            gate: None,
            joined: OnceLock::new(),
        })
    }

    pub(super) fn pieces(&self) -> [&[u8]; 4] {
        let mut shared = self.shared.as_slice();
        if self.own.is_empty() && !self.prefix.has_members() {
            shared = shared.strip_prefix(b",").unwrap_or_default();
        }
        [&self.prefix.text, &self.own, shared, CLOSING]
    }

    pub(super) fn frame(&self) -> &Bytes {
        let join = || Box::new(self.pieces().concat().into());
        self.joined.get_or_init(join)
    }

    pub(super) fn params(&self) -> Bytes {
        let frame = self.frame();
        frame.slice(self.prefix.params..frame.len() - 1)
    }
}

/// Appends the members of an object, each preceded by a comma.
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
