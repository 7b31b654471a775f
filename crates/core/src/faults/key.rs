//! Identity of a fault: the key of one occurrence, and the id that all its repetitions
//! share.

use sha2::{Digest, Sha256};

use crate::Event;

/// Key of a fault's occurrence: two warnings with the same key are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FaultKey {
    /// Context of the kubeconfig.
    pub cluster: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Reason of the event.
    pub reason: String,
    /// Count of the event's series, else of the event, else 1.
    pub count: i32,
}

/// One occurrence of a fault, with all that its event says about the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Key of this occurrence.
    pub key: FaultKey,
    /// The pod's uid, if the event has one: another pod of the same name is another fault.
    pub uid: Option<String>,
    /// The container, if the event names one.
    pub container: Option<String>,
}

// === impl FaultKey ===

impl FaultKey {
    /// The key of a warning about a pod.
    pub fn new(cluster: &str, event: &Event) -> Self {
        Self {
            cluster: cluster.to_owned(),
            namespace: event.namespace.clone(),
            pod: event.involved.name.clone(),
            reason: event.reason.clone(),
            count: event.count,
        }
    }
}

// === impl Fault ===

impl Fault {
    /// The fault that a warning about a pod reports; `key` is the key of that event.
    pub fn new(key: FaultKey, event: &Event) -> Self {
        let uid = &event.involved.uid;
        Self {
            key,
            uid: (!uid.is_empty()).then(|| uid.clone()),
            container: container(&event.involved.field_path).map(str::to_owned),
        }
    }

    /// The fault that a warning about a pod reports.
    pub fn of_event(cluster: &str, event: &Event) -> Self {
        Self::new(FaultKey::new(cluster, event), event)
    }

    /// Id of the fault: the same for each of its repetitions, another for another pod of
    /// the same name.
    pub fn id(&self) -> String {
        // Some reporters leave the uid out; the name will do until the pod is replaced.
        let of_name = format!("{}/{}", self.key.namespace, self.key.pod);
        let uid = self.uid.as_deref().unwrap_or(&of_name);
        let container = self.container.as_deref().unwrap_or_default();
        fault_id(&self.key.cluster, &self.key.reason, uid, container)
    }
}

fn fault_id(cluster: &str, reason: &str, uid: &str, container: &str) -> String {
    let mut hash = Sha256::new();
    for part in [cluster, reason, uid, container] {
        // With lengths, or `a` and `bc` would be `ab` and `c`.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The container that a field path such as `spec.containers{name}` names.
fn container(field_path: &str) -> Option<&str> {
    let (_, name) = field_path.split_once('{')?;
    name.strip_suffix('}').filter(|name| !name.is_empty())
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

    #[test]
    fn a_fault_keeps_its_id_and_others_have_their_own() {
        let id = fault_id("dev", "BackOff", "u-1", "app");
        assert_eq!(id, fault_id("dev", "BackOff", "u-1", "app"));
        assert_eq!(id.len(), 16);
        let others = [
            fault_id("prod", "BackOff", "u-1", "app"),
            fault_id("dev", "Failed", "u-1", "app"),
            fault_id("dev", "BackOff", "u-2", "app"),
            fault_id("dev", "BackOff", "u-1", "db"),
            fault_id("dev", "BackOff", "u-1a", "pp"),
        ];
        assert!(others.iter().all(|other| *other != id));
        // Clients keep it: it must not change from release to release.
        assert_eq!(id, "c7594406f01c5f47");
    }
}
