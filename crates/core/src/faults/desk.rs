//! From a warning to a report: faults wait here for their evidence, each pod's in the
//! order in which they came, and never on the task that watches.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::Arc,
};

use parking_lot::Mutex;

use super::{board::Board, captures::Captured, report::Report};
use crate::Event;
use kubecrier_lifecycle::Lifecycle;

/// Faults that wait; beyond that they go out without evidence, and say so.
const WAITING_MAX: usize = 2000;

/// Gets the evidence of a fault, within its deadline.
pub trait Investigator: Send + Sync + 'static {
    /// What can be found out.
    fn investigate<'a>(&'a self, cluster: &'a str, event: &'a Event) -> Investigation<'a>;

    /// What is said when there is no place for one more.
    fn throttled(&self, cluster: &str, event: &Event) -> Captured;

    /// Whether one more would be throttled now.
    fn is_saturated(&self, cluster: &str) -> bool;

    /// Lets go of what has been remembered for long enough.
    fn forget_old(&self);
}

/// An investigation under way.
pub type Investigation<'a> = Pin<Box<dyn Future<Output = Captured> + Send + 'a>>;

/// Who wants to be told.
pub type Told = Box<dyn FnOnce(&Arc<Event>, &Arc<Report>) + Send>;

/// Where faults wait. A clone is the same.
#[derive(Clone)]
pub struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    investigator: Arc<dyn Investigator>,
    board: Board,
    lifecycle: Lifecycle,
    // A lock because faults come from many watches; held for queue operations.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    pods: HashMap<Pod, VecDeque<Case>>,
    count: usize,
}

type Pod = (String, String, String);

/// One fault, and everybody who wants it.
struct Case {
    event: Arc<Event>,
    told: Vec<Told>,
}

// === impl Desk ===

impl Desk {
    /// Nothing waits yet.
    pub fn new(investigator: Arc<dyn Investigator>, lifecycle: Lifecycle) -> Self {
        Self {
            inner: Arc::new(Inner {
                investigator,
                board: Board::default(),
                lifecycle,
                waiting: Mutex::default(),
            }),
        }
    }

    /// What is known of faults so far.
    pub fn board(&self) -> &Board {
        &self.inner.board
    }

    /// Whether evidence is short now.
    pub fn is_saturated(&self, cluster: &str) -> bool {
        self.inner.investigator.is_saturated(cluster)
    }

    /// Lets go of evidence that nobody would be given any more. Without it the last
    /// burst would stay in memory until the next one.
    pub fn forget_old(&self) {
        self.inner.investigator.forget_old();
    }

    /// Looks into a fault now, for somebody who waits for it.
    pub async fn look_into(&self, cluster: &str, event: &Arc<Event>) -> Arc<Report> {
        self.inner.report(cluster, event).await
    }

    /// Tells when there is evidence. Never waits.
    pub fn file(&self, cluster: &str, event: &Arc<Event>, told: Told) {
        let pod = (
            cluster.to_owned(),
            event.namespace.clone(),
            event.involved.name.clone(),
        );
        let mut waiting = self.inner.waiting.lock();
        let full = waiting.count >= WAITING_MAX;
        let cases = waiting.pods.get_mut(&pod);
        if let Some(case) = cases.and_then(|cases| cases.back_mut())
            && Arc::ptr_eq(&case.event, event)
        {
            case.told.push(told);
            return;
        }
        if full {
            drop(waiting);
            let captured = self.inner.investigator.throttled(cluster, event);
            told(event, &Arc::new(Report::new(&captured)));
            return;
        }
        waiting.count += 1;
        let case = Case {
            event: Arc::clone(event),
            told: vec![told],
        };
        let begins = !waiting.pods.contains_key(&pod);
        waiting.pods.entry(pod.clone()).or_default().push_back(case);
        drop(waiting);
        if begins {
            let inner = Arc::clone(&self.inner);
            let draining = self.inner.lifecycle.draining().clone();
            self.inner.lifecycle.spawn("faults", async move {
                tokio::select! {
                    () = inner.work(pod) => {}
                    () = draining.cancelled() => {}
                }
            });
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Works through the faults of one pod, until none is left.
    async fn work(&self, pod: Pod) {
        loop {
            let case = {
                let mut waiting = self.waiting.lock();
                let Some(case) = waiting.pods.get_mut(&pod).and_then(VecDeque::pop_front) else {
                    waiting.pods.remove(&pod);
                    return;
                };
                waiting.count -= 1;
                case
            };
            let report = self.report(&pod.0, &case.event).await;
            for told in case.told {
                told(&case.event, &report);
            }
        }
    }

    async fn report(&self, cluster: &str, event: &Arc<Event>) -> Arc<Report> {
        let captured = self.investigator.investigate(cluster, event).await;
        let report = Arc::new(Report::new(&captured));
        self.board.post(cluster, event, &report);
        report
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk")
            .field("waiting", &self.inner.waiting.lock().count)
            .field("known", &self.inner.board.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
