//! What the times in a state are worth.
//!
//! Three clocks write them: the API server's (`creationTimestamp`), those of kubelets and
//! controllers (conditions, starts and ends, events), and ours. They differ by seconds, rarely
//! by minutes. And a state may be a copy: objects that were restored from a backup or from a
//! recording are younger than what their status tells, and have other uids than those that
//! events and owner references name. So:
//!
//! - An object is as old as the oldest time that it tells of itself.
//! - A state of which most objects tell only of times before their creation is a copy. In a live
//!   cluster nothing happens to an object before it is created. In a copy neither the time of
//!   creation nor the uid of an object says anything.
//! - A copy that nobody keeps up to date, and a cluster whose nodes call themselves alive and
//!   have not said so for long, are pictures: their "now" is the newest time in them. A live
//!   cluster is never taken for one: its kubelets report at least every five minutes (up to
//!   seven and a half with jitter), and a node that falls silent is marked `Unknown` within a
//!   minute by the controller of nodes. And there the newest time is seconds old anyway.
//! - Times that are far in the future are of a broken clock, and count as none.

use jiff::{SignedDuration, Timestamp};

use crate::{
    event_log::bounds,
    objects::{Meta, Node, Object},
    state::State,
    store::{Entry, Store},
};

/// Clocks that differ by more are broken.
const SKEW_MAX: SignedDuration = SignedDuration::from_mins(5);

/// An object that tells of times so long before its creation is a copy.
const COPY_AGE: SignedDuration = SignedDuration::from_mins(2);

/// What is written a moment after an object is copied belongs to the copy.
const COPY_SLACK: SignedDuration = SignedDuration::from_mins(1);

/// A copy in which nothing happened for so long is a picture.
const COPY_QUIET: SignedDuration = SignedDuration::from_mins(2);

/// Nodes that have not been heard of for so long, and are called alive, are a picture.
const NODES_QUIET: SignedDuration = SignedDuration::from_mins(10);

/// A picture is taken a moment after the last thing that happened.
const TAKEN_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// The age of what tells no time at all.
const UNKNOWN_AGE: SignedDuration = SignedDuration::from_hours(24);

/// The time of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The time: that of the newest sign in a picture.
    pub now: Timestamp,
    /// Whether times of creation and uids are those of a copy.
    pub is_copy: bool,
    /// The oldest time that any object tells.
    oldest: Timestamp,
}

/// The times in the objects of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct KindTimes {
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    objects: usize,
    copies: usize,
}

// === impl Clock ===

impl Clock {
    /// Reads the times of a state.
    pub(crate) fn of(state: &State, now: Timestamp) -> Self {
        // Our own clock may be behind that of the API server.
        let created = [
            newest_creation(&state.pods),
            newest_creation(&state.nodes),
            newest_creation(&state.deployments),
            newest_creation(&state.replica_sets),
            newest_creation(&state.services),
            newest_creation(&state.jobs),
        ];
        let now = created
            .into_iter()
            .flatten()
            .max()
            .map_or(now, |one| one.max(now));
        let before = now.saturating_add(SKEW_MAX).unwrap_or(now);
        let nodes = KindTimes::of(&state.nodes, before);
        let pods = KindTimes::of(&state.pods, before);
        let kinds = [
            nodes,
            pods,
            KindTimes::of(&state.deployments, before),
            KindTimes::of(&state.replica_sets, before),
            KindTimes::of(&state.jobs, before),
            KindTimes::of(&state.autoscalers, before),
        ];
        // Nodes first: they are older than what runs on them.
        let decides = kinds.iter().find(|kind| kind.objects > 0);
        let is_copy = decides.is_some_and(|kind| kind.copies * 2 > kind.objects);
        let beats = state.nodes.iter().filter_map(|node| heartbeat(node));
        let beat = beats.filter(|beat| *beat <= before).max();
        let events = state.event_times(before);
        let newest = kinds.iter().filter_map(|kind| kind.newest);
        let newest = newest
            .chain(beat)
            .chain(events.map(|(_, newest)| newest))
            .max();
        let oldest = kinds.iter().filter_map(|kind| kind.oldest);
        let oldest = oldest.chain(events.map(|(oldest, _)| oldest)).min();
        let quiet = |time: Timestamp| now.duration_since(time);
        let are_alive = state.nodes.iter().any(|node| is_called_alive(node));
        let is_picture = newest.is_some_and(|newest| {
            let silent = are_alive && beat.is_some_and(|beat| quiet(beat) > NODES_QUIET);
            is_copy && quiet(newest) > COPY_QUIET || silent && quiet(newest) > NODES_QUIET
        });
        let taken = newest.and_then(|newest| newest.checked_add(TAKEN_AFTER).ok());
        let now = taken.filter(|_| is_picture).unwrap_or(now);
        let unknown = now.saturating_sub(UNKNOWN_AGE).unwrap_or(now);
        Self {
            now,
            is_copy,
            oldest: oldest.unwrap_or(unknown).min(now),
        }
    }

