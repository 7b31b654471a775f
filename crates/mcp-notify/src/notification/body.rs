//! The bytes of a notification that is stored in one piece.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::EncodeError;
use crate::method::Method;

#[derive(Debug)]
pub(super) struct Body {
    pub(super) frame: Bytes,
    /// The range of the parameters in the frame; empty without parameters.
    pub(super) params: Range<usize>,
}

const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":""#;
const PARAMS: &[u8] = br#"","params":"#;

/// The largest scratch buffer that a thread keeps for its next notification.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// The scratch buffer, taken while it is in use: a `Serialize` that builds a
    /// notification of its own finds an empty one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

// === impl Body ===

impl Body {
    pub(super) fn without_params(method: &Method) -> Self {
        let frame = [HEAD, method.as_str().as_bytes(), b"\"}"].concat();
        Self {
            frame: frame.into(),
            params: 0..0,
        }
    }

    /// Serialises into the scratch buffer and copies the result: one allocation of
    /// exactly the size of the frame.
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
                frame: Bytes::copy_from_slice(text),
                params,
            })
        })
    }

    pub(super) fn params(&self) -> Option<Bytes> {
        (!self.params.is_empty()).then(|| self.frame.slice(self.params.clone()))
    }
}

/// Runs `write` with the thread's scratch buffer, which is empty.
pub(super) fn with_scratch<T>(write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut text = SCRATCH.take();
    text.clear();
    let written = write(&mut text);
    if text.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(text);
    }
    written
}

/// Appends the JSON of an object, on one line.
pub(super) fn write_object(text: &mut Vec<u8>, object: &impl Serialize) -> Result<(), EncodeError> {
    let start = text.len();
    let written = serde_json::to_writer(&mut *text, object);
    written.map_err(|error| EncodeError::Json(Arc::new(error)))?;
    if text.get(start) != Some(&b'{') {
        return Err(EncodeError::NotAnObject);
    }
    // A frame is one line. Raw JSON values may contain line ends, but never inside of a
    // string, so each can become a space.
    let mut next = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[next..]) {
        next += found;
        text[next] = b' ';
    }
    Ok(())
}
