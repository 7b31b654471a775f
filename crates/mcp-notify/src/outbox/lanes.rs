//! The queues of an outbox: plain data without locks and time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::{Gap, OutboxItem, OutboxLimits, PushOutcome};
use crate::notification::{CoalesceKey, Notification, Priority};

/// The capacity that a drained queue keeps. More is freed, so that a session that was
/// slow once does not stay large.
const IDLE_CAPACITY: usize = 32;

/// The lanes of both priorities, and the position of each pending key.
pub(super) struct Lanes {
    limits: OutboxLimits,
    critical: Lane,
    informational: Lane,
    keys: HashMap<CoalesceKey, Position, BuildHasherDefault<Prehashed>>,
}

/// The result of a push. `evicted` holds all notifications that it dropped, including
/// the pushed one if it was refused.
pub(super) struct Pushed {
    pub(super) outcome: PushOutcome,
    pub(super) evicted: Vec<Notification>,
}

/// The slots of one priority, in order. The sequence number of a slot is `first` plus
/// its index, modulo the width of the number, so that it stays valid while other slots
/// are added and removed.
struct Lane {
    priority: Priority,
    first: u64,
    slots: VecDeque<Slot>,
    items: usize,
    bytes: usize,
}

enum Slot {
    Item(Notification),
    Gap(u64),
    /// The notification moved to the other priority.
    Vacant,
}

/// An item that a reader took, and the priority of its lane: a key that was queued as
/// critical stays so, whatever the priority of its newest notification.
#[derive(Clone)]
pub(super) struct Taken {
    pub(super) item: OutboxItem,
    pub(super) priority: Priority,
}

/// The position of a notification.
#[derive(Clone, Copy)]
struct Position {
    priority: Priority,
    sequence: u64,
}

/// A hasher for keys that are hashed already.
#[derive(Default)]
struct Prehashed(u64);

// === impl Lanes ===

impl Lanes {
    pub(super) fn new(limits: OutboxLimits) -> Self {
        Self {
            limits,
            critical: Lane::new(Priority::Critical),
            informational: Lane::new(Priority::Informational),
            keys: HashMap::default(),
        }
    }

    pub(super) fn messages(&self) -> usize {
        self.critical.items + self.informational.items
    }

    pub(super) fn bytes(&self) -> usize {
        self.critical.bytes + self.informational.bytes
    }

    pub(super) fn slots(&self) -> usize {
        self.critical.slots.len() + self.informational.slots.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.critical.slots.capacity() + self.informational.slots.capacity() + self.keys.capacity()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots() == 0
    }

    pub(super) fn push(&mut self, notification: Notification) -> Pushed {
        if !self.has_room_for(&notification) {
            self.lane(notification.priority()).gap_back();
            return Pushed {
                outcome: PushOutcome::Refused,
                evicted: vec![notification],
            };
        }
        let (position, merged) = self.enqueue(notification);
        let mut evicted = Vec::new();
        self.enforce_limits(Some(position), &mut evicted);
        let outcome = if merged {
            PushOutcome::Merged {
                evicted: evicted.len(),
            }
        } else {
            PushOutcome::Queued {
                evicted: evicted.len(),
            }
        };
        Pushed { outcome, evicted }
    }

    /// Takes everything, critical first.
    pub(super) fn take(&mut self, into: &mut impl Extend<Taken>) {
        self.critical.drain(into);
        self.informational.drain(into);
        if self.keys.capacity() > IDLE_CAPACITY {
            self.keys = HashMap::default();
        } else {
            self.keys.clear();
        }
    }

    /// Puts back what was taken and not delivered, before all later notifications.
    /// Returns how many a newer one had replaced meanwhile, and those that no longer
    /// fit.
    pub(super) fn put_back(&mut self, items: VecDeque<Taken>) -> (u64, Vec<Notification>) {
        let mut merged = 0;
        for Taken { item, priority } in items.into_iter().rev() {
            match item {
                OutboxItem::Gap(gap) => self.lane(priority).gap_front(gap.dropped),
                OutboxItem::Notification(notification) => {
                    let key = notification.coalesce_key().cloned();
                    if key.as_ref().is_some_and(|key| self.keys.contains_key(key)) {
                        merged += 1;
                        continue;
                    }
                    let sequence = self.lane(priority).push_front(notification);
                    if let Some(key) = key {
                        self.keys.insert(key, Position { priority, sequence });
                    }
                }
            }
        }
        let mut evicted = Vec::new();
        self.enforce_limits(None, &mut evicted);
        (merged, evicted)
    }

