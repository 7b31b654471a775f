//! Checks whether servers with these settings could work together.

use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::NatsStore;
use tokio::time::Instant;

use super::report::{Finding, Section};
use crate::{cli::Settings, config::Config};

/// Connects to the store as a server does; the streams are made if they are not there. What is
/// wrong with the settings themselves is found with the others.
pub(super) async fn check_store(settings: &Settings) -> Option<Section> {
    let config = Config::try_from(settings.clone()).ok()?.cluster_store?;
    let lifecycle = Lifecycle::default();
    let began = Instant::now();
    let finding = match NatsStore::connect(&config, &lifecycle).await {
        Ok(_store) => {
            let (millis, fleet) = (began.elapsed().as_millis(), &config.fleet);
            Finding::ok(format!(
                "NATS takes records and a log for the fleet `{fleet}`, after {millis} ms"
            ))
        }
        Err(error) => Finding::fail(error.to_string()),
    };
    lifecycle.drain();
    Some(Section::new("cluster store", vec![finding]))
}
