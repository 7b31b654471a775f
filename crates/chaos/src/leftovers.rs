//! What is there when all servers have stopped.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use async_nats::jetstream;
use kube::Client;
use kubecrier_history::Registry as _;
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{NatsConfig, NatsStore};
use serde::Serialize;
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

// === impl Leftovers ===

impl Leftovers {
    /// Stops all servers, and looks. So many sessions were left as they were.
    pub(crate) async fn after(
        replicas: &[Replica],
        api: &Client,
        nats: &str,
        sessions_left: usize,
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
            Ok(records) => found.records = records,
            Err(error) => found.unknown.push(format!("{error:#}")),
        }
        let of = |kind: &str| found.records.get(kind).copied().unwrap_or_default();
        found.records_of_ended = of("session").saturating_sub(sessions_left);
        found
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

/// The records that servers share, counted by the first word of their keys.
async fn records(nats: &str) -> Result<BTreeMap<String, usize>> {
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
    let mut records = BTreeMap::new();
    for (key, entry) in listed.context("the records are not listed")?? {
        let kind = key.split('.').next().unwrap_or_default();
        let record: Option<serde_json::Value> = serde_json::from_slice(&entry.value).ok();
        // It says nothing but that there is none any more, to servers that did not hear of it.
        let has_ended = record.is_some_and(|record| record["ended"].is_string());
        let kind = if has_ended { "ended" } else { kind };
        *records.entry(kind.to_owned()).or_default() += 1;
    }
    Ok(records)
}
