//! The outbox against a model that is too simple to be wrong.

use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Push {
        critical: bool,
        key: Option<u8>,
        padding: usize,
    },
    PushAll(Vec<(bool, Option<u8>, usize)>),
    Take {
        deliver: usize,
        abandon: usize,
        meanwhile: Vec<(Option<u8>, usize)>,
    },
    TakeAll,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (any::<bool>(), proptest::option::of(0_u8..4), 0_usize..200).prop_map(
        |(critical, key, padding)| Step::Push {
            critical,
            key,
            padding,
        },
    );
    let meanwhile = proptest::collection::vec((proptest::option::of(0_u8..4), 0_usize..200), 0..6);
    let take =
        (0_usize..6, 0_usize..3, meanwhile).prop_map(|(deliver, abandon, meanwhile)| Step::Take {
            deliver,
            abandon,
            meanwhile,
        });
    let one = (any::<bool>(), proptest::option::of(0_u8..4), 0_usize..200);
    let all = proptest::collection::vec(one, 0..12).prop_map(Step::PushAll);
    let step = prop_oneof![12 => push, 2 => all, 2 => take, 1 => Just(Step::TakeAll), 1 => Just(Step::Close)];
    proptest::collection::vec(step, 0..120)
}

/// The pending notifications as a plain list: number, priority, key, bytes. Order within a priority
/// is the order of the list.
#[derive(Default)]
struct Model {
    waiting: Vec<Pending>,
    delivered: u64,
    merged: u64,
    dropped: u64,
    pushed: u64,
    closed: bool,
    announced: u64,
    /// Drops that must be announced: all but those of a close.
    unannounced: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u64,
    /// The priority of its lane: a key stays critical once it was.
    critical: bool,
    key: Option<u8>,
    bytes: usize,
}

const LIMITS: OutboxLimits = OutboxLimits {
    messages_max: 8,
    bytes_max: 1200,
};

impl Model {
    fn bytes(&self) -> usize {
        self.waiting.iter().map(|w| w.bytes).sum()
    }

    fn drop_one(&mut self) {
        self.dropped += 1;
        self.unannounced += 1;
    }

    /// The next notification, and its expected outcome.
    fn next(
        &mut self,
        critical: bool,
        key: Option<u8>,
        padding: usize,
    ) -> (Notification, PushOutcome) {
        let number = self.pushed;
        let pushed = notification(number, critical, key, padding);
        let outcome = self.push(Pending {
            number,
            critical,
            key,
            bytes: pushed.bytes_len(),
        });
        (pushed, outcome)
    }

    fn push(&mut self, newcomer: Pending) -> PushOutcome {
        self.pushed += 1;
        if self.closed {
            self.dropped += 1;
            return PushOutcome::Closed;
        }
        let older = self
            .waiting
            .iter()
            .position(|w| w.key.is_some() && w.key == newcomer.key);
        let lane = newcomer.critical || older.is_some_and(|at| self.waiting[at].critical);
        let fixed = |w: &&Pending| !lane && w.critical;
        let (items, bytes) = (
            self.waiting.iter().filter(fixed).count(),
            self.waiting
                .iter()
                .filter(fixed)
                .map(|w| w.bytes)
                .sum::<usize>(),
        );
        if items >= LIMITS.messages_max || bytes + newcomer.bytes > LIMITS.bytes_max {
            self.drop_one();
            return PushOutcome::Refused;
        }
        let newcomer = Pending {
            critical: lane,
            ..newcomer
        };
        match older {
            Some(at) if self.waiting[at].critical == lane => {
                self.waiting[at] = newcomer;
                self.merged += 1;
            }
            Some(at) => {
                self.waiting.remove(at);
                self.waiting.push(newcomer);
                self.merged += 1;
            }
            None => self.waiting.push(newcomer),
        }
        let evicted = self.enforce(Some(newcomer.number));
        match older {
            Some(_) => PushOutcome::Merged { evicted },
            None => PushOutcome::Queued { evicted },
        }
    }

    /// Drops the oldest except the newcomer, until the limits hold.
    fn enforce(&mut self, newcomer: Option<u64>) -> usize {
        let mut evicted = 0;
        while self.waiting.len() > LIMITS.messages_max || self.bytes() > LIMITS.bytes_max {
            let oldest_of = |critical: bool| {
                let mut waiting = self.waiting.iter();
                waiting.position(|w| w.critical == critical && Some(w.number) != newcomer)
            };
            let oldest = oldest_of(false).or_else(|| oldest_of(true)).unwrap();
            self.waiting.remove(oldest);
            self.drop_one();
            evicted += 1;
        }
        evicted
    }

    /// In the order a reader sees them.
    fn ordered(&self) -> Vec<Pending> {
        let (critical, informational): (Vec<_>, Vec<_>) =
            self.waiting.iter().copied().partition(|w| w.critical);
        critical.into_iter().chain(informational).collect()
    }
}

fn notification(number: u64, critical: bool, key: Option<u8>, padding: usize) -> Notification {
    let method = crate::Method::new("notifications/test/model").unwrap();
    let params = json!({ "number": number, "padding": "x".repeat(padding) });
    let mut builder = Notification::builder(method).params(&params);
    if let Some(key) = key {
        builder = builder.coalesce(&key.to_string());
    }
    if critical {
        builder.critical().build()
    } else {
        builder.build()
    }
}

