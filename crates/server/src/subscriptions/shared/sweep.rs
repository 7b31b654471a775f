//! What ends elsewhere ends here, and what is used here stays.

use std::sync::Arc;

use super::Subscriptions;
use crate::{
    caller::Caller,
    sessions,
    subscriptions::{SubscriptionRecord, kept::Found},
};
use kubecrier_core::subscriptions::SubscriptionId;

impl Subscriptions {
    /// Ends those that were ended elsewhere, and has the records of those that are listened for
    /// stay. What is polled or read looks itself.
    pub(in crate::subscriptions) async fn sweep_shared(&self) {
        let Some(sharing) = self.inner.sharing.get() else {
            return;
        };
        let revoked = std::mem::take(&mut *sharing.revoked.lock());
        for caller in revoked {
            let Ok((all, _)) = sharing.kept.list(&caller).await else {
                sharing.revoked.lock().push(caller);
                continue;
            };
            for kept in all {
                let _until_it_expires = sharing.kept.end(&caller, &kept.id).await;
            }
        }
        let all = self.inner.ledger.all();
        let here = |id: &SubscriptionId| all.iter().any(|(_, one)| one.id() == id);
        sharing.callers.lock().retain(|id, _| here(id));
        for (owner, one) in &all {
            let updates = self.inner.updates.seen_by(one.viewer());
            let caller = sharing.callers.lock().get(one.id()).map(Arc::clone);
            let Some(caller) = caller.filter(|_| updates.is_subscribed(one.uri())) else {
                continue;
            };
            match sharing.kept.find(&caller, one.id().as_str()).await {
                Ok(Found::Ended) => {
                    self.inner.ledger.end(owner, one.id().as_str());
                }
                Ok(Found::Kept(record)) => {
                    let _tried_again = sharing.kept.renew(&caller, record).await;
                }
                Ok(Found::Nothing) => {
                    let record = SubscriptionRecord::new(one);
                    let _tried_again = sharing.kept.keep(&caller, record).await;
                }
                Err(_) => return,
            }
        }
    }

    /// Has the records of a caller removed whose token was revoked.
    pub(in crate::subscriptions) fn forget_caller(&self, caller: &Caller) {
        if let Some(sharing) = self.inner.sharing.get() {
            sharing.revoked.lock().push(sessions::digest(caller));
        }
    }
}
