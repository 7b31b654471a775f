//! The delivery of alerts to Alertmanager: at once when one fires or is over, and again each
//! minute while it fires.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use jiff::Timestamp;
use kubecrier_core::metrics::SinkOutcome;
use kubecrier_redact::Redactor;
use std::{future::Future, time::Duration};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    board::{Batch, RESEND},
    config::{SinkConfig, TargetConfig},
    delivery::{DeliveryError, Health},
    http::{HttpClient, Message},
    payload::alert::Alert,
    sink::Shared,
};

/// The place of the API.
pub(crate) const ALERTS: &str = "/api/v2/alerts";

/// Alerts in one request.
const ALERTS_MAX: usize = 100;

/// The time for a last request when the process ends.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// Takes alerts. A trait for tests with a target that fails on purpose.
pub(crate) trait SendAlerts: Send + Sync {
    fn send(&self, alerts: &[Alert]) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

/// The API of an Alertmanager.
#[derive(Debug)]
pub(crate) struct AlertTarget {
    client: HttpClient,
}

// === impl AlertTarget ===

impl AlertTarget {
    pub(crate) fn new(config: &SinkConfig, redactor: &Redactor) -> Option<Self> {
        let TargetConfig::Alertmanager { http, .. } = &config.target else {
            return None;
        };
        Some(Self {
            client: HttpClient::new(http.clone(), config.timeout, redactor.clone()),
        })
    }
}

impl SendAlerts for AlertTarget {
    async fn send(&self, alerts: &[Alert]) -> Result<(), DeliveryError> {
        let body = serde_json::to_vec(alerts)
            .map_err(|error| DeliveryError::rejected(error.to_string()))?;
        let json = HeaderValue::from_static("application/json");
        let message = Message {
            id: String::new(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            body,
        };
        self.client.post(ALERTS, message).await.map(drop)
    }
}

/// Sends alerts until the process ends.
pub(crate) async fn run(shared: &Shared, target: &impl SendAlerts, stop: &CancellationToken) {
    let mut health = Health::default();
    let mut next = None;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = shared.changed() => {}
            () = due(next) => {}
        }
        let batch = shared.batch(Timestamp::now());
        let result = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            result = send(target, &batch) => result,
        };
        next = match result {
            Ok(requests) => {
                shared.metrics().count(SinkOutcome::Delivered, requests);
                if requests > 0 {
                    health.delivered(shared.name());
                }
                let is_firing = shared.delivered(&batch);
                is_firing.then(|| Instant::now() + RESEND)
            }
            Err(error) => {
                if let DeliveryError::Rejected { .. } = error {
                    shared.metrics().count(SinkOutcome::Rejected, 1);
                    shared.reject(&batch);
                } else {
                    shared.metrics().count(SinkOutcome::Failed, 1);
                }
                let pause = health.failed(shared.name(), &error);
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = sleep_until(Instant::now() + pause) => {}
                }
                Some(Instant::now())
            }
        };
    }
    // What is over should not fire until it ends by itself.
    let batch = shared.batch(Timestamp::now());
    let _last = timeout(LAST_CHANCE, send(target, &batch)).await;
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Sends a batch in as many requests as it takes; how many these were.
async fn send(target: &impl SendAlerts, batch: &Batch) -> Result<usize, DeliveryError> {
    let mut requests = 0;
    for alerts in batch.alerts.chunks(ALERTS_MAX) {
        target.send(alerts).await?;
        requests += 1;
    }
    Ok(requests)
}

#[cfg(test)]
mod tests;
