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
use tokio::time::{Duration, sleep, timeout};

use super::{
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

/// How long an answer is waited for, with the turns and with what is tried again.
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
        context: &ReviewedContext,
        question: &AccessQuestion,
    ) -> Option<bool> {
        let answered = timeout(
            PATIENCE,
            self.review_until_answered(view, context, question),
        );
        match answered.await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                let (user, context) = (view.user().name(), &**context.name());
                tracing::warn!(user, context, %question, "it cannot be found out who may read what");
                None
            }
        }
    }

    async fn review_until_answered(
        &self,
        view: &UserView,
        context: &ReviewedContext,
        question: &AccessQuestion,
    ) -> Option<bool> {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        for failures in 1.. {
            match self.review_once(view, context, question).await? {
                Ok(is_allowed) => return Some(is_allowed),
                Err(error) => {
                    tracing::debug!(context = &**context.name(), %question, %error, "an access review failed");
                }
            }
            // Without a turn: others are asked meanwhile.
            sleep(backoff.delay(failures)).await;
        }
        None
    }

    /// Asks once, in turn. `None` if that would be too late.
    async fn review_once(
        &self,
        view: &UserView,
        context: &ReviewedContext,
        question: &AccessQuestion,
    ) -> Option<Result<bool, ReviewError>> {
        let own = view.turns(context.name());
        // That of the user first: one that asks for much waits for itself.
        let turns = async {
            let own = own.take(PATIENCE).await?;
            Some((own, context.turns().take(PATIENCE).await?))
        };
        let Some(_turns) = turns.await else {
            self.metrics.reviewed(ReviewOutcome::Throttled);
            return None;
        };
        let review = (self.reviewer).review(context.name(), view.user(), question);
        let answer = timeout(REVIEW_TIMEOUT, review).await;
        let answer = answer
            .unwrap_or_else(|_elapsed| Err(ReviewError("it does not answer in time".to_owned())));
        self.metrics.reviewed(match answer {
            Ok(true) => ReviewOutcome::Allowed,
            Ok(false) => ReviewOutcome::Denied,
            Err(_) => ReviewOutcome::Failed,
        });
        Some(answer)
    }
}
