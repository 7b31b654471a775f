//! All answers of the clusters' authorizers, and the limits of asking.

use std::{
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
    asked::{Asked, Questions},
    question::AccessQuestion,
    right::Right,
    viewer::{UserView, Viewer, Views},
};
use crate::{
    Backoff, KubernetesUser,
    metrics::{AccessMetrics, ReviewOutcome},
};
use kubecrier_lifecycle::{Lifecycle, TaskGroup};

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
    tasks: TaskGroup,
    metrics: AccessMetrics,
    views: Views,
    questions: Questions,
    // Held for map operations only.
    rights: Mutex<LruCache<RightKey, Arc<Right>>>,
}

/// The view of a user and the question, by their numbers: there is one for each user and
/// question, who share the words.
type RightKey = (u64, u64);

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
            tasks: lifecycle.group("access"),
            lifecycle,
            metrics,
            views: Views::default(),
            questions: Questions::default(),
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
        if let Some(context) = self.inner.questions.context(context) {
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
                .map(|(key, _)| *key)
                .collect();
            for key in spent {
                rights.pop(&key);
            }
        }
        drop(rights);
        self.inner.questions.remove_unused();
    }
}

impl fmt::Debug for AccessDecisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessDecisions")
            .field("users", &self.inner.views.len())
            .field("rights", &self.inner.rights.lock().len())
            .field("questions", &self.inner.questions.len())
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
        let everywhere = question.everywhere();
        let wide = everywhere.map(|question| self.questions.of(context, question));
        let asked = self.questions.of(context, question);
        let mut rights = self.rights.lock();
        let mut right = |asked: Arc<Asked>, wide| {
            let key = (view.id(), asked.id);
            let make = || Arc::new(Right::new(view, asked, wide));
            Arc::clone(rights.get_or_insert(key, make))
        };
        let wide = wide.map(|asked| right(asked, None));
        right(asked, wide)
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let draining = self.lifecycle.draining().clone();
        // In a box, which the two below do not hold twice: thousands may wait for their turns.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
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
    pub(super) async fn review(&self, view: &UserView, asked: &Asked) -> Option<bool> {
        let answered = timeout(PATIENCE, self.review_until_answered(view, asked));
        match answered.await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                let (user, context) = (view.user().name(), &**asked.context.name());
                let question = &asked.question;
                tracing::warn!(user, context, %question, "it cannot be found out who may read what");
                None
            }
        }
    }

    async fn review_until_answered(&self, view: &UserView, asked: &Asked) -> Option<bool> {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        for failures in 1.. {
            match self.review_once(view, asked).await? {
                Ok(is_allowed) => return Some(is_allowed),
                Err(error) => {
                    let (context, question) = (asked.context.name(), &asked.question);
                    tracing::debug!(context = &**context, %question, %error, "an access review failed");
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
        asked: &Asked,
    ) -> Option<Result<bool, ReviewError>> {
        let Asked {
            context, question, ..
        } = asked;
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
