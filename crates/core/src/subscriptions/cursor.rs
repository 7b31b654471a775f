//! Cursors: where a reader of a feed goes on. Their text is opaque to clients.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mcp_notify::Mark;
use smallvec::SmallVec;
use thiserror::Error;

use super::ledger::SubscriptionId;
use crate::{Event, varint};

/// What the text of a cursor that can be resumed begins with.
const PREFIX: &str = "c1.";

/// Position in the feed of one subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Subscription of the feed.
    pub subscription: SubscriptionId,
    /// Sequence number of the last entry that was read.
    pub seq: u64,
    /// Where to go on without the feed, if there is a history.
    pub resume: Option<ResumePoint>,
}

/// Where a reader goes on when the feed is gone: after a restart, or on another server. It means
/// the same wherever the history of the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// resourceVersion up to which everything was delivered.
    pub version: u64,
    /// When that was, in milliseconds since 1970.
    pub time: i64,
    /// Position in the log of the cluster, for a reader that is still behind; else 0.
    pub position: u64,
    /// Whose it is: a keyed hash of the caller, the context and the filters.
    pub tag: ResumeTag,
}

/// A keyed hash of the caller, the context and the filters of a subscription.
pub type ResumeTag = [u8; 8];

/// Why a text is not a cursor of this feed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CursorError {
    /// Not a cursor.
    #[error("`{0}` is no cursor: use one that an event or an earlier call gave you, or none")]
    Malformed(String),
    /// Cursor of another subscription.
    #[error("the cursor `{0}` is of another subscription: use one of this one, or none")]
    Foreign(Cursor),
    /// Cursor after the last entry.
    #[error("the cursor `{0}` is ahead of the last event, {1}: use one that was given, or none")]
    Ahead(Cursor, u64),
}

// === impl ResumePoint ===

impl ResumePoint {
    /// The position of an entry in the feed of a subscription, as its message carries it.
    pub fn mark(&self, subscription: &SubscriptionId, seq: u64) -> Mark {
        let time = u64::try_from(self.time).unwrap_or_default();
        Mark {
            feed: subscription.short(),
            position: [seq, self.version, time, self.position],
        }
    }

    /// The point after an event that follows, for a reader by versions.
    #[must_use]
    pub fn after(self, event: &Event) -> Self {
        let version = event.version.unwrap_or_default();
        if version <= self.version {
            return self;
        }
        Self {
            version,
            time: event.timestamp.as_millisecond(),
            position: 0,
            ..self
        }
    }

    /// The number of the entry and the point after it that a mark was made of, in a feed with
    /// that tag.
    pub fn from_mark(mark: &Mark, tag: ResumeTag) -> (u64, Self) {
        let [seq, version, time, position] = mark.position;
        let point = Self {
            version: version.min(NUMBER_MAX),
            time: i64::try_from(time.min(NUMBER_MAX)).unwrap_or_default(),
            position: position.min(NUMBER_MAX),
            tag,
        };
        (seq.min(NUMBER_MAX), point)
    }
}

// === impl Cursor ===

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resume {
            Some(point) => {
                f.write_str(ResumableText::new(&self.subscription, self.seq, point).as_str())
            }
            None => write!(f, "{}.{}", self.subscription, self.seq),
        }
    }
}

/// No number of ours is larger: so that what clients make up can be counted with.
pub(super) const NUMBER_MAX: u64 = u64::MAX / 4;

/// Bytes of a cursor that can be resumed, at most, and of its text.
const BYTES_MAX: usize = 16 + 8 + 4 * varint::BYTES_MAX;
const TEXT_MAX: usize = PREFIX.len() + BYTES_MAX.div_ceil(3) * 4;

/// The text of a cursor that can be resumed, in one piece and without an allocation: this runs
/// per delivery.
pub(super) struct ResumableText {
    text: [u8; TEXT_MAX],
    length: usize,
}

impl ResumableText {
    pub(super) fn new(subscription: &SubscriptionId, seq: u64, point: &ResumePoint) -> Self {
        let mut bytes = SmallVec::<[u8; BYTES_MAX]>::new();
        bytes.extend_from_slice(subscription.as_bytes());
        bytes.extend_from_slice(&point.tag);
        let time = u64::try_from(point.time).unwrap_or_default();
        let mut encoded = [0; varint::BYTES_MAX];
        for number in [seq, point.version, time, point.position] {
            bytes.extend_from_slice(varint::encode(number, &mut encoded));
        }
        let mut text = [0; TEXT_MAX];
        let (prefix, rest) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        // The buffer has the size that it can need.
        let length = URL_SAFE_NO_PAD.encode_slice(&bytes, rest);
        let length = PREFIX.len() + length.unwrap_or_default();
        Self { text, length }
    }

    pub(super) fn as_str(&self) -> &str {
        str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let parsed = match text.strip_prefix(PREFIX) {
            Some(encoded) => parse_resumable(encoded),
            None => parse_plain(text),
        };
        parsed.ok_or_else(|| CursorError::Malformed(text.chars().take(80).collect()))
    }
}

fn parse_plain(text: &str) -> Option<Cursor> {
    let (id, seq) = text.rsplit_once('.')?;
    let digits = !seq.is_empty() && seq.bytes().all(|b| b.is_ascii_digit());
    Some(Cursor {
        subscription: SubscriptionId::parse(id)?,
        seq: digits
            .then(|| seq.parse().ok())?
            .filter(|seq| *seq <= NUMBER_MAX)?,
        resume: None,
    })
}

fn parse_resumable(encoded: &str) -> Option<Cursor> {
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    let (id, rest) = bytes.split_first_chunk::<16>()?;
    let (tag, mut rest) = rest.split_first_chunk::<8>()?;
    let mut number = || varint::take(&mut rest).filter(|number| *number <= NUMBER_MAX);
    let (seq, version) = (number()?, number()?);
    let time = i64::try_from(number()?).ok()?;
    let position = number()?;
    rest.is_empty().then(|| Cursor {
        subscription: SubscriptionId::from_bytes(*id),
        seq,
        resume: Some(ResumePoint {
            version,
            time,
            position,
            tag: *tag,
        }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_is_read_as_it_was_written(
            (seq, version, position) in (0..=NUMBER_MAX, 0..=NUMBER_MAX, 0..=NUMBER_MAX),
            time in 0..i64::MAX / 2, tag: [u8; 8], resumable: bool,
        ) {
            let point = ResumePoint { version, time, position, tag };
            let cursor = Cursor {
                subscription: SubscriptionId::random(),
                seq,
                resume: resumable.then_some(point),
            };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
        }

        #[test]
        fn fuzz_cursors(text in "(c1\\.)?[0-9a-zA-Z_.+ -]{0,90}|.{0,100}") {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
            }
        }
    }
}
