use mcp_notify::{Metrics, OutboxConfig, OutboxLimits};
use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;
use crate::{
    resources::{Resources, tests::Notes},
    tool_filter::ToolFilter,
};
use kubecrier_core::shares::CallerShare;

#[test]
fn an_update_of_a_feed_that_is_lost_counts_as_events() {
    let mut registry = Registry::default();
    let metrics = Metrics::register::<ResourceType>(&mut registry);
    let limits = OutboxLimits {
        messages_max: 1,
        ..OutboxLimits::default()
    };
    let outbox = OutboxConfig::default().limits(limits).metrics(metrics);
    let session = Session::builder().outbox(outbox).build("slow");
    let notes = vec![Box::new(Notes::default()) as _];
    let resources = Resources::new(notes, ToolFilter::default(), CallerShare::default());
    let requester = Requester {
        session: Some(session.clone()),
        caller: Caller::current(),
        peer: None,
        era: ProtocolEra::Legacy,
    };
    let notifier = FeedNotifier(resources.updates().clone());
    for uri in ["note:///a", "note:///b"] {
        resources.subscribe(&session, uri, &requester).unwrap();
        let (seq, count, summary) = (1, 1, String::new());
        notifier.notify_updated(
            uri,
            &UpdateSummary {
                seq,
                count,
                summary,
            },
            None,
        );
    }
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let lost = r#"failures_total{resource_type="events",error_type="other"} 1"#;
    assert!(text.contains(lost), "{text}");
}
