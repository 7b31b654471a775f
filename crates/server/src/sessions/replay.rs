//! The last messages of a stream, for a client that reconnects.

use std::collections::VecDeque;

use bytes::Bytes;
use mcp_notify::Notification;

/// Enough for a moment without network; a client that was away for longer gets the
/// number of messages it missed.
const MESSAGES_MAX: usize = 256;
const BYTES_MAX: usize = 512 * 1024;

/// The last messages of a session's stream by id. Their content is shared with other
/// sessions.
#[derive(Debug)]
pub(super) struct Replay {
    next_id: u64,
    /// Their ids are the last ones before the next.
    sent: VecDeque<SentMessage>,
    bytes: usize,
}

/// A message that was sent.
#[derive(Debug)]
pub(super) enum SentMessage {
    /// A notification; to keep it as it is allocates nothing.
    Notification(Notification),
    /// A request of the server.
    Request(Bytes),
}

/// The messages after an id that the client has seen.
#[derive(Debug)]
pub(super) struct MissedMessages<'a> {
    /// No longer there.
    pub(super) lost: u64,
    /// Still there.
    pub(super) messages: Vec<(u64, &'a SentMessage)>,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            next_id: 1,
            sent: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl Replay {
    /// An id that was never used, for a message that is being sent now.
    pub(super) fn record(&mut self, message: impl Into<SentMessage>) -> u64 {
        let message = message.into();
        let id = self.next_id;
        self.next_id += 1;
        self.bytes += message.len();
        self.sent.push_back(message);
        while self.sent.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.sent.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
        id
    }

    /// Everything after an id, which the client has. An id that was never given
    /// out has nothing after it.
    pub(super) fn after(&self, seen: u64) -> MissedMessages<'_> {
        let oldest = self.next_id - self.sent.len() as u64;
        let messages = (oldest..).zip(&self.sent).filter(|(id, _)| *id > seen);
        MissedMessages {
            lost: oldest.saturating_sub(seen.saturating_add(1)),
            messages: messages.collect(),
        }
    }
}

// === impl SentMessage ===

impl SentMessage {
    /// The frame; what has none was never sent.
    pub(super) fn pieces(&self) -> [&[u8]; 4] {
        match self {
            Self::Notification(notification) => notification.pieces().unwrap_or_default(),
            Self::Request(frame) => [frame, &[], &[], &[]],
        }
    }

    fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }
}

impl From<Notification> for SentMessage {
    fn from(notification: Notification) -> Self {
        Self::Notification(notification)
    }
}

impl From<Bytes> for SentMessage {
    fn from(frame: Bytes) -> Self {
        Self::Request(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(size: usize) -> Bytes {
        Bytes::from(vec![b'x'; size])
    }

    #[test]
    fn what_was_seen_is_not_sent_again() {
        let mut replay = Replay::default();
        let ids: Vec<_> = (0..5).map(|_| replay.record(frame(1))).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        let missed = replay.after(3);
        assert_eq!(missed.lost, 0);
        let ids: Vec<_> = missed.messages.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [4, 5]);
        for seen in [5, u64::MAX] {
            let missed = replay.after(seen);
            assert_eq!((missed.lost, missed.messages.len()), (0, 0));
        }
    }

    proptest! {
        #[test]
        fn lost_and_kept_are_everything_after_the_last_seen(
            sizes in prop::collection::vec(0..4000_usize, 0..600), seen in 0..700_u64,
        ) {
            let mut replay = Replay::default();
            for size in &sizes {
                replay.record(frame(*size));
            }
            let missed = replay.after(seen);
            let expected = (sizes.len() as u64).saturating_sub(seen);
            prop_assert_eq!(missed.lost + missed.messages.len() as u64, expected);
            prop_assert!(missed.messages.len() <= MESSAGES_MAX);
            prop_assert!(missed.messages.iter().map(|(_, sent)| sent.len()).sum::<usize>() <= BYTES_MAX);
            let last = missed.messages.last().map_or(sizes.len() as u64, |(id, _)| *id);
            prop_assert!(missed.messages.is_empty() || last == sizes.len() as u64);
        }
    }
}