    /// Since when something is so, by the time that is told of it; otherwise since the object
    /// is there.
    pub(crate) fn since(
        &self,
        told: Option<Timestamp>,
        born: impl FnOnce() -> Timestamp,
    ) -> Timestamp {
        match told {
            Some(told) if self.is_sane(told) => told.min(self.now),
            _ => born(),
        }
    }

    /// Since when an object is there, by the oldest time that is told of it. What tells nothing
    /// in a copy is as old as the copy.
    pub(crate) fn born(&self, meta: &Meta, told: impl Iterator<Item = Timestamp>) -> Timestamp {
        let told = told.filter(|told| *told <= self.now).min();
        let created = meta.creation_timestamp.map(|time| time.min(self.now));
        match (told, created) {
            (Some(told), Some(created)) => told.min(created),
            (Some(told), None) => told,
            (None, Some(created)) if !self.is_copy => created,
            (None, _) => self.oldest,
        }
    }

    /// Whether a time can be: not far in the future.
    pub(crate) fn is_sane(&self, time: Timestamp) -> bool {
        time.duration_since(self.now) <= SKEW_MAX
    }

    /// Whether the uid of an object may be another than the one that others know it by.
    pub(crate) fn is_copied(&self, object: &impl Object) -> bool {
        self.is_copy || is_copy(object)
    }
}

// === impl KindTimes ===

impl KindTimes {
    fn of<T: Object>(store: &Store<T>, before: Timestamp) -> Self {
        let mut all = Self::default();
        for entry in store.entries() {
            let Some((oldest, newest)) = times_before(entry, before) else {
                continue;
            };
            all.oldest = Some(all.oldest.map_or(oldest, |one| one.min(oldest)));
            all.newest = all.newest.max(Some(newest));
            all.objects += 1;
            all.copies += usize::from(tells_of_copy(entry.created, entry.times));
        }
        all
    }
}

/// The oldest and the newest time that an object tells, of those that can be.
fn times_before<T: Object>(entry: &Entry<T>, before: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let (oldest, newest) = entry.times?;
    if newest <= before {
        return Some((oldest, newest));
    }
    bounds(entry.object.times().filter(|time| *time <= before))
}

/// Whether an object tells of times before its creation, and of none after it: one of a node
/// whose clock is behind tells of both.
fn is_copy(object: &impl Object) -> bool {
    tells_of_copy(object.meta().creation_timestamp, bounds(object.times()))
}

fn tells_of_copy(created: Option<Timestamp>, times: Option<(Timestamp, Timestamp)>) -> bool {
    created
        .zip(times)
        .is_some_and(|(created, (oldest, newest))| {
            created.duration_since(oldest) > COPY_AGE && newest.duration_since(created) < COPY_SLACK
        })
}

fn newest_creation<T: Object>(store: &Store<T>) -> Option<Timestamp> {
    store.entries().filter_map(|entry| entry.created).max()
}

/// When a node was last heard of.
fn heartbeat(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.conditions.iter();
    conditions.filter_map(|one| one.last_heartbeat_time).max()
}

/// Whether nobody noticed that a node fell silent.
fn is_called_alive(node: &Node) -> bool {
    let ready = node.condition("Ready");
    ready.is_some_and(|ready| ready.is_true() || ready.is_false())
}

#[cfg(test)]
mod tests;
