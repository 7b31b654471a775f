//! Joining a watch beside another subscriber, which has what was received before.

use std::sync::{Arc, atomic::Ordering};

use super::{JoinedWatch, Share, WatchLease, Watches, user_rights};
use crate::error::ClusterError;
use kubecrier_core::{filters::Filters, subscriptions::Listener};

impl Watches {
    /// Joins the watch of another subscriber: the listener gets what is received from now on, if
    /// its resourceVersion is above `after`, and when this returns, the other one has got
    /// everything that was received before. Nothing is asked of the cluster. `None` if the other
    /// one does not watch everything.
    ///
    /// Whoever needs it holds a [claim](Watches::claim) meanwhile.
    pub async fn join_beside(
        &self,
        other: &WatchLease,
        filters: &Filters,
        listener: Arc<dyn Listener>,
        after: u64,
    ) -> Result<Option<JoinedWatch>, ClusterError> {
        let [Share { watch, .. }] = &other.shares[..] else {
            return Ok(None);
        };
        if watch.scope.namespace.is_some() || watch.scope.selector.is_some() {
            return Ok(None);
        }
        let mut warnings = Vec::new();
        let context = &watch.scope.context;
        let viewer = listener.viewer();
        let _sees_all = user_rights::sees_all(&viewer, context, filters, &mut warnings).await?;
        let share = {
            // Keys grow in the order in which a watch is joined.
            let _tasks = self.shared.tasks.lock();
            let key = self.shared.keys.fetch_add(1, Ordering::Relaxed);
            watch.subscribers.add(key, after, Arc::clone(&listener));
            Share {
                watch: watch.clone(),
                key,
                version: Some(after),
            }
        };
        watch.subscribers.replay_status(share.key, &*listener);
        watch.subscribers.progress().until_delivered().await;
        Ok(Some(JoinedWatch {
            lease: WatchLease {
                shares: vec![share],
            },
            context: context.clone(),
            warnings,
            rate: None,
            version: Some(after),
        }))
    }
}
