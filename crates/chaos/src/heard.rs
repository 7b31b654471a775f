//! What one subscriber got, in the order in which it came.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use jiff::Timestamp;
use serde::Serialize;

use crate::{clock::Clock, creating::number_of, wire::Entry};

/// A pause between two new events that is remembered.
const PAUSE_MIN: u32 = 300;

/// Texts of errors that are told apart.
const ERRORS_MAX: usize = 20;

/// What a subscriber got, and what went wrong.
pub(crate) struct Heard {
    clock: Clock,
    /// By the number of the event.
    first: Vec<Option<First>>,
    /// The numbers of new events, in the order in which they came.
    pub(crate) order: Vec<u32>,
    pub(crate) doubles: u64,
    /// Doubles with another `eventId` than the first.
    pub(crate) renamed: Vec<u32>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) trouble: Trouble,
    /// The subscription that was ended at the end.
    pub(crate) ended: Option<String>,
    last_new: u32,
    /// How many different events came, for who waits for all of them.
    distinct: Arc<AtomicU32>,
}

/// The first time that an event came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) at: u32,
    /// Of the `eventId`.
    pub(crate) id: u64,
}

/// The announcement that something is missing.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Gap {
    /// What happened from here on may be missing,
    pub(crate) since: u32,
    /// and up to here, where it was announced.
    pub(crate) at: u32,
    pub(crate) detail: String,
}

/// A time without a new event.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Pause {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// What a subscriber had to do besides listening.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trouble {
    /// When a session was not found.
    pub(crate) not_found: Vec<u32>,
    /// When it began from nothing again, because there was no other way.
    pub(crate) started_over: Vec<u32>,
    /// Streams that ended, or broke off.
    pub(crate) ended: u32,
    /// Streams and requests without a sign of life.
    pub(crate) silent: u32,
    /// Requests that were refused, or not answered, by what was said.
    pub(crate) errors: BTreeMap<String, u32>,
}

// === impl Heard ===

impl Heard {
    pub(crate) fn new(clock: Clock, distinct: Arc<AtomicU32>) -> Self {
        Self {
            clock,
            first: Vec::new(),
            order: Vec::new(),
            doubles: 0,
            renamed: Vec::new(),
            gaps: Vec::new(),
            pauses: Vec::new(),
            trouble: Trouble::default(),
            ended: None,
            last_new: 0,
            distinct,
        }
    }

    /// Takes what came.
    pub(crate) fn entry(&mut self, entry: &Entry<'_>) {
        if let Some(gap) = &entry.gap {
            let since = gap
                .since
                .map(|since: Timestamp| self.clock.millis_of(since));
            let detail = gap.detail.as_deref().unwrap_or_default();
            self.gap(since, detail);
        }
        if let Some(event) = &entry.event
            && let Some(number) = number_of(&event.message)
        {
            self.event(number, entry.event_id.as_deref().unwrap_or_default());
        }
    }

    fn event(&mut self, number: u32, id: &str) {
        let (now, id) = (self.clock.now(), hash(id));
        let index = number as usize;
        if self.first.len() <= index {
            self.first.resize(index + 1, None);
        }
        if let Some(first) = self.first[index] {
            self.doubles += 1;
            if first.id != id {
                self.renamed.push(number);
            }
            return;
        }
        self.first[index] = Some(First { at: now, id });
        self.order.push(number);
        let (from, to) = (self.last_new, now);
        if to - from >= PAUSE_MIN && self.order.len() > 1 {
            self.pauses.push(Pause { from, to });
        }
        self.last_new = now;
        self.distinct.fetch_add(1, Ordering::Relaxed);
    }

    /// Something may be missing, from a time on or from the last event on.
    pub(crate) fn gap(&mut self, since: Option<u32>, detail: &str) {
        self.gaps.push(Gap {
            since: since.unwrap_or(self.last_new),
            at: self.clock.now(),
            detail: detail.chars().take(200).collect(),
        });
    }

    pub(crate) fn first(&self, number: u32) -> Option<First> {
        self.first.get(number as usize).copied().flatten()
    }

    /// Notes a request that was refused or not answered.
    pub(crate) fn error(&mut self, said: &str) {
        let said: String = said.chars().take(160).collect();
        let errors = &mut self.trouble.errors;
        if errors.len() < ERRORS_MAX || errors.contains_key(&said) {
            *errors.entry(said).or_default() += 1;
        }
    }

    pub(crate) fn not_found(&mut self) {
        self.trouble.not_found.push(self.clock.now());
    }

    pub(crate) fn started_over(&mut self) {
        self.trouble.started_over.push(self.clock.now());
    }
}

/// The number that an `eventId` is compared by.
pub(crate) fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
