//! The ids of the events on a session's stream.
//!
//! Where sessions are kept, an id is a cursor: besides the number of the event it has the position
//! in every feed of the session up to which everything was sent, so that a server that has the
//! record of the session and the history goes on after it. Elsewhere it is the number alone.
//!
//! ```text
//!  17                     the seventeenth event of the stream, in this process
//!  17.<base64url>         the same, with: stream, then for each feed its number and four numbers
//! ```

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, BytesMut};
use kubecrier_core::varint;
use mcp_notify::Mark;

/// Feeds of which an id has the position: more than a session has at a time.
const MARKS_MAX: usize = 64;

/// By how much the text of a position grows from one event to the next, at most: each of its
/// numbers may take a byte more.
const POSITION_GROWTH: usize = 8;

/// Longest text that can be an id.
const TEXT_BYTES_MAX: usize = 4096;

/// An id that a client has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamId {
    /// The number of the event.
    pub(super) number: u64,
    /// Where sessions are kept: the stream that the number is of, and the positions.
    pub(super) at: Option<StreamPosition>,
}

/// What everything was sent up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    /// A number of the session in one process: events of another process have other numbers.
    pub(super) stream: u32,
    /// The last position in each feed.
    pub(crate) marks: Vec<Mark>,
}

/// Writes ids.
#[derive(Debug, Default)]
pub(super) struct StreamIds {
    at: Option<StreamPosition>,
    /// For the bytes of an id: this runs per delivery.
    bytes: Vec<u8>,
}

// === impl StreamIds ===

impl StreamIds {
    /// Ids that are cursors.
    pub(super) fn resumable(at: StreamPosition) -> Self {
        Self {
            at: Some(at),
            ..Self::default()
        }
    }

    /// The number of the stream, if ids are cursors.
    pub(super) fn stream(&self) -> Option<u32> {
        self.at.as_ref().map(|at| at.stream)
    }

    /// The bytes that the position in the next id will take, about: those of the last one, and
    /// a few more for numbers that grow. A chunk that has room for all its ids is never copied.
    pub(super) fn position_bytes(&self) -> usize {
        match &self.at {
            Some(_) => 1 + self.bytes.len().div_ceil(3) * 4 + POSITION_GROWTH,
            None => 0,
        }
    }

    /// Writes the id of an event, which advances the feed of its mark.
    pub(super) fn write(&mut self, chunk: &mut BytesMut, number: u64, mark: Option<Mark>) {
        let mut digits = [0; 20];
        chunk.put_slice(decimal(number, &mut digits));
        let Some(at) = &mut self.at else {
            return;
        };
        if let Some(mark) = mark {
            at.advance(mark);
        }
        self.bytes.clear();
        at.write(&mut self.bytes);
        let length = base64::encoded_len(self.bytes.len(), false).unwrap_or_default();
        chunk.put_u8(b'.');
        let begin = chunk.len();
        chunk.resize(begin + length, 0);
        // The chunk has the room that it needs.
        let _written = URL_SAFE_NO_PAD.encode_slice(&self.bytes, &mut chunk[begin..]);
    }

    /// The ids of what is written again to a client that has seen an id. Of a stream of another
    /// process the positions hold for this one as well, in feeds that it has sent nothing of.
    pub(super) fn after(&mut self, seen: &StreamId) -> Self {
        let Some(at) = &mut self.at else {
            return Self::default();
        };
        let marks = match &seen.at {
            Some(seen) => {
                let is_new = |mark: &&Mark| !at.marks.iter().any(|one| one.feed == mark.feed);
                if seen.stream != at.stream {
                    let new: Vec<_> = seen.marks.iter().filter(is_new).copied().collect();
                    at.marks.extend(new);
                }
                seen.marks.clone()
            }
            None => Vec::new(),
        };
        let stream = at.stream;
        Self::resumable(StreamPosition { stream, marks })
    }

    /// Forgets the positions in feeds that have ended.
    pub(super) fn retain(&mut self, is_alive: impl Fn(u32) -> bool) {
        if let Some(at) = &mut self.at {
            at.marks.retain(|mark| is_alive(mark.feed));
        }
    }
}

// === impl StreamPosition ===

