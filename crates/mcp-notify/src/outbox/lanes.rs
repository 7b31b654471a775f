//! The queues of an outbox: pure data, no lock and no time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::{Gap, Item, OutboxLimits, PushOutcome};
use crate::notification::{CoalesceKey, Notification, Tier};

/// What capacity a drained queue may keep. More is given back, so that a
/// session that was slow once does not stay large.
const IDLE_CAPACITY: usize = 32;

/// Both tiers, and where each key waits.
pub(super) struct Lanes {
    limits: OutboxLimits,
    critical: Lane,
    informational: Lane,
    keys: HashMap<CoalesceKey, Place, BuildHasherDefault<Prehashed>>,
}

/// What a push did. `evicted` holds everything dropped by it, the newcomer
/// included if it was refused.
pub(super) struct Pushed {
    pub(super) outcome: PushOutcome,
    pub(super) evicted: Vec<Notification>,
}

/// Slots in order. A slot's sequence number is `first` plus its index, modulo
/// the width of the number, so it stays valid while others come and go.
struct Lane {
    tier: Tier,
    first: u64,
    slots: VecDeque<Slot>,
    items: usize,
    bytes: usize,
}

enum Slot {
    Item(Notification),
    Gap(u64),
    /// Its notification moved to the other tier.
    Vacant,
}

/// What a reader took, and the lane it came from: a key that waited as critical
/// did so whatever the tier of its newest notification.
#[derive(Clone)]
pub(super) struct Taken {
    pub(super) item: Item,
    pub(super) tier: Tier,
}

#[derive(Clone, Copy)]
struct Place {
    tier: Tier,
    sequence: u64,
}

/// Keys bring their own hash.
#[derive(Default)]
struct Prehashed(u64);

// === impl Lanes ===

impl Lanes {
    pub(super) fn new(limits: OutboxLimits) -> Self {
        Self {
            limits,
            critical: Lane::new(Tier::Critical),
            informational: Lane::new(Tier::Informational),
            keys: HashMap::default(),
        }
    }

    pub(super) fn messages(&self) -> usize {
        self.critical.items + self.informational.items
    }

    pub(super) fn bytes(&self) -> usize {
        self.critical.bytes + self.informational.bytes
    }

    /// Whether half of what may wait does.
    pub(super) fn half_full(&self) -> bool {
        let limits = self.limits;
        self.messages() * 2 >= limits.messages_max || self.bytes() * 2 >= limits.bytes_max
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
            self.lane(notification.tier()).gap_back();
            return Pushed {
                outcome: PushOutcome::Refused,
                evicted: vec![notification],
            };
        }
        let (place, merged) = self.place(notification);
        let mut evicted = Vec::new();
        self.enforce_limits(Some(place), &mut evicted);
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

    /// Everything that waits, critical first.
    pub(super) fn take(&mut self, into: &mut Vec<Taken>) {
        self.critical.drain(into);
        self.informational.drain(into);
        if self.keys.capacity() > IDLE_CAPACITY {
            self.keys = HashMap::default();
        } else {
            self.keys.clear();
        }
    }

    /// Puts back what was taken and not delivered, before everything that came
    /// since. Returns how many a newer one had replaced meanwhile, and what no
    /// longer fits.
    pub(super) fn put_back(&mut self, items: VecDeque<Taken>) -> (u64, Vec<Notification>) {
        let mut merged = 0;
        for Taken { item, tier } in items.into_iter().rev() {
            match item {
                Item::Gap(gap) => self.lane(tier).gap_front(gap.dropped),
                Item::Notification(notification) => {
                    let key = notification.coalesce_key().cloned();
                    if key.as_ref().is_some_and(|key| self.keys.contains_key(key)) {
                        merged += 1;
                        continue;
                    }
                    let sequence = self.lane(tier).push_front(notification);
                    if let Some(key) = key {
                        self.keys.insert(key, Place { tier, sequence });
                    }
                }
            }
        }
        let mut evicted = Vec::new();
        self.enforce_limits(None, &mut evicted);
        (merged, evicted)
    }

