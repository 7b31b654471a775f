//! The bytes of server-sent events.

use bytes::{BufMut, BytesMut};
use mcp_notify::{Mark, Notification};

use crate::sessions::stream_id::StreamIds;

/// The bytes around a message in an event, at most, without the position in its id.
pub(super) const EVENT_BYTES: usize = 40;

/// An event with an id.
pub(super) fn write_event(
    chunk: &mut BytesMut,
    ids: &mut StreamIds,
    id: u64,
    mark: Option<Mark>,
    pieces: &[&[u8]],
) {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    chunk.reserve(bytes + EVENT_BYTES + ids.position_bytes());
    chunk.put_slice(b"id: ");
    ids.write(chunk, id, mark);
    chunk.put_slice(b"\ndata: ");
    for piece in pieces {
        chunk.put_slice(piece);
    }
    chunk.put_slice(b"\n\n");
}

/// An event without an id: it is not to be sent again.
pub(super) fn write_plain(chunk: &mut BytesMut, notification: &Notification) {
    if let Ok(frame) = notification.frame() {
        chunk.put_slice(b"data: ");
        chunk.put_slice(frame);
        chunk.put_slice(b"\n\n");
    }
}
