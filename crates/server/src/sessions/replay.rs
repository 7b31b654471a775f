//! The last messages of a stream, for a client that reconnects.

use std::collections::VecDeque;

use bytes::Bytes;
use mcp_notify::{Admission, Mark, Notification};

/// Enough for a moment without network; a client that was away for longer gets the
/// number of messages it missed.
const MESSAGES_MAX: usize = 256;
const BYTES_MAX: usize = 512 * 1024;

/// Announcements of gaps that are no longer kept, and whose counts are. Beyond that the
/// oldest two are added up, so that a client that saw the first of them is announced too
/// many rather than too few.
const FORGOTTEN_GAPS_MAX: usize = 64;

/// The last messages of a session's stream by id. Their content is shared with other
/// sessions.
#[derive(Debug)]
pub(super) struct Replay {
    next_id: u64,
    /// Their ids are the last ones before the next.
    sent: VecDeque<SentMessage>,
    bytes: usize,
    /// Gaps among the messages that are no longer kept: an id, and the number of
    /// notifications that its gap announced.
    forgotten_gaps: VecDeque<(u64, u64)>,
}

/// A message that was sent. There are hundreds for each session: what is rare is in a box, so that
/// a notification takes two words.
#[derive(Debug)]
pub(super) enum SentMessage {
    /// A notification; to keep it as it is allocates nothing.
    Notification(Notification),
    /// A request of the server.
    Request(Box<Bytes>),
    /// The announcement that notifications are missing at this point.
    Gap(Box<SentGap>),
}

/// The announcement of a gap.
#[derive(Debug)]
pub(super) struct SentGap {
    notification: Notification,
    /// How many are missing.
    missing: u64,
}

/// The messages after an id that the client has seen.
#[derive(Debug)]
pub(super) struct MissedMessages<'a> {
    /// Number of notifications that are no longer there. A gap among them counts as what
    /// it announced.
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
            forgotten_gaps: VecDeque::new(),
        }
    }
}

impl Replay {
    /// An id that was never used, for a message that is being sent now.
    pub(super) fn record(&mut self, message: impl Into<SentMessage>) -> u64 {
        let message = message.into();
        let bytes = message.len();
        // Before it is added: a full queue does not grow, and its next place in memory is that of
        // the oldest.
        while self.sent.len() >= MESSAGES_MAX || self.bytes + bytes > BYTES_MAX {
            let oldest_id = self.next_id - self.sent.len() as u64;
            let Some(oldest) = self.sent.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            if let SentMessage::Gap(gap) = oldest {
                self.forget_gap(oldest_id, gap.missing);
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        if bytes > BYTES_MAX {
            // It is not kept, and counts as lost for whoever missed it.
            return id;
        }
        self.bytes += bytes;
        self.sent.push_back(message);
        id
    }

    fn forget_gap(&mut self, id: u64, missing: u64) {
        self.forgotten_gaps.push_back((id, missing));
        if self.forgotten_gaps.len() > FORGOTTEN_GAPS_MAX
            && let Some((_, oldest)) = self.forgotten_gaps.pop_front()
            && let Some((_, next)) = self.forgotten_gaps.front_mut()
        {
            // The announcement itself is no missing notification.
            *next = (*next + oldest).saturating_sub(1);
        }
    }

    /// The id that was used last; 0 if there was none.
    pub(super) fn last_id(&self) -> u64 {
        self.next_id - 1
    }

    /// Everything after an id, which the client has. An id that was never given
    /// out has nothing after it.
    pub(super) fn after(&self, seen: u64) -> MissedMessages<'_> {
        let oldest = self.next_id - self.sent.len() as u64;
        let messages = (oldest..).zip(&self.sent).filter(|(id, _)| *id > seen);
        let lost = oldest.saturating_sub(seen.saturating_add(1));
        let gaps = self.forgotten_gaps.iter().filter(|(id, _)| *id > seen);
        MissedMessages {
            // Each gap is one of the lost messages, and stands for those it announced.
            lost: gaps.fold(lost, |lost, (_, missing)| {
                (lost + missing).saturating_sub(1)
            }),
            messages: messages.collect(),
        }
    }
}

// === impl SentMessage ===

impl SentMessage {
    /// The announcement that so many are missing.
    pub(super) fn gap(notification: Notification, missing: u64) -> Self {
        Self::Gap(Box::new(SentGap {
            notification,
            missing,
        }))
    }

