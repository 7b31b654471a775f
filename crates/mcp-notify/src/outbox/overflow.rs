//! The log records of an overflow. One stalled reader can lose thousands of
//! notifications, and a record for each would bury the log. So an overflow is an
//! episode: a record when it begins, one a minute while it lasts, and the sum when the
//! reader has caught up.

use std::time::Duration;

use tokio::time::Instant;

use crate::failure::DroppedRecord;
use crate::notification::Notification;

/// The time between two records of an episode.
const RECORD_INTERVAL: Duration = Duration::from_mins(1);

/// An episode lasts at least this long, so that a reader that catches up and falls
/// behind again every second has one episode and not thousands.
const EPISODE_MIN: Duration = Duration::from_secs(10);

/// One episode: from the first drop until the reader has caught up.
pub(super) struct Overflow {
    began: Instant,
    recorded: Instant,
    dropped: u64,
    /// The newest dropped notification about a resource, else the newest of all.
    example: Notification,
}

/// Why an episode ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpisodeEnd {
    /// The reader has taken everything.
    CaughtUp,
    /// The outbox was closed.
    Closed,
}

impl Overflow {
    /// Adds what was dropped to the episode, which begins if there is none. Returns the
    /// record that is due, if one is.
    pub(super) fn on_dropped(
        episode: &mut Option<Self>,
        dropped: &[Notification],
    ) -> Option<DroppedRecord> {
        let newest = dropped.last()?;
        let about_resource = dropped.iter().rev().find(|one| one.resource().is_some());
        let now = Instant::now();
        let count = dropped.len() as u64;
        let Some(current) = episode else {
            let example = about_resource.unwrap_or(newest).clone();
            let record = DroppedRecord::new(&example, count, "the outbox is full");
            *episode = Some(Self {
                began: now,
                recorded: now,
                dropped: count,
                example,
            });
            return Some(record);
        };
        current.dropped += count;
        let about_resource_first = current.example.resource().is_none();
        if let Some(newer) = about_resource.or(about_resource_first.then_some(newest)) {
            current.example = newer.clone();
        }
        let became_error = about_resource_first && about_resource.is_some();
        if !became_error && now.duration_since(current.recorded) < RECORD_INTERVAL {
            return None;
        }
        current.recorded = now;
        Some(current.record("the outbox is full"))
    }

    /// Ends the episode, unless it has only just begun. Returns its last record.
    pub(super) fn on_end(episode: &mut Option<Self>, end: EpisodeEnd) -> Option<DroppedRecord> {
        let current = episode.as_ref()?;
        let why = match end {
            EpisodeEnd::CaughtUp if current.began.elapsed() < EPISODE_MIN => return None,
            EpisodeEnd::CaughtUp => "the outbox was full; its reader has caught up",
            EpisodeEnd::Closed => "the outbox was full until it was closed",
        };
        let record = current.record(why);
        *episode = None;
        Some(record)
    }

    fn record(&self, why: &'static str) -> DroppedRecord {
        DroppedRecord::new(&self.example, self.dropped, why)
    }
}

#[cfg(test)]
mod tests;
