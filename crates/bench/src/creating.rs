//! Creates events in a cluster at a pace, and watches them independently of the server.

use std::{collections::HashMap, ops::Range, sync::Arc};

use anyhow::{Context, Result, bail};
use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, sleep_until},
};

use crate::{load::scan::number_after, message::now_micros};

/// Concurrent creations; more than any pace needs.
const WORKERS: u32 = 32;

/// The text before the number of an event, in its message.
pub(crate) const NUMBER: &[u8] = b"bench n=";

/// The rate at which events are created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// `None` creates events as fast as possible.
    pub(crate) per_second: Option<u32>,
    /// The number of events that are created at the same moment.
    pub(crate) at_once: u32,
}

/// An event that the API server has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Created {
    pub(crate) number: u32,
    pub(crate) sent: u64,
    /// When the response of the API server arrived.
    pub(crate) answered: u64,
    /// The resourceVersion, which orders all changes of the cluster.
    pub(crate) version: u64,
}

/// A watch of the same events without the server, to measure the API server's own delay.
pub(crate) struct PlainWatch {
    observed: Arc<Mutex<HashMap<u32, u64>>>,
    _reading: JoinSet<Result<()>>,
}

/// The message of an event: its number, and text of a typical length.
pub(crate) fn text(number: u32) -> String {
    format!(
        "bench n={number} Back-off restarting failed container app in pod web-0_shop(4f2b1c7e-6f0b-4bd2-8f6e-0e4f6c2f9a11)"
    )
}

/// Creates events with these numbers at a pace.
pub(crate) async fn create(
    client: &Client,
    namespace: &str,
    numbers: Range<u32>,
    pace: Pace,
    make: impl Fn(u32) -> Event + Clone + Send + 'static,
) -> Result<Vec<Created>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let began = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (api, numbers, make) = (api.clone(), numbers.clone(), make.clone());
        workers.spawn(async move {
            let mut created = Vec::new();
            for number in numbers
                .clone()
                .skip(worker as usize)
                .step_by(WORKERS as usize)
            {
                sleep_until(began + pace.after(number - numbers.start)).await;
                let event = make(number);
                let sent = now_micros();
                let answer = api.create(&PostParams::default(), &event).await?;
                let version = answer.metadata.resource_version.unwrap_or_default();
                created.push(Created {
                    number,
                    sent,
                    answered: now_micros(),
                    version: version.parse()?,
                });
            }
            anyhow::Ok(created)
        });
    }
    let mut all = Vec::new();
    while let Some(created) = workers.join_next().await {
        all.extend(created?.context("cannot create an event")?);
    }
    all.sort_unstable_by_key(|one| one.number);
    Ok(all)
}

// === impl Pace ===

impl Pace {
    /// The time of the nth event, from the start.
    fn after(self, nth: u32) -> Duration {
        let group = nth / self.at_once * self.at_once;
        match self.per_second {
            Some(per_second) => Duration::from_secs(1) * group / per_second,
            None => Duration::ZERO,
        }
    }
}

// === impl PlainWatch ===

impl PlainWatch {
    /// Starts a watch at the current resourceVersion.
    pub(crate) async fn start(client: &Client, namespace: &str) -> Result<Self> {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let frames = api.watch(&WatchParams::default(), &version).await?;
        let observed: Arc<Mutex<HashMap<u32, u64>>> = Arc::default();
        let recording = Arc::clone(&observed);
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let mut frames = std::pin::pin!(frames);
            while let Some(frame) = frames.try_next().await? {
                let now = now_micros();
                let event = match frame {
                    WatchEvent::Added(event) => event,
                    WatchEvent::Error(status) => bail!("the plain watch: {status:?}"),
                    _ => continue,
                };
                let message = event.message.unwrap_or_default();
                if let Some(number) = number_after(message.as_bytes(), NUMBER) {
                    let number = u32::try_from(number)?;
                    recording.lock().entry(number).or_insert(now);
                }
            }
            Ok(())
        });
        Ok(Self {
            observed,
            _reading: reading,
        })
    }

    /// The time at which the watch reported each number, so far.
    pub(crate) fn observed(&self) -> HashMap<u32, u64> {
        self.observed.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_spreads_events_evenly_or_in_groups() {
        let even = Pace {
            per_second: Some(20),
            at_once: 1,
        };
        assert_eq!(even.after(0), Duration::ZERO);
        assert_eq!(even.after(30), Duration::from_millis(1500));
        let groups = Pace {
            per_second: Some(20),
            at_once: 20,
        };
        assert_eq!(groups.after(19), Duration::ZERO);
        assert_eq!(groups.after(20), Duration::from_secs(1));
        assert_eq!(groups.after(39), Duration::from_secs(1));
    }
}
