//! The failure counter as it is scraped, from outbox to text.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp_notify::{
    Delivery, Metrics, Notification, NotificationSink, OutboxConfig, OutboxLimits, ResourceTypes,
    ResourceUpdated, SendError, SendFuture, Session,
};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
enum FileResource {
    Document,
    Link,
}

impl ResourceTypes for FileResource {
    const ALL: &'static [Self] = &[Self::Document, Self::Link];

    fn as_str(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Link => "link",
        }
    }
}

/// Fails each send with the next error, then accepts all.
struct Failing(Mutex<Vec<SendError>>);

impl NotificationSink for Failing {
    fn send<'a>(&'a self, _: &'a Session, _: &'a Notification) -> SendFuture<'a> {
        let error = self.0.lock().pop();
        Box::pin(async move { error.map_or(Ok(()), Err) })
    }
}

fn value(registry: &Registry, resource_type: &str, error_type: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).expect("a string takes text");
    let series = format!(
        "mcp_notification_failures_total{{resource_type=\"{resource_type}\",error_type=\"{error_type}\"}} "
    );
    text.lines()
        .find_map(|line| line.strip_prefix(&series))
        .and_then(|count| count.parse().ok())
        .expect("the series is there")
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_notification_is_one_more_in_its_series_and_a_retried_one_is_none() {
    let mut registry = Registry::default();
    let metrics = Metrics::register::<FileResource>(&mut registry);
    let reset = || SendError::classify(io::Error::from(io::ErrorKind::ConnectionReset));
    let errors = vec![reset(), reset(), reset(), reset(), reset()];
    let sink = Arc::new(Failing(Mutex::new(errors)));
    let delivery = Delivery::new(Arc::clone(&sink)).metrics(metrics);
    let session = Session::new("s");
    let mut tasks = JoinSet::new();
    tasks.spawn(delivery.run(&session));
    let update = ResourceUpdated::new("test://x").resource_type(FileResource::Document);
    let _ = session.push(update.to_notification());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        value(&registry, "document", "network"),
        1,
        "four sends failed: abandoned once"
    );
    let _ = session.push(update.to_notification());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        value(&registry, "document", "network"),
        1,
        "the retry succeeded"
    );
    assert!(sink.0.lock().is_empty());
    assert_eq!(session.outbox().stats().delivered, 1);
}

#[test]
fn what_a_full_outbox_dropped_is_counted_as_other() {
    let mut registry = Registry::default();
    let metrics = Metrics::register::<FileResource>(&mut registry);
    let limits = OutboxLimits {
        messages_max: 4,
        bytes_max: 1 << 20,
    };
    let outbox = OutboxConfig::default().limits(limits).metrics(metrics);
    let session = Session::builder().outbox(outbox).build("s");
    for n in 0..10 {
        let uri = format!("test://{n}");
        let update = ResourceUpdated::new(&uri).resource_type(FileResource::Link);
        let _ = session.push(update.to_notification());
    }
    assert_eq!(value(&registry, "link", "other"), 6);
}