fn number(notification: &Notification) -> u64 {
    let params = notification.params().unwrap().unwrap();
    serde_json::from_slice::<serde_json::Value>(&params).unwrap()["number"]
        .as_u64()
        .unwrap()
}

fn batch(outbox: &Outbox) -> Option<OutboxBatch> {
    match outbox
        .reader()
        .poll_next(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(Ok(batch)) => Some(batch),
        Poll::Ready(Err(_)) | Poll::Pending => None,
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let outbox = Outbox::new(OutboxConfig::default().limits(LIMITS));
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Push {
                critical,
                key,
                padding,
            } => push(&outbox, &mut model, critical, key, padding)?,
            Step::PushAll(all) => push_all(&outbox, &mut model, all)?,
            Step::Close => {
                outbox.close();
                model.closed = true;
                model.dropped += model.waiting.len() as u64;
                model.waiting.clear();
            }
            Step::TakeAll => take(&outbox, &mut model, usize::MAX, 0, Vec::new())?,
            Step::Take {
                deliver,
                abandon,
                meanwhile,
            } => {
                take(&outbox, &mut model, deliver, abandon, meanwhile)?;
            }
        }
        let stats = outbox.stats();
        prop_assert_eq!(
            stats.delivered + stats.merged + stats.dropped + stats.pending,
            stats.pushed
        );
        prop_assert_eq!(
            (stats.pushed, stats.delivered, stats.merged, stats.dropped),
            (model.pushed, model.delivered, model.merged, model.dropped)
        );
        prop_assert_eq!(stats.pending, model.waiting.len() as u64);
        prop_assert_eq!(stats.bytes, model.bytes());
        prop_assert!(stats.bytes <= LIMITS.bytes_max);
        prop_assert!(stats.pending <= LIMITS.messages_max as u64);
    }
    Ok(())
}

/// At once is the same as one after the other.
fn push_all(
    outbox: &Outbox,
    model: &mut Model,
    all: Vec<(bool, Option<u8>, usize)>,
) -> Result<(), TestCaseError> {
    let mut taken = 0;
    let mut notifications = Vec::new();
    for (critical, key, padding) in all {
        let (pushed, outcome) = model.next(critical, key, padding);
        taken += usize::from(outcome.into_result().is_ok());
        notifications.push(pushed);
    }
    prop_assert_eq!(outbox.push_all(notifications), taken);
    Ok(())
}

fn push(
    outbox: &Outbox,
    model: &mut Model,
    critical: bool,
    key: Option<u8>,
    padding: usize,
) -> Result<(), TestCaseError> {
    let (pushed, expected) = model.next(critical, key, padding);
    prop_assert_eq!(outbox.push(pushed), expected);
    Ok(())
}

fn take(
    outbox: &Outbox,
    model: &mut Model,
    deliver: usize,
    abandon: usize,
    meanwhile: Vec<(Option<u8>, usize)>,
) -> Result<(), TestCaseError> {
    let Some(mut batch) = batch(outbox) else {
        prop_assert!(model.waiting.is_empty());
        prop_assert!(model.closed || model.announced == model.unannounced);
        return Ok(());
    };
    let ordered = model.ordered();
    model.waiting.clear();
    let mut delivered = 0;
    while delivered < deliver {
        match batch.deliver() {
            None => break,
            Some(OutboxItem::Gap(gap)) => model.announced += gap.dropped,
            Some(OutboxItem::Notification(got)) => {
                prop_assert_eq!(number(&got), ordered[delivered].number);
                delivered += 1;
            }
        }
    }
    model.delivered += delivered as u64;
    let mut gone = delivered;
    for _ in 0..abandon {
        // Skips gaps: abandoning one loses its announcement, which is not modelled.
        while matches!(batch.front(), Some(OutboxItem::Gap(_))) {
            if let Some(OutboxItem::Gap(gap)) = batch.deliver() {
                model.announced += gap.dropped;
            }
        }
        if batch.abandon().is_some() {
            model.drop_one();
            gone += 1;
        }
    }
    for (key, padding) in meanwhile {
        let critical = key.is_some_and(|key| key % 2 == 0);
        push(outbox, model, critical, key, padding)?;
    }
    let emptied =
        batch.is_empty() && model.waiting.is_empty() && model.unannounced == model.announced;
    drop(batch);
    for left in ordered.into_iter().skip(gone).rev() {
        if left.key.is_some() && model.waiting.iter().any(|w| w.key == left.key) {
            model.merged += 1;
        } else {
            model.waiting.insert(0, left);
        }
    }
    model.enforce(None);
    prop_assert!(
        deliver < usize::MAX || emptied,
        "taking all announces every drop"
    );
    Ok(())
}

proptest! {
    #[test]
    fn delivered_and_merged_and_dropped_and_pending_are_all_that_was_pushed(steps in steps()) {
        // A key belongs to one priority here; moving between priorities has its own test.
        let steps = steps.into_iter().map(|step| match step {
            Step::Push { key: Some(key), padding, .. } => {
                Step::Push { critical: key % 2 == 0, key: Some(key), padding }
            }
            other => other,
        });
        run(steps.collect())?;
    }

    #[test]
    fn the_account_adds_up_when_keys_change_their_tier(steps in steps()) {
        run(steps)?;
    }
}