    /// The frame; what has none was never sent.
    pub(super) fn pieces(&self) -> [&[u8]; 5] {
        let notification = match self {
            Self::Notification(notification) => notification,
            Self::Gap(gap) => &gap.notification,
            Self::Request(frame) => return [frame, &[], &[], &[], &[]],
        };
        notification.pieces().unwrap_or_default()
    }

    /// Where it is in the feed that it comes from.
    pub(super) fn mark(&self) -> Option<Mark> {
        match self {
            Self::Notification(notification) => notification.mark(),
            Self::Request(_) | Self::Gap(_) => None,
        }
    }

    /// Whether the client may read it now.
    pub(super) fn admit(&self) -> Admission {
        match self {
            Self::Notification(notification) => notification.admit(),
            Self::Request(_) | Self::Gap(_) => Admission::Open,
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
        Self::Request(Box::new(frame))
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

    /// A message of that size, or a gap with that number of missing notifications.
    fn messages() -> impl Strategy<Value = Vec<Result<usize, u64>>> {
        let message =
            prop_oneof![9 => (0..4000_usize).prop_map(Ok), 1 => (1..500_u64).prop_map(Err)];
        prop::collection::vec(message, 0..900)
    }

    fn sent(message: &Result<usize, u64>) -> SentMessage {
        match *message {
            Ok(size) => frame(size).into(),
            Err(missing) => {
                let method = mcp_notify::CustomMethod::new("notifications/stream/gap").unwrap();
                let params = serde_json::json!({"missing": missing});
                SentMessage::gap(Notification::custom(method, &params), missing)
            }
        }
    }

    #[test]
    fn a_full_queue_takes_what_its_messages_take() {
        assert_eq!(size_of::<SentMessage>(), 2 * size_of::<usize>());
        let mut replay = Replay::default();
        for _ in 0..MESSAGES_MAX * 3 {
            replay.record(frame(1));
        }
        assert_eq!(replay.sent.capacity(), MESSAGES_MAX);
    }

    /// The notifications that a message stands for.
    fn weight(message: &SentMessage) -> u64 {
        match message {
            SentMessage::Gap(gap) => gap.missing,
            SentMessage::Notification(_) | SentMessage::Request(_) => 1,
        }
    }

    proptest! {
        #[test]
        fn lost_and_kept_are_everything_after_the_last_seen(
            messages in messages(), seen in 0..1000_u64,
        ) {
            let mut replay = Replay::default();
            for message in &messages {
                replay.record(sent(message));
            }
            let missed = replay.after(seen);
            let kept: u64 = missed.messages.iter().map(|(_, sent)| weight(sent)).sum();
            let after = messages.iter().skip(usize::try_from(seen).unwrap());
            let expected: u64 = after.map(|message| weight(&sent(message))).sum();
            let gaps = messages.iter().filter(|message| message.is_err()).count();
            if gaps <= FORGOTTEN_GAPS_MAX {
                prop_assert_eq!(missed.lost + kept, expected);
            } else {
                prop_assert!(missed.lost + kept >= expected);
            }
            prop_assert!(replay.forgotten_gaps.len() <= FORGOTTEN_GAPS_MAX);
            prop_assert!(missed.messages.len() <= MESSAGES_MAX);
            prop_assert!(missed.messages.iter().map(|(_, sent)| sent.len()).sum::<usize>() <= BYTES_MAX);
            let count = messages.len() as u64;
            let last = missed.messages.last().map_or(count, |(id, _)| *id);
            prop_assert!(missed.messages.is_empty() || last == count);
        }

        #[test]
        fn a_client_that_saw_nothing_is_announced_every_forgotten_notification(
            gaps in prop::collection::vec(1..500_u64, 0..600),
        ) {
            let mut replay = Replay::default();
            for missing in &gaps {
                replay.record(sent(&Err(*missing)));
            }
            let missed = replay.after(0);
            let kept: u64 = missed.messages.iter().map(|(_, sent)| weight(sent)).sum();
            prop_assert_eq!(missed.lost + kept, gaps.iter().sum::<u64>());
        }
    }
}
