//! Incidents for tests.

use kubecrier_core::filters::{FilterRequest, Mode};
use kubecrier_incidents::{Change, Effect, Incident, Severity, objects::ObjectRef};

use crate::config::{SinkFilter, Transitions};

/// An incident of a Deployment in the namespace `shop`.
pub(crate) fn incident(name: &str) -> Incident {
    Incident {
        id: format!("i-{name}"),
        detector: "crash-loop",
        object: ObjectRef::new("Deployment", "shop", name),
        severity: Severity::Critical,
        since: "2026-11-15T10:00:00Z".parse().unwrap(),
        headline: format!("shop/deployment/{name}: all 3 pods crash at start (exit 2)"),
        reason: "CrashLoopBackOff".into(),
        why: "panic: no provider for eur".to_owned(),
        effects: vec![Effect {
            object: ObjectRef::new("Pod", "shop", format!("{name}-0")),
            what: "crashes at start".to_owned(),
        }],
        changes: vec![Change {
            object: ObjectRef::new("Deployment", "shop", name),
            what: "rollout to payment:1.9.0".to_owned(),
            at: "2026-11-15T09:59:00Z".parse().unwrap(),
        }],
        symptoms: Vec::new(),
    }
}

/// Everything, with its beginning and its end.
pub(crate) fn filter() -> SinkFilter {
    let request = FilterRequest {
        mode: Mode::Incidents,
        ..FilterRequest::default()
    };
    SinkFilter {
        contexts: Vec::new(),
        filters: request.try_into().unwrap(),
        severity: Severity::Info,
        detectors: std::collections::BTreeSet::new(),
        transitions: Transitions::ENDS,
    }
}
