//! What two servers say to each other about one request, as bytes.
//!
//! The first byte says what it is. Numbers have eight bytes, the highest first.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The most bytes of content in one frame: far below the largest message of any server.
pub(super) const CHUNK_BYTES_MAX: usize = 128 * 1024;

/// Longest text of an error, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// One message about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// There is a request. Nothing of it is sent before it is accepted, so that one that was
    /// given up meanwhile is never done.
    Open,
    /// Send it.
    Accepted,
    /// A piece of the request, or of a part of the answer.
    Piece(Piece),
    /// The answer is complete. Its number is the one after that of the last piece.
    End { number: u64 },
    /// The answer broke off.
    Failed(String),
    /// This side is there.
    Alive {
        /// Number of the next piece that it sends.
        next: u64,
        /// How much it has taken of what it was sent.
        taken: u64,
    },
    /// Nobody waits for the answer any more.
    Cancel,
}

/// A piece of the request, or of a part of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first has 0, and there is no hole.
    pub(super) number: u64,
    /// Whether the request or the part ends with it.
    pub(super) is_last: bool,
    pub(super) bytes: Bytes,
}

const OPEN: u8 = 1;
const ACCEPTED: u8 = 2;
const PIECE: u8 = 3;
const END: u8 = 4;
const FAILED: u8 = 5;
const ALIVE: u8 = 6;
const CANCEL: u8 = 7;

// === impl Frame ===

impl Frame {
    pub(super) fn encode(&self) -> Bytes {
        let mut frame = BytesMut::new();
        match self {
            Self::Open => frame.put_u8(OPEN),
            Self::Accepted => frame.put_u8(ACCEPTED),
            Self::Piece(piece) => {
                frame.reserve(10 + piece.bytes.len());
                frame.put_u8(PIECE);
                frame.put_u64(piece.number);
                frame.put_u8(u8::from(piece.is_last));
                frame.put_slice(&piece.bytes);
            }
            Self::End { number } => {
                frame.put_u8(END);
                frame.put_u64(*number);
            }
            Self::Failed(text) => {
                frame.put_u8(FAILED);
                frame.put_slice(&text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
            }
            Self::Alive { next, taken } => {
                frame.put_u8(ALIVE);
                frame.put_u64(*next);
                frame.put_u64(*taken);
            }
            Self::Cancel => frame.put_u8(CANCEL),
        }
        frame.freeze()
    }

    /// None for what is no frame, such as one of a later version.
    pub(super) fn decode(mut bytes: Bytes) -> Option<Self> {
        let frame = match bytes.try_get_u8().ok()? {
            OPEN => Self::Open,
            ACCEPTED => Self::Accepted,
            PIECE => {
                let number = bytes.try_get_u64().ok()?;
                let is_last = match bytes.try_get_u8().ok()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                return Some(Self::Piece(Piece {
                    number,
                    is_last,
                    bytes,
                }));
            }
            END => Self::End {
                number: bytes.try_get_u64().ok()?,
            },
            FAILED => return Some(Self::Failed(String::from_utf8(bytes.to_vec()).ok()?)),
            ALIVE => Self::Alive {
                next: bytes.try_get_u64().ok()?,
                taken: bytes.try_get_u64().ok()?,
            },
            CANCEL => Self::Cancel,
            _ => return None,
        };
        bytes.is_empty().then_some(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let piece = |is_last, bytes| {
            Frame::Piece(Piece {
                number: u64::MAX,
                is_last,
                bytes,
            })
        };
        for frame in [
            Frame::Open,
            Frame::Accepted,
            piece(false, Bytes::new()),
            piece(true, Bytes::from_static(b"abc")),
            Frame::End { number: 7 },
            Frame::Failed("no".to_owned()),
            Frame::Alive { next: 1, taken: 2 },
            Frame::Cancel,
        ] {
            assert_eq!(Frame::decode(frame.encode()), Some(frame));
        }
        let long = Frame::Failed("ä".repeat(1000)).encode();
        assert!(matches!(Frame::decode(long), Some(Frame::Failed(text)) if text.len() == 1000));
    }

    proptest! {
        #[test]
        fn fuzz_what_is_no_frame_is_none(bytes: Vec<u8>) {
            let bytes = Bytes::from(bytes);
            if let Some(frame) = Frame::decode(bytes.clone()) {
                prop_assert!(bytes.len() > 1000 || frame.encode() == bytes);
            }
        }
    }
}