    /// Whether the newcomer could fit if everything went that may go for it.
    fn has_room_for(&self, newcomer: &Notification) -> bool {
        let waiting = newcomer.coalesce_key().and_then(|key| self.keys.get(key));
        let waits_as_critical = waiting.is_some_and(|place| place.tier == Tier::Critical);
        let (items, bytes) = match newcomer.tier() {
            Tier::Informational if !waits_as_critical => (self.critical.items, self.critical.bytes),
            Tier::Critical | Tier::Informational => (0, 0),
        };
        items < self.limits.messages_max && bytes + newcomer.bytes_len() <= self.limits.bytes_max
    }

    /// Replaces the one with the same key, or joins the end of its lane.
    /// Where it stands now, and whether it replaced one.
    fn place(&mut self, notification: Notification) -> (Place, bool) {
        let tier = notification.tier();
        let Some(key) = notification.coalesce_key() else {
            let sequence = self.lane(tier).push_back(notification);
            return (Place { tier, sequence }, false);
        };
        match self.keys.get(key).copied() {
            // A key that waits as critical stays so, or an older critical one
            // could be overtaken by nothing and a newer one by it.
            Some(place) if place.tier == tier || place.tier == Tier::Critical => {
                self.lane(place.tier).replace(place.sequence, notification);
                (place, true)
            }
            waiting => {
                if let Some(place) = waiting {
                    self.lane(place.tier).vacate(place.sequence);
                }
                let key = key.clone();
                let sequence = self.lane(tier).push_back(notification);
                let place = Place { tier, sequence };
                self.keys.insert(key, place);
                (place, waiting.is_some())
            }
        }
    }

    /// Evicts until the rest fits. The newcomer stays: it may stand in the
    /// oldest place and be larger than the one before it, and room for it was
    /// found before it was placed.
    fn enforce_limits(&mut self, newcomer: Option<Place>, evicted: &mut Vec<Notification>) {
        let mut newcomer = newcomer;
        while self.messages() > self.limits.messages_max || self.bytes() > self.limits.bytes_max {
            let Some(oldest) = self
                .evict_oldest(Tier::Informational, &mut newcomer)
                .or_else(|| self.evict_oldest(Tier::Critical, &mut newcomer))
            else {
                return;
            };
            if let Some(key) = oldest.coalesce_key() {
                self.keys.remove(key);
            }
            evicted.push(oldest);
        }
    }

    /// Evicts the oldest of a lane other than the newcomer. If the newcomer
    /// stands before that, its place moves.
    fn evict_oldest(&mut self, tier: Tier, newcomer: &mut Option<Place>) -> Option<Notification> {
        let kept = newcomer.filter(|place| place.tier == tier);
        let lane = self.lane(tier);
        let (evicted, moved) = lane.evict_oldest(kept.map(|place| place.sequence))?;
        if let Some(sequence) = moved {
            let key = match lane.slot(sequence) {
                Slot::Item(notification) => notification.coalesce_key().cloned(),
                Slot::Gap(_) | Slot::Vacant => None,
            };
            let place = Place { tier, sequence };
            *newcomer = Some(place);
            if let Some(key) = key {
                self.keys.insert(key, place);
            }
        }
        Some(evicted)
    }

    fn lane(&mut self, tier: Tier) -> &mut Lane {
        match tier {
            Tier::Critical => &mut self.critical,
            Tier::Informational => &mut self.informational,
        }
    }
}

// === impl Lane ===

impl Lane {
    fn new(tier: Tier) -> Self {
        Self {
            tier,
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
            .expect("a key that waits has its slot in the lane")
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

    /// A hole at either end needs no slot.
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

    /// Removes the oldest item, the one at `kept` excepted, and leaves a gap in
    /// its place, joined with the gaps beside it. Also says where the kept one
    /// stands now, if it had to move.
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

    fn drain(&mut self, into: &mut Vec<Taken>) {
        let tier = self.tier;
        into.extend(self.slots.drain(..).filter_map(|slot| {
            let item = match slot {
                Slot::Item(notification) => Item::Notification(notification),
                Slot::Gap(dropped) => Item::Gap(Gap { dropped, tier }),
                Slot::Vacant => return None,
            };
            Some(Taken { item, tier })
        }));
        self.slots.shrink_to(IDLE_CAPACITY);
        (self.items, self.bytes) = (0, 0);
    }
}

// === impl Taken ===

impl Taken {
    pub(super) fn is_notification(&self) -> bool {
        matches!(self.item, Item::Notification(_))
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
