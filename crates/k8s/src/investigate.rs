//! Looks into faults of any cluster.

use std::sync::Arc;

use super::{capture::FaultCaptures, contexts::Contexts, error::ErrorKind};
use kubecrier_core::{
    Event,
    faults::{
        captures::{CaptureLimits, Captured, Fault},
        dedup::FaultKey,
        desk::{Investigation, Investigator},
        evidence::{CaptureError, Evidence, LogEntry, NOTE},
    },
    metrics::CaptureMetrics,
};

/// Evidence from the clusters of the kubeconfig.
#[derive(Debug)]
pub struct Investigators {
    contexts: Arc<Contexts>,
    captures: FaultCaptures,
}

// === impl Investigators ===

impl Investigators {
    /// Within these limits.
    pub fn new(contexts: Arc<Contexts>, limits: CaptureLimits, metrics: CaptureMetrics) -> Self {
        Self {
            contexts,
            captures: FaultCaptures::new(limits, metrics),
        }
    }
}

impl Investigator for Investigators {
    fn investigate<'a>(&'a self, cluster: &'a str, event: &'a Event) -> Investigation<'a> {
        Box::pin(async move {
            let fault = fault(cluster, event);
            match self.contexts.cluster(Some(cluster)).await {
                Ok(cluster) => self.captures.capture(&cluster, &fault).await,
                Err(error) => {
                    let why = match error.kind() {
                        ErrorKind::Timeout => CaptureError::Timeout,
                        ErrorKind::Forbidden | ErrorKind::Unauthorized => CaptureError::Forbidden,
                        _ => CaptureError::Unavailable,
                    };
                    nothing(&fault, why)
                }
            }
        })
    }

    fn throttled(&self, cluster: &str, event: &Event) -> Captured {
        nothing(&fault(cluster, event), CaptureError::Throttled)
    }

    fn is_saturated(&self, cluster: &str) -> bool {
        self.captures.is_saturated(cluster)
    }

    fn forget_old(&self) {
        self.captures.forget_old();
    }
}

fn fault(cluster: &str, event: &Event) -> Fault {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Fault {
        key: FaultKey {
            cluster: cluster.to_owned(),
            namespace: event.namespace.clone(),
            pod: event.involved.name.clone(),
            reason: event.reason.clone(),
            count: event.count,
        },
        uid: given(&event.involved.uid),
        container: container(&event.involved.field_path).map(str::to_owned),
    }
}

/// The id of the fault that an event is of.
pub(super) fn id_of(cluster: &str, event: &Event) -> String {
    fault(cluster, event).id()
}

/// The container that `spec.containers{name}` names.
fn container(field_path: &str) -> Option<&str> {
    let (_, name) = field_path.split_once('{')?;
    name.strip_suffix('}').filter(|name| !name.is_empty())
}

fn nothing(fault: &Fault, why: CaptureError) -> Captured {
    Captured {
        fault_id: fault.id(),
        evidence: Arc::new(Evidence {
            note: NOTE,
            logs: vec![LogEntry::failed("", false, why)],
            containers_omitted: Vec::new(),
            context: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_container() {
        assert_eq!(container("spec.containers{app}"), Some("app"));
        assert_eq!(container("spec.initContainers{setup}"), Some("setup"));
        assert_eq!(container("spec.containers{}"), None);
        assert_eq!(container(""), None);
    }
}
