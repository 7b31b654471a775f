//! All answers of the clusters' authorizers, and the limits of asking.

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use lru::LruCache;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{
    sync::Semaphore,
    time::{Duration, sleep, timeout},
};

use super::{
    pace::Pace,
    question::AccessQuestion,
    reviewed_context::ReviewedContext,
    right::Right,
    viewer::{UserView, Viewer, Views},
};
use crate::{
    Backoff, KubernetesUser,
    metrics::{AccessMetrics, ReviewOutcome},
};
use kubecrier_lifecycle::Lifecycle;

/// Rights that are kept; the least recently used go first.
const RIGHTS_MAX: NonZeroUsize = NonZeroUsize::new(32_768).expect("it is not zero");

/// Reviews that run at a time, over all users and clusters.
const TURNS: usize = 16;

/// Reviews a second, and at once, over all users and clusters.
const PER_SECOND: u32 = 200;
const BURST: u32 = 400;

/// How long an answer is waited for, with the turn and with what is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time for one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3);

/// Asks the authorizer of a cluster.
pub trait AccessReviewer: Send + Sync + 'static {
    /// Whether the user may do that there.
    fn review<'a>(
        &'a self,
        context: &'a str,
        user: &'a KubernetesUser,
        question: &'a AccessQuestion,
    ) -> BoxFuture<'a, Result<bool, ReviewError>>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the cluster does not say who may read what: {0}")]
pub struct ReviewError(pub String);

/// What users may see, as their clusters have answered. A clone is the same.
#[derive(Clone)]
pub struct AccessDecisions {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    this: Weak<Self>,
    reviewer: Box<dyn AccessReviewer>,
    lifecycle: Lifecycle,
    metrics: AccessMetrics,
    views: Views,
    // Held for map operations only, as `rights` is.
    contexts: Mutex<HashMap<Arc<str>, Arc<ReviewedContext>>>,
    rights: Mutex<LruCache<RightKey, Arc<Right>>>,
    turns: Semaphore,
    pace: Pace,
}

/// The view of a user, the context, the question.
type RightKey = (u64, Arc<str>, AccessQuestion);

// === impl AccessDecisions ===

impl AccessDecisions {
    /// Nothing is known yet.
    pub fn new(
        reviewer: impl AccessReviewer,
        lifecycle: Lifecycle,
        metrics: AccessMetrics,
    ) -> Self {
        // Made with its capacity, it would allocate for all entries at once.
        let mut rights = LruCache::unbounded();
        rights.resize(RIGHTS_MAX);
        let inner = Arc::new_cyclic(|this| Inner {
            this: Weak::clone(this),
            reviewer: Box::new(reviewer),
            lifecycle,
            metrics,
            views: Views::default(),
            contexts: Mutex::default(),
            rights: Mutex::new(rights),
            turns: Semaphore::new(TURNS),
            pace: Pace::new(PER_SECOND, BURST),
        });
        Self { inner }
    }

    /// What a user sees.
    pub fn viewer(&self, user: &Arc<KubernetesUser>) -> Viewer {
        Viewer::User(self.inner.views.of(user, &self.inner.this))
    }

    /// A context has come to name another cluster, whose answers may be others: none that was
    /// asked for until now counts.
    pub fn forget(&self, context: &str) {
        if let Some(context) = self.inner.contexts.lock().get(context) {
            context.rename();
        }
    }

    /// Drops the answers that are not good any more.
    pub fn remove_expired(&self) {
        let mut rights = self.inner.rights.lock();
        // A right for a namespace holds the one for all of them, which then goes as well.
        for _ in 0..2 {
            let spent: Vec<RightKey> = (rights.iter())
                .filter(|(_, right)| Arc::strong_count(right) == 1 && right.is_spent())
                .map(|(key, _)| key.clone())
                .collect();
            for key in spent {
                rights.pop(&key);
            }
        }
    }
}

impl fmt::Debug for AccessDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessDecisions")
            .field("users", &self.inner.views.len())
            .field("rights", &self.inner.rights.lock().len())
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    pub(super) fn right(
        &self,
        view: &Arc<UserView>,
        context: &str,
        question: AccessQuestion,
    ) -> Arc<Right> {
        let reviewed = self.context(context);
        let mut rights = self.rights.lock();
        let wide = question.everywhere().map(|question| {
            let key = (view.id(), Arc::clone(reviewed.name()), question);
            let make = || Arc::new(Right::new(view, &reviewed, key.2.clone(), None));
            Arc::clone(rights.get_or_insert(key.clone(), make))
        });
        let key = (view.id(), Arc::clone(reviewed.name()), question);
        let make = || Arc::new(Right::new(view, &reviewed, key.2.clone(), wide));
        Arc::clone(rights.get_or_insert(key.clone(), make))
    }

    fn context(&self, name: &str) -> Arc<ReviewedContext> {
        let mut contexts = self.contexts.lock();
        if let Some(known) = contexts.get(name) {
            return Arc::clone(known);
        }
        let context = Arc::new(ReviewedContext::new(name));
        contexts.insert(Arc::clone(context.name()), Arc::clone(&context));
        context
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let draining = self.lifecycle.draining().clone();
        self.lifecycle.spawn("access", async move {
            tokio::select! {
                () = task => {}
                () = draining.cancelled() => {}
            }
        });
    }

    pub(super) fn count_lookup(&self, is_known: bool) {
        self.metrics.looked_up(is_known);
    }

    /// Asks a cluster, in turn and at a pace, and again after an error for as long as somebody
    /// can be expected to wait. `None` if there is no answer until then.
    pub(super) async fn review(
        &self,
        view: &UserView,
        context: &str,
        question: &AccessQuestion,
    ) -> Option<bool> {
        let answered = timeout(
            PATIENCE,
            self.review_until_answered(view, context, question),
        );
        match answered.await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                let user = view.user().name();
                tracing::warn!(user, context, %question, "it cannot be found out who may read what");
                None
            }
        }
    }

    async fn review_until_answered(
        &self,
        view: &UserView,
        context: &str,
        question: &AccessQuestion,
    ) -> Option<bool> {
        // That of the user first: one that asks for much waits for itself.
        let _own = view.turns.acquire().await.ok()?;
        let _turn = self.turns.acquire().await.ok()?;
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        for failures in 1.. {
            let waits = (view.pace.take(PATIENCE)).zip(self.pace.take(PATIENCE));
            let Some((own, all)) = waits else {
                self.metrics.reviewed(ReviewOutcome::Throttled);
                return None;
            };
            sleep(own.max(all)).await;
            let review = self.reviewer.review(context, view.user(), question);
            let error = match timeout(REVIEW_TIMEOUT, review).await {
                Ok(Ok(is_allowed)) => {
                    self.metrics.reviewed(if is_allowed {
                        ReviewOutcome::Allowed
                    } else {
                        ReviewOutcome::Denied
                    });
                    return Some(is_allowed);
                }
                Ok(Err(error)) => error,
                Err(_elapsed) => ReviewError("it does not answer in time".to_owned()),
            };
            self.metrics.reviewed(ReviewOutcome::Failed);
            tracing::debug!(context, %question, %error, "an access review failed");
            sleep(backoff.delay(failures)).await;
        }
        None
    }
}
