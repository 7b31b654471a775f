//! The bytes of a notification that was rendered from a template.
//!
//! ```text
//!  {"jsonrpc":"2.0",..."data":{"cart":7   ,"seq":12          ,"price":5          }}}
//!  prefix: shared by all messages of      own members:       shared members: one
//!  one template                           short, per message copy for all templates
//! ```
//!
//! Thousands of pending or replayable messages take memory for their own members only.

use std::fmt;
use std::ops::Range;
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
#[derive(Clone, Default)]
pub struct SharedMembers {
    /// Each member follows a comma.
    text: Option<Arc<[u8]>>,
    /// From where to where the text is left out.
    left_out: (u32, u32),
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
            let left_out = (0, 0);
            Ok(Self { text, left_out })
        })
    }

    /// The same members without this part of their text, for receivers who may not see it. Both
    /// share the text. What is left has to be members, each after a comma. A part that reaches
    /// beyond the end ends there. What was left out before stays so, with all that is between.
    #[must_use]
    pub fn without(&self, part: Range<usize>) -> Self {
        if part.is_empty() {
            return self.clone();
        }
        let len = self.text.as_deref().unwrap_or_default().len();
        let bound = |at: usize| u32::try_from(at.min(len)).unwrap_or(u32::MAX);
        let (mut start, mut end) = (bound(part.start), bound(part.end));
        if self.left_out.0 < self.left_out.1 {
            start = start.min(self.left_out.0);
            end = end.max(self.left_out.1);
        }
        Self {
            text: self.text.clone(),
            left_out: (start, end),
        }
    }

    /// The size in bytes.
    pub fn bytes_len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// The members as JSON, each after a comma: what is before the part that is left out, and
    /// what is after it.
    pub fn pieces(&self) -> [&[u8]; 2] {
        let text = self.text.as_deref().unwrap_or_default();
        let (start, end) = self.left_out;
        [&text[..start as usize], &text[end as usize..]]
    }

    /// The members as one JSON object.
    pub fn to_object(&self) -> Vec<u8> {
        let mut object = Vec::with_capacity(self.bytes_len() + 2);
        object.push(b'{');
        for piece in without_comma(self.pieces()) {
            object.extend_from_slice(piece);
        }
        object.push(b'}');
        object
    }
}

impl fmt::Debug for SharedMembers {
    /// Without what is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.pieces().concat();
        f.debug_tuple("SharedMembers")
            .field(&String::from_utf8_lossy(&text))
            .finish()
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

    pub(super) fn pieces(&self) -> [&[u8]; 5] {
        let mut shared = self.shared.pieces();
        if self.own.is_empty() && !self.prefix.has_members() {
            shared = without_comma(shared);
        }
        let [before, after] = shared;
        [&self.prefix.text, &self.own, before, after, CLOSING]
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

/// Without the comma at the front.
fn without_comma([before, after]: [&[u8]; 2]) -> [&[u8]; 2] {
    let strip = |piece| <[u8]>::strip_prefix(piece, b",").unwrap_or(piece);
    if before.is_empty() {
        [before, strip(after)]
    } else {
        [strip(before), after]
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
