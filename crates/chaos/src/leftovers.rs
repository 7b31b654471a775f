//! What is there when all servers have stopped.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use async_nats::jetstream;
use kube::Client;
use kubecrier_history::{Registry as _, RegistryEntry};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{NatsConfig, NatsStore};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::{replica::Replica, watches::watches_of_events};

/// How long servers may take to stop: a little longer than they give to running calls.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// How long the API server and NATS may take to notice.
const NOTICED_WITHIN: Duration = Duration::from_secs(40);

const LOOK: Duration = Duration::from_millis(250);

/// What was found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leftovers {
    /// Processes that did not end.
    pub(crate) processes: usize,
    pub(crate) stopped_after_millis: u128,
    pub(crate) watches: u32,
    pub(crate) consumers: usize,
    /// Records by their kind. Each has a time to live.
    pub(crate) records: BTreeMap<String, usize>,
    /// Records of sessions and subscriptions that were ended.
    pub(crate) records_of_ended: usize,
    /// What could not be found out.
    pub(crate) unknown: Vec<String>,
}

/// What subscribers have left, and ended.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Sessions that were left as they were.
    pub(crate) sessions_left: usize,
    /// The ids of subscriptions that were ended. Others, of polls by filters, end when they are not
    /// used.
    pub(crate) subscriptions_ended: BTreeSet<String>,
}

// === impl Leftovers ===

impl Leftovers {
    /// Stops all servers, and looks.
    pub(crate) async fn after(
        replicas: &[Replica],
        api: &Client,
        nats: &str,
        expected: &Expected,
    ) -> Self {
        let mut found = Self::default();
        let began = Instant::now();
        for replica in replicas {
            if let Err(error) = replica.terminate() {
                found.unknown.push(format!("{error:#}"));
            }
        }
        let running = || replicas.iter().filter(|one| one.is_running()).count();
        while running() > 0 && began.elapsed() < STOP_WITHIN {
            sleep(LOOK).await;
        }
        found.processes = running();
        found.stopped_after_millis = began.elapsed().as_millis();
        let noticed = Instant::now() + NOTICED_WITHIN;
        loop {
            let watches = watches_of_events(api).await;
            let consumers = consumers(nats).await;
            if let (Ok(watches), Ok(consumers)) = (&watches, &consumers) {
                (found.watches, found.consumers) = (*watches, *consumers);
                if *watches == 0 && *consumers == 0 {
                    break;
                }
            }
            if Instant::now() > noticed {
                let failed = [watches.err(), consumers.err()].into_iter().flatten();
                found
                    .unknown
                    .extend(failed.map(|error| format!("{error:#}")));
                break;
            }
            sleep(LOOK).await;
        }
        match records(nats).await {
            Ok(records) => found.judge(&records, expected),
            Err(error) => found.unknown.push(format!("{error:#}")),
        }
        found
    }

    /// Counts records by the first word of their keys, and those of what has ended.
    fn judge(&mut self, records: &[(String, Value)], expected: &Expected) {
        for (key, record) in records {
            let kind = key.split('.').next().unwrap_or_default();
            // It says nothing but that there is none any more, to servers that did not hear of it.
            let has_ended = match kind {
                "session" => record["ended"].is_string(),
                "subscription" => record["subscription"].is_null(),
                _ => false,
            };
            let id = key.rsplit('.').next().unwrap_or_default();
            if kind == "subscription" && !has_ended && expected.subscriptions_ended.contains(id) {
                self.records_of_ended += 1;
            }
            let kind = if has_ended { "ended" } else { kind };
            *self.records.entry(kind.to_owned()).or_default() += 1;
        }
        let sessions = self.records.get("session").copied().unwrap_or_default();
        self.records_of_ended += sessions.saturating_sub(expected.sessions_left);
    }
}

/// The consumers of all streams.
async fn consumers(nats: &str) -> Result<usize> {
    let fleet = NatsConfig::default().fleet;
    let client = async_nats::connect(nats).await?;
    let jetstream = jetstream::new(client);
    let mut count = 0;
    for stream in ["records", "log"] {
        let stream = jetstream.get_stream(format!("{fleet}-{stream}"));
        count += stream.await?.cached_info().state.consumer_count;
    }
    Ok(count)
}

/// The records that servers share, by their keys.
async fn records(nats: &str) -> Result<Vec<(String, Value)>> {
    let config = NatsConfig {
        servers: vec![nats.to_owned()],
        ..NatsConfig::default()
    };
    let lifecycle = Lifecycle::default();
    let listing = async {
        let store = NatsStore::connect(&config, &lifecycle).await?;
        anyhow::Ok(store.registry().list("").await?)
    };
    let listed = timeout(NOTICED_WITHIN, listing).await;
    lifecycle.drain();
    let listed = listed.context("the records are not listed")??;
    let read = |(key, entry): (String, RegistryEntry)| {
        let record = serde_json::from_slice(&entry.value).unwrap_or_default();
        (key, record)
    };
    Ok(listed.into_iter().map(read).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_ended_and_is_still_there_is_left() {
        let of = |id: &str| format!("subscription.1f2e.{id}");
        let records = [
            ("session.one".to_owned(), json!({"home": "a"})),
            ("session.two".to_owned(), json!({"ended": "final"})),
            (of("polled"), json!({"subscription": {"id": "polled"}})),
            (of("ended"), json!({"subscription": null})),
            ("secret".to_owned(), Value::Null),
        ];
        let judge = |sessions_left, ended: &str| {
            let mut found = Leftovers::default();
            let expected = Expected {
                sessions_left,
                subscriptions_ended: [ended.to_owned()].into(),
            };
            found.judge(&records, &expected);
            assert_eq!(found.records["ended"], 2);
            found.records_of_ended
        };
        assert_eq!(judge(1, "ended"), 0);
        assert_eq!(judge(0, "ended"), 1, "a session");
        assert_eq!(judge(1, "polled"), 1, "a subscription");
    }
}