impl StreamPosition {
    fn advance(&mut self, mark: Mark) {
        if let Some(one) = self.marks.iter_mut().find(|one| one.feed == mark.feed) {
            *one = mark;
        } else if self.marks.len() < MARKS_MAX {
            self.marks.push(mark);
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        let mut encoded = [0; varint::BYTES_MAX];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        for Mark { feed, position } in &self.marks {
            bytes.extend_from_slice(&feed.to_be_bytes());
            for number in position {
                bytes.extend_from_slice(varint::encode(*number, &mut encoded));
            }
        }
    }

    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut marks = Vec::new();
        let stream = take_u32(&mut bytes)?;
        while !bytes.is_empty() {
            let feed = take_u32(&mut bytes)?;
            let mut position = [0; 4];
            for number in &mut position {
                *number = varint::take(&mut bytes)?;
            }
            let is_new = !marks.iter().any(|mark: &Mark| mark.feed == feed);
            if !is_new || marks.len() == MARKS_MAX {
                return None;
            }
            marks.push(Mark { feed, position });
        }
        Some(Self { stream, marks })
    }
}

// === impl StreamId ===

impl StreamId {
    /// Reads an id; `None` if the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (number, at) = match text.split_once('.') {
            None => (text, None),
            Some((number, encoded)) => {
                let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
                (number, Some(StreamPosition::parse(&bytes)?))
            }
        };
        // Digits and nothing else: `parse` alone would take a sign.
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| number.parse().ok()).flatten()?;
        Some(Self { number, at })
    }

    /// The number of the last event that the client has of a stream: none, if the id is of the
    /// stream of another process.
    pub(super) fn number_in(&self, stream: Option<u32>) -> u64 {
        match (&self.at, stream) {
            (Some(at), Some(stream)) if at.stream != stream => 0,
            _ => self.number,
        }
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_be_bytes(*number))
}

/// A number's digits, without the formatting machinery: this runs per delivery.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(ids: &mut StreamIds, number: u64, mark: Option<Mark>) -> String {
        let mut chunk = BytesMut::new();
        ids.write(&mut chunk, number, mark);
        String::from_utf8(chunk.to_vec()).unwrap()
    }

    fn mark(feed: u32, seq: u64) -> Mark {
        Mark {
            feed,
            position: [seq, seq * 10, 1_800_000_000_000, 0],
        }
    }

    #[test]
    fn an_id_has_the_last_position_of_every_feed() {
        let mut ids = StreamIds::resumable(StreamPosition {
            stream: 7,
            marks: Vec::new(),
        });
        for (number, mark) in (1..).zip([mark(1, 1), mark(2, 1), mark(1, 2)]) {
            drop(text(&mut ids, number, Some(mark)));
        }
        let id = StreamId::parse(&text(&mut ids, 4, None)).unwrap();
        assert_eq!((id.number_in(Some(7)), id.number_in(Some(8))), (4, 0));
        assert_eq!(id.at.unwrap().marks, [mark(1, 2), mark(2, 1)]);
        ids.retain(|feed| feed == 2);
        let id = StreamId::parse(&text(&mut ids, 5, None)).unwrap();
        assert_eq!(id.at.unwrap().marks, [mark(2, 1)]);
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for number in [0, 7, 10, 99, 12_345, u64::MAX] {
            let mut digits = [0; 20];
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }

    #[test]
    fn an_id_is_a_number_where_sessions_are_not_kept() {
        let mut ids = StreamIds::default();
        assert_eq!(text(&mut ids, 17, Some(mark(1, 1))), "17");
        let id = StreamId::parse("17").unwrap();
        assert_eq!((id.number_in(None), id.at), (17, None));
        for wrong in ["", "+1", "-1", "1.", "x", "1.!", "1.AAAA", "1.AAAAAAA"] {
            assert_eq!(StreamId::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn an_id_is_read_as_it_was_written(
            number: u64, stream: u32, marks in prop::collection::btree_map(any::<u32>(), any::<[u64; 4]>(), 0..20),
        ) {
            let marks = marks.into_iter().map(|(feed, position)| Mark { feed, position });
            let at = StreamPosition { stream, marks: marks.collect() };
            let mut ids = StreamIds::resumable(at.clone());
            let written = text(&mut ids, number, None);
            prop_assert_eq!(StreamId::parse(&written), Some(StreamId { number, at: Some(at) }));
        }

        #[test]
        fn fuzz_stream_ids(text in "[0-9]{0,3}\\.?[0-9a-zA-Z_-]{0,90}|.{0,100}") {
            drop(StreamId::parse(&text));
        }
    }
}