    /// Whether the newcomer would fit if everything were evicted that may be evicted for
    /// it.
    fn has_room_for(&self, newcomer: &Notification) -> bool {
        let pending = newcomer.coalesce_key().and_then(|key| self.keys.get(key));
        let is_critical = pending.is_some_and(|at| at.priority == Priority::Critical);
        let (items, bytes) = match newcomer.priority() {
            Priority::Informational if !is_critical => (self.critical.items, self.critical.bytes),
            Priority::Critical | Priority::Informational => (0, 0),
        };
        items < self.limits.messages_max && bytes + newcomer.bytes_len() <= self.limits.bytes_max
    }

    /// Replaces the pending notification with the same key, or appends to the lane.
    /// Returns the position, and whether one was replaced.
    fn enqueue(&mut self, notification: Notification) -> (Position, bool) {
        let priority = notification.priority();
        let Some(key) = notification.coalesce_key() else {
            let sequence = self.lane(priority).push_back(notification);
            return (Position { priority, sequence }, false);
        };
        match self.keys.get(key).copied() {
            // A key that is pending as critical keeps its position: its update must
            // not fall behind later critical notifications.
            Some(at) if at.priority == priority || at.priority == Priority::Critical => {
                self.lane(at.priority).replace(at.sequence, notification);
                (at, true)
            }
            pending => {
                if let Some(at) = pending {
                    self.lane(at.priority).vacate(at.sequence);
                }
                let key = key.clone();
                let sequence = self.lane(priority).push_back(notification);
                let position = Position { priority, sequence };
                self.keys.insert(key, position);
                (position, pending.is_some())
            }
        }
    }

    /// Evicts until the limits hold. The newcomer is never evicted, even if it replaced
    /// the oldest notification and is larger: that it fits was checked before.
    fn enforce_limits(&mut self, newcomer: Option<Position>, evicted: &mut Vec<Notification>) {
        let mut newcomer = newcomer;
        while self.messages() > self.limits.messages_max || self.bytes() > self.limits.bytes_max {
            let Some(oldest) = self
                .evict_oldest(Priority::Informational, &mut newcomer)
                .or_else(|| self.evict_oldest(Priority::Critical, &mut newcomer))
            else {
                return;
            };
            if let Some(key) = oldest.coalesce_key() {
                self.keys.remove(key);
            }
            evicted.push(oldest);
        }
    }

    /// Evicts the oldest notification of a lane other than the newcomer. If the newcomer
    /// precedes it, its position changes.
    fn evict_oldest(
        &mut self,
        priority: Priority,
        newcomer: &mut Option<Position>,
    ) -> Option<Notification> {
        let kept = newcomer.filter(|at| at.priority == priority);
        let lane = self.lane(priority);
        let (evicted, moved) = lane.evict_oldest(kept.map(|at| at.sequence))?;
        if let Some(sequence) = moved {
            let key = match lane.slot(sequence) {
                Slot::Item(notification) => notification.coalesce_key().cloned(),
                Slot::Gap(_) | Slot::Vacant => None,
            };
            let position = Position { priority, sequence };
            *newcomer = Some(position);
            if let Some(key) = key {
                self.keys.insert(key, position);
            }
        }
        Some(evicted)
    }

    fn lane(&mut self, priority: Priority) -> &mut Lane {
        match priority {
            Priority::Critical => &mut self.critical,
            Priority::Informational => &mut self.informational,
        }
    }
}

// === impl Lane ===

impl Lane {
    fn new(priority: Priority) -> Self {
        Self {
            priority,
            first: 0,
            slots: VecDeque::new(),
            items: 0,
            bytes: 0,
        }
    }

    fn push_back(&mut self, notification: Notification) -> u64 {
        self.items += 1;
        self.bytes += notification.bytes_len();
        self.slots.push_back(Slot::Item(notification));
        self.first.wrapping_add(self.slots.len() as u64 - 1)
    }

