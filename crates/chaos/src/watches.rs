//! How many watches of events the API server has, by its own count.

use std::sync::Arc;

use anyhow::Result;
use kube::Client;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Duration, MissedTickBehavior, interval},
};

use crate::clock::Clock;

const METRIC: &str = "apiserver_longrunning_requests{";

/// The number at a time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) at: u32,
    pub(crate) watches: u32,
}

/// Asks once a second, until it is dropped.
pub(crate) struct Watches {
    samples: Arc<Mutex<Vec<Sample>>>,
    _asking: JoinSet<()>,
}

// === impl Watches ===

impl Watches {
    pub(crate) fn start(client: &Client, clock: Clock) -> Self {
        let samples: Arc<Mutex<Vec<Sample>>> = Arc::default();
        let (client, recording) = (client.clone(), Arc::clone(&samples));
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            let mut seconds = interval(Duration::from_secs(1));
            seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                seconds.tick().await;
                // A sample that is missing is none.
                if let Ok(watches) = watches_of_events(&client).await {
                    let at = clock.now();
                    recording.lock().push(Sample { at, watches });
                }
            }
        });
        Self {
            samples,
            _asking: asking,
        }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.samples.lock().clone()
    }
}

/// The watches that are open now.
pub(crate) async fn watches_of_events(client: &Client) -> Result<u32> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(count(&client.request_text(request).await?))
}

fn count(metrics: &str) -> u32 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(METRIC));
    let of_events = lines
        .filter(|line| line.contains("resource=\"events\"") && line.contains("verb=\"WATCH\""));
    let counts = of_events.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_of_events_are_counted_and_no_others() {
        let metrics = "# HELP apiserver_longrunning_requests gauge\n\
            apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"events\",scope=\"cluster\",verb=\"WATCH\",version=\"v1\"} 1\n\
            apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"events\",scope=\"namespace\",verb=\"WATCH\",version=\"v1\"} 2\n\
            apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"cluster\",verb=\"WATCH\",version=\"v1\"} 5\n\
            apiserver_request_total{resource=\"events\",verb=\"WATCH\"} 7\n";
        assert_eq!(count(metrics), 3);
    }
}
