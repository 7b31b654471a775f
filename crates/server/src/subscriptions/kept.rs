//! The records of subscriptions of callers without a session, in the registry that servers share:
//! any of them may get the next request.
//!
//! A record is written before `events_subscribe` is answered, and again while it is used, so that
//! it outlives every copy; never for an event. It has no name and no token. One that is ended
//! stays for a while and says so.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use kubecrier_history::{Registry, RegistryError, Revision};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, timeout};

use super::SubscriptionRecord;
use crate::output::ToolError;
use kubecrier_core::subscriptions::SubscriptionId;

/// The form of a record. One of another form is of no use.
const FORMAT: u32 = 1;

/// How long the registry may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The records of subscriptions.
pub(super) struct KeptSubscriptions {
    registry: Arc<dyn Registry>,
    /// A subscription that is not used for so long ends.
    idle_timeout: Duration,
}

/// What is kept of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptSubscription {
    format: u32,
    /// Whose it is.
    caller: String,
    /// When this was written.
    written_at: Timestamp,
    /// None if it was ended.
    subscription: Option<SubscriptionRecord>,
}

/// What the registry has of a subscription.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    /// Its client has ended it.
    Ended,
    Kept(KeptRecord),
}

/// A record that was found.
#[derive(Debug)]
pub(super) struct KeptRecord {
    pub(super) subscription: SubscriptionRecord,
    revision: Revision,
    written_at: Timestamp,
}

// === impl KeptSubscriptions ===

impl KeptSubscriptions {
    pub(super) fn new(registry: Arc<dyn Registry>, idle_timeout: Duration) -> Self {
        Self {
            registry,
            idle_timeout,
        }
    }

    /// A copy that is used ends later than this after it was written again.
    fn time_to_live(&self) -> Duration {
        self.idle_timeout * 2
    }

    /// What is kept of a subscription of a caller.
    pub(super) async fn find(&self, caller: &str, id: &str) -> Result<Found, ToolError> {
        let Some(key) = key(caller, id) else {
            return Ok(Found::Nothing);
        };
        let entry = within(self.registry.get(&key)).await?;
        let Some(entry) = entry else {
            return Ok(Found::Nothing);
        };
        Ok(match KeptSubscription::parse(&entry.value, caller) {
            None => Found::Nothing,
            Some(KeptSubscription {
                subscription: None, ..
            }) => Found::Ended,
            Some(KeptSubscription {
                subscription: Some(subscription),
                written_at,
                ..
            }) => Found::Kept(KeptRecord {
                subscription,
                revision: entry.revision,
                written_at,
            }),
        })
    }

    /// All of a caller, the oldest first, and the ids of those that were ended a while ago.
    pub(super) async fn list(
        &self,
        caller: &str,
    ) -> Result<(Vec<SubscriptionRecord>, Vec<String>), ToolError> {
        let prefix = format!("subscription.{caller}.");
        let entries = within(self.registry.list(&prefix)).await?;
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        for (key, entry) in entries {
            match KeptSubscription::parse(&entry.value, caller).map(|kept| kept.subscription) {
                Some(Some(subscription)) => all.push(subscription),
                Some(None) => ended.extend(key.strip_prefix(&prefix).map(str::to_owned)),
                None => {}
            }
        }
        all.sort_by_key(SubscriptionRecord::created_at);
        Ok((all, ended))
    }

    /// Keeps a subscription of which there is no record.
    pub(super) async fn keep(
        &self,
        caller: &str,
        subscription: SubscriptionRecord,
    ) -> Result<(), ToolError> {
        self.set(caller, None, subscription).await
    }

    /// Has the record of a subscription that is used stay. What was ended meanwhile stays ended.
    pub(super) async fn renew(&self, caller: &str, kept: KeptRecord) -> Result<(), ToolError> {
        let age = Timestamp::now().duration_since(kept.written_at);
        if age.unsigned_abs() < self.idle_timeout / 4 {
            return Ok(());
        }
        self.set(caller, Some(kept.revision), kept.subscription)
            .await
    }

    /// Notes that a caller has ended a subscription, on whatever server.
    pub(super) async fn end(&self, caller: &str, id: &str) -> Result<(), ToolError> {
        let Some(key) = key(caller, id) else {
            return Ok(());
        };
        let bytes = KeptSubscription::new(caller, None).to_bytes();
        within(self.registry.put(&key, bytes, self.time_to_live())).await?;
        Ok(())
    }

