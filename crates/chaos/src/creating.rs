//! Events with numbers, some of which are repeated, at a pace.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// Concurrent requests; more than any pace needs.
const WORKERS: u32 = 24;

/// Of so many events one is a repeat of the one before.
const REPEATED: u32 = 5;

/// The text before the number, in the message of an event.
const NUMBER: &str = "chaos n=";

/// An occurrence that the API server has accepted.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) number: u32,
    /// Orders all changes of the cluster.
    pub(crate) version: u64,
    /// `<uid>:<count>`
    pub(crate) event_id: String,
    /// When it was sent, and when the answer was there.
    pub(crate) sent: u32,
    pub(crate) accepted: u32,
}

/// Creates events until it is stopped.
pub(crate) struct Creating {
    workers: JoinSet<Result<Vec<Created>>>,
    stop: CancellationToken,
}

/// The number of an event, from its message.
pub(crate) fn number_of(message: &str) -> Option<u32> {
    let digits = message.strip_prefix(NUMBER)?;
    let end = digits.find(' ').unwrap_or(digits.len());
    digits[..end].parse().ok()
}

fn message(number: u32) -> String {
    format!("{NUMBER}{number} Back-off restarting failed container app in pod web-0")
}

// === impl Creating ===

impl Creating {
    /// Begins to create so many events a second.
    pub(crate) fn start(client: &Client, namespace: &str, per_second: u32, clock: Clock) -> Self {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let (mut workers, stop) = (JoinSet::new(), CancellationToken::new());
        let (namespace, began): (Arc<str>, _) = (namespace.into(), Instant::now());
        for worker in 0..WORKERS {
            let (api, stop) = (api.clone(), stop.clone());
            let namespace = Arc::clone(&namespace);
            workers.spawn(async move {
                let mut created = Vec::new();
                let mut last: Option<(String, i32)> = None;
                for turn in 0.. {
                    let number = turn * WORKERS + worker;
                    let at = began + Duration::from_secs(1) * number / per_second.max(1);
                    if stop.run_until_cancelled(sleep_until(at)).await.is_none() {
                        break;
                    }
                    let sent = clock.now();
                    let repeated = last.take_if(|_| turn % REPEATED == REPEATED - 1);
                    let event = match repeated {
                        Some((name, count)) => repeat(&api, &name, count + 1, number).await,
                        None => create(&api, &namespace, number).await,
                    };
                    let event = event.with_context(|| format!("cannot create event {number}"))?;
                    let metadata = event.metadata;
                    let version = metadata.resource_version.unwrap_or_default();
                    let (uid, count) = (metadata.uid.unwrap_or_default(), event.count.unwrap_or(1));
                    last = metadata.name.map(|name| (name, count));
                    created.push(Created {
                        number,
                        version: version.parse()?,
                        event_id: format!("{uid}:{count}"),
                        sent,
                        accepted: clock.now(),
                    });
                }
                Ok(created)
            });
        }
        Self { workers, stop }
    }

    /// Stops, and tells what was created, by number.
    pub(crate) async fn stop(mut self) -> Result<Vec<Created>> {
        self.stop.cancel();
        let mut all = Vec::new();
        while let Some(created) = self.workers.join_next().await {
            all.extend(created??);
        }
        all.sort_unstable_by_key(|one| one.number);
        Ok(all)
    }
}

async fn create(api: &Api<Event>, namespace: &str, number: u32) -> Result<Event> {
    let mut event = testbed::event(
        namespace,
        "Pod/web-0",
        "Warning",
        "BackOff",
        &message(number),
    );
    event.metadata.generate_name = None;
    event.metadata.name = Some(format!("chaos-{number}"));
    Ok(api.create(&PostParams::default(), &event).await?)
}

/// Counts an event up, as a kubelet does.
async fn repeat(api: &Api<Event>, name: &str, count: i32, number: u32) -> Result<Event> {
    let change = json!({
        "count": count,
        "message": message(number),
        "lastTimestamp": Timestamp::now(),
    });
    let patch = Patch::Merge(change);
    Ok(api.patch(name, &PatchParams::default(), &patch).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_was_written() {
        assert_eq!(number_of(&message(17)), Some(17));
        assert_eq!(number_of("chaos n=4"), Some(4));
        assert_eq!(number_of("Back-off"), None);
    }
}