    fn push_front(&mut self, notification: Notification) -> u64 {
        self.items += 1;
        self.bytes += notification.bytes_len();
        self.push_front_slot(Slot::Item(notification));
        self.first
    }

    fn push_front_slot(&mut self, slot: Slot) {
        self.slots.push_front(slot);
        self.first = self.first.wrapping_sub(1);
    }

    fn pop_front_slot(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.first = self.first.wrapping_add(1);
        Some(slot)
    }

    fn slot(&mut self, sequence: u64) -> &mut Slot {
        let index = usize::try_from(sequence.wrapping_sub(self.first)).ok();
        index
            .and_then(|index| self.slots.get_mut(index))
            .expect("a pending key has its slot in the lane")
    }

    fn replace(&mut self, sequence: u64, newer: Notification) {
        let newer_bytes = newer.bytes_len();
        let older = std::mem::replace(self.slot(sequence), Slot::Item(newer));
        let Slot::Item(older) = older else {
            unreachable!("a key points to an item")
        };
        self.bytes = self.bytes - older.bytes_len() + newer_bytes;
    }

    fn vacate(&mut self, sequence: u64) {
        let older = std::mem::replace(self.slot(sequence), Slot::Vacant);
        let Slot::Item(older) = older else {
            unreachable!("a key points to an item")
        };
        self.items -= 1;
        self.bytes -= older.bytes_len();
        self.trim();
    }

    /// Removes vacant slots at both ends.
    fn trim(&mut self) {
        while matches!(self.slots.front(), Some(Slot::Vacant)) {
            self.pop_front_slot();
        }
        while matches!(self.slots.back(), Some(Slot::Vacant)) {
            self.slots.pop_back();
        }
    }

    fn gap_front(&mut self, dropped: u64) {
        match self.slots.front_mut() {
            Some(Slot::Gap(gap)) => *gap += dropped,
            _ => self.push_front_slot(Slot::Gap(dropped)),
        }
    }

    fn gap_back(&mut self) {
        match self.slots.back_mut() {
            Some(Slot::Gap(gap)) => *gap += 1,
            _ => self.slots.push_back(Slot::Gap(1)),
        }
    }

    /// Removes the oldest item other than `kept`, and leaves a gap in its place, merged
    /// with adjacent gaps. Also returns the new sequence number of the kept item, if it
    /// changed.
    fn evict_oldest(&mut self, kept: Option<u64>) -> Option<(Notification, Option<u64>)> {
        if self.items <= usize::from(kept.is_some()) {
            return None;
        }
        let mut passed: Option<(u64, Notification)> = None;
        let mut dropped = 0;
        let evicted = loop {
            let sequence = self.first;
            match self.pop_front_slot()? {
                Slot::Item(notification) if kept == Some(sequence) => {
                    passed = Some((std::mem::take(&mut dropped), notification));
                }
                Slot::Item(notification) => break notification,
                Slot::Gap(gap) => dropped += gap,
                Slot::Vacant => {}
            }
        };
        self.items -= 1;
        self.bytes -= evicted.bytes_len();
        self.trim();
        self.gap_front(dropped + 1);
        let Some((dropped_before, notification)) = passed else {
            return Some((evicted, None));
        };
        self.push_front_slot(Slot::Item(notification));
        let moved = self.first;
        if dropped_before > 0 {
            self.gap_front(dropped_before);
        }
        Some((evicted, Some(moved)))
    }

    fn drain(&mut self, into: &mut impl Extend<Taken>) {
        let priority = self.priority;
        into.extend(self.slots.drain(..).filter_map(|slot| {
            let item = match slot {
                Slot::Item(notification) => OutboxItem::Notification(notification),
                Slot::Gap(dropped) => OutboxItem::Gap(Gap { dropped, priority }),
                Slot::Vacant => return None,
            };
            Some(Taken { item, priority })
        }));
        self.slots.shrink_to(IDLE_CAPACITY);
        (self.items, self.bytes) = (0, 0);
    }
}

// === impl Taken ===

impl Taken {
    pub(super) fn is_notification(&self) -> bool {
        matches!(self.item, OutboxItem::Notification(_))
    }
}

// === impl Prehashed ===

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes its hash and nothing else")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
