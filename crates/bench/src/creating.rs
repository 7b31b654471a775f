//! Creates events in a cluster at some pace, and watches them beside the server.

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

/// Creations at once; more than any pace needs.
const WORKERS: u32 = 32;

/// What an event's number stands behind, in its message.
pub(crate) const NUMBER: &[u8] = b"bench n=";

/// How events come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// `None` is as fast as they can.
    pub(crate) per_second: Option<u32>,
    /// So many at the same moment.
    pub(crate) at_once: u32,
}

/// An event that the API server has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Created {
    pub(crate) number: u32,
    /// When it was sent.
    pub(crate) sent: u64,
    /// When the API server had answered.
    pub(crate) answered: u64,
    /// Its place in the order of all changes.
    pub(crate) version: u64,
}

/// A plain watch of the same events: what comes out of the API server, and when.
pub(crate) struct BareWatch {
    seen: Arc<Mutex<HashMap<u32, u64>>>,
    _reading: JoinSet<Result<()>>,
}

/// The message of an event: its number, and as much text as such have.
pub(crate) fn text(number: u32) -> String {
    format!(
        "bench n={number} Back-off restarting failed container app in pod web-0_shop(4f2b1c7e-6f0b-4bd2-8f6e-0e4f6c2f9a11)"
    )
}

/// Creates events with these numbers, at that pace.
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
    /// When the nth comes.
    fn after(self, nth: u32) -> Duration {
        let group = nth / self.at_once * self.at_once;
        match self.per_second {
            Some(per_second) => Duration::from_secs(1) * group / per_second,
            None => Duration::ZERO,
        }
    }
}

// === impl BareWatch ===

impl BareWatch {
    /// Watches from now on.
    pub(crate) async fn start(client: &Client, namespace: &str) -> Result<Self> {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let frames = api.watch(&WatchParams::default(), &version).await?;
        let seen: Arc<Mutex<HashMap<u32, u64>>> = Arc::default();
        let noting = Arc::clone(&seen);
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
                    noting.lock().entry(number).or_insert(now);
                }
            }
            Ok(())
        });
        Ok(Self {
            seen,
            _reading: reading,
        })
    }

    /// When each number was seen, so far.
    pub(crate) fn seen(&self) -> HashMap<u32, u64> {
        self.seen.lock().clone()
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
