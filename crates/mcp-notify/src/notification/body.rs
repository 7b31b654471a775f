//! The bytes of a notification: its own, and those it shares with others.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;

use super::EncodeError;
use crate::method::Method;

/// Members of a JSON object, serialised once for any number of messages that have
/// other members beside them; see [`LogMessage::shared`](crate::LogMessage::shared).
/// A clone is the same bytes.
#[derive(Clone, Debug, Default)]
pub struct SharedMembers {
    /// Each after a comma.
    text: Bytes,
}

#[derive(Debug)]
pub(super) struct Body {
    /// A frame that is whole without the shared members.
    own: Bytes,
    params: Range<usize>,
    shared: Option<Shared>,
}

/// Members that belong somewhere into the frame.
#[derive(Debug)]
struct Shared {
    at: usize,
    members: Bytes,
    /// For those who want it in one piece.
    joined: OnceLock<Bytes>,
}

/// A frame up to the end of the object that is the last member of its parameters.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    text: Bytes,
    params: usize,
}

/// What closes that object, the parameters and the frame.
const CLOSING: &[u8] = b"}}}";

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":""#;
const PARAMS: &[u8] = br#"","params":"#;

/// What the next notification of this thread may be written into is kept up to this.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// Taken while it is used: parameters that build a notification while they are
    /// serialised find an empty one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

// === impl SharedMembers ===

impl SharedMembers {
    /// The members of that object.
    ///
    /// # Errors
    /// [`EncodeError`] if it cannot be serialised, or is no object.
    pub fn new(object: &impl Serialize) -> Result<Self, EncodeError> {
        let mut text = Vec::new();
        write_object(&mut text, object)?;
        text.pop();
        if text.len() == 1 {
            return Ok(Self::default());
        }
        text[0] = b',';
        Ok(Self { text: text.into() })
    }

    /// How many bytes there are.
    pub fn bytes_len(&self) -> usize {
        self.text.len()
    }
}

// === impl Body ===

impl Body {
    pub(super) fn without_params(method: &Method) -> Self {
        let frame = [HEAD, method.as_str().as_bytes(), b"\"}"].concat();
        Self {
            own: frame.into(),
            params: 0..0,
            shared: None,
        }
    }

    /// Copied once its length is known: one allocation, of just the size.
    pub(super) fn with_params(
        method: &Method,
        params: &impl Serialize,
    ) -> Result<Self, EncodeError> {
        with_scratch(|text| {
            text.extend_from_slice(HEAD);
            text.extend_from_slice(method.as_str().as_bytes());
            text.extend_from_slice(PARAMS);
            let start = text.len();
            write_object(text, params)?;
            let params = start..text.len();
            text.push(b'}');
            Ok(Self {
                own: Bytes::copy_from_slice(text),
                params,
                shared: None,
            })
        })
    }

    /// The same, with more members in the object that is the last member of the
    /// parameters.
    pub(super) fn with_shared(mut self, members: SharedMembers) -> Result<Self, EncodeError> {
        let at = self.end_of_last_object()?;
        if members.text.is_empty() {
            return Ok(self);
        }
        let first = self.own[at - 1] == b'{';
        self.shared = Some(Shared {
            at,
            members: members.text.slice(usize::from(first)..),
            joined: OnceLock::new(),
        });
        Ok(self)
    }

    /// What it has in common with those that have more members there.
    pub(super) fn opening(&self) -> Result<Opening, EncodeError> {
        let end = self.end_of_last_object()?;
        Ok(Opening {
            text: self.own.slice(..end),
            params: self.params.start,
        })
    }

    fn end_of_last_object(&self) -> Result<usize, EncodeError> {
        // A string would end in a quote, a list in a bracket, and so on.
        match self.own.strip_suffix(CLOSING) {
            Some(before) if self.params.start < before.len() => Ok(before.len()),
            _ => Err(EncodeError::NotAnObject),
        }
    }

    pub(super) fn frame(&self) -> &Bytes {
        let Some(shared) = &self.shared else {
            return &self.own;
        };
        (shared.joined).get_or_init(|| self.pieces().concat().into())
    }

    pub(super) fn pieces(&self) -> [&[u8]; 3] {
        match &self.shared {
            None => [&self.own, &[], &[]],
            Some(shared) => {
                let (before, after) = self.own.split_at(shared.at);
                [before, &shared.members, after]
            }
        }
    }

    pub(super) fn params(&self) -> Option<Bytes> {
        let Range { start, end } = self.params;
        let end = end + (self.shared.as_ref()).map_or(0, |shared| shared.members.len());
        (start < end).then(|| self.frame().slice(start..end))
    }

    pub(super) fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }
}

// === impl Opening ===

impl Opening {
    /// The frame with these members after those that are there.
    pub(super) fn followed_by(&self, members: &impl Serialize) -> Result<Body, EncodeError> {
        with_scratch(|text| {
            text.extend_from_slice(&self.text);
            let at = text.len();
            write_object(text, members)?;
            text.pop();
            match (text.len() == at + 1, text[at - 1] == b'{') {
                // None of them: their brace goes.
                (true, _) => text.truncate(at),
                (false, false) => text[at] = b',',
                // They are the first, in that brace.
                (false, true) => drop(text.remove(at)),
            }
            text.extend_from_slice(CLOSING);
            Ok(Body {
                own: Bytes::copy_from_slice(text),
                params: self.params..text.len() - 1,
                shared: None,
            })
        })
    }
}

/// Writes into a buffer that is used again and again.
fn with_scratch<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut text = SCRATCH.take();
    text.clear();
    let written = write(&mut text);
    if text.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(text);
    }
    written
}

/// Appends an object, on one line.
fn write_object(text: &mut Vec<u8>, object: &impl Serialize) -> Result<(), EncodeError> {
    let start = text.len();
    let written = serde_json::to_writer(&mut *text, object);
    written.map_err(|error| EncodeError::Json(Arc::new(error)))?;
    if text.get(start) != Some(&b'{') {
        return Err(EncodeError::NotAnObject);
    }
    // JSON that was kept as text may have line ends, and none of them inside a string:
    // a frame is one line.
    let mut next = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[next..]) {
        next += found;
        text[next] = b' ';
    }
    Ok(())
}