    async fn set(
        &self,
        caller: &str,
        expected: Option<Revision>,
        subscription: SubscriptionRecord,
    ) -> Result<(), ToolError> {
        let Some(key) = key(caller, &subscription.id) else {
            return Ok(());
        };
        let bytes = KeptSubscription::new(caller, Some(subscription)).to_bytes();
        let set = (self.registry).compare_and_set(&key, expected, bytes, self.time_to_live());
        // If another server was faster, it is as new.
        within(set).await.map(drop)
    }
}

/// Waits for the registry, for a while.
async fn within<T>(asked: impl Future<Output = Result<T, RegistryError>>) -> Result<T, ToolError> {
    match timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(unavailable(&error)),
        Err(elapsed) => Err(unavailable(&elapsed)),
    }
}

fn unavailable(error: &dyn fmt::Display) -> ToolError {
    tracing::warn!(%error, "the subscriptions that servers share cannot be read or written");
    ToolError::Unavailable(
        "the store of the subscriptions that the servers share cannot be reached now: nothing has ended, \
         try again in a few seconds"
            .to_owned(),
    )
}

/// The key of a record; a text that is no id has none.
fn key(caller: &str, id: &str) -> Option<String> {
    let id = SubscriptionId::parse(id)?;
    Some(format!("subscription.{caller}.{id}"))
}

// === impl KeptSubscription ===

impl KeptSubscription {
    fn new(caller: &str, subscription: Option<SubscriptionRecord>) -> Self {
        Self {
            format: FORMAT,
            caller: caller.to_owned(),
            written_at: Timestamp::now(),
            subscription,
        }
    }

    fn to_bytes(&self) -> bytes::Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    fn parse(bytes: &[u8], caller: &str) -> Option<Self> {
        let kept: Self = serde_json::from_slice(bytes).ok()?;
        (kept.format == FORMAT && kept.caller == caller).then_some(kept)
    }
}

impl fmt::Debug for KeptSubscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptSubscriptions")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_history::MemoryRegistry;

    fn record(id: &SubscriptionId) -> SubscriptionRecord {
        serde_json::from_value(serde_json::json!({
            "id": id, "context": "dev", "mode": "events", "filters": {"namespace": "shop"},
            "createdAt": "2026-01-01T00:00:00Z", "version": 7,
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_ended_stays_ended_and_is_nobody_elses() {
        let registry = Arc::new(MemoryRegistry::default());
        let kept = KeptSubscriptions::new(registry, Duration::from_mins(1));
        let id = SubscriptionId::random();
        kept.keep("ann", record(&id)).await.unwrap();
        let Found::Kept(found) = kept.find("ann", id.as_str()).await.unwrap() else {
            panic!("it is kept")
        };
        assert!(matches!(
            kept.find("bob", id.as_str()).await,
            Ok(Found::Nothing)
        ));
        assert_eq!(kept.list("bob").await.unwrap(), (vec![], vec![]));
        assert_eq!(kept.list("ann").await.unwrap().0, [record(&id)]);
        kept.end("ann", id.as_str()).await.unwrap();
        let old = KeptRecord {
            written_at: Timestamp::UNIX_EPOCH,
            ..found
        };
        kept.renew("ann", old).await.unwrap();
        assert!(matches!(
            kept.find("ann", id.as_str()).await,
            Ok(Found::Ended)
        ));
        assert_eq!(
            kept.list("ann").await.unwrap(),
            (vec![], vec![id.to_string()])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_lasts_while_it_is_used() {
        let registry = Arc::new(MemoryRegistry::default());
        let kept = KeptSubscriptions::new(registry, Duration::from_mins(1));
        let id = SubscriptionId::random();
        kept.keep("ann", record(&id)).await.unwrap();
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(59)).await;
            let Found::Kept(mut found) = kept.find("ann", id.as_str()).await.unwrap() else {
                panic!("it is kept")
            };
            // The clock of the wall stands still here.
            found.written_at = Timestamp::UNIX_EPOCH;
            kept.renew("ann", found).await.unwrap();
        }
        tokio::time::advance(Duration::from_secs(121)).await;
        assert!(matches!(
            kept.find("ann", id.as_str()).await,
            Ok(Found::Nothing)
        ));
    }
}
