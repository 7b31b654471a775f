//! Faults that are the same as one that was shown: they are counted, not shown again.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::notification::{Event, Notification};

/// Faults that are remembered. Beyond that all are forgotten: one that is shown in full once
/// more does no harm.
const FAULTS_MAX: usize = 1000;

/// The faults that were shown.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    shown: HashMap<Key, Repeat>,
}

/// A fault that was shown before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// How often it has come, with this time.
    pub(crate) count: u64,
    /// When it came first.
    pub(crate) first: Timestamp,
    /// Whether a line of a log shows a crash.
    pub(crate) is_crash: bool,
}

/// What makes two faults the same: the workload and its image, and the line that shows the
/// crash; without such a line, everything that is shown of the fault.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    workload: Workload,
    reason: String,
    image: String,
    evidence: BTreeSet<String>,
}

/// The owner of a pod, or the pod itself.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Workload {
    cluster: String,
    namespace: String,
    kind: String,
    name: String,
}

// === impl Repeats ===

impl Repeats {
    /// Counts a fault; `None` if it is the first of its kind, or not a fault.
    pub(crate) fn count(&mut self, fault: &Notification) -> Option<Repeat> {
        let event = fault.event.as_ref().filter(|_| fault.is_fault())?;
        let (key, is_crash) = Key::of(fault, event);
        if let Some(repeat) = self.shown.get_mut(&key) {
            repeat.count += 1;
            return Some(*repeat);
        }
        if self.shown.len() >= FAULTS_MAX {
            self.shown.clear();
        }
        let first = Repeat {
            count: 1,
            first: event.timestamp.unwrap_or_default(),
            is_crash,
        };
        self.shown.insert(key, first);
        None
    }

    /// Forgets the faults of a workload that has recovered: the next one is news.
    pub(crate) fn forget(&mut self, fault: &Notification) {
        if let Some(event) = &fault.event {
            let workload = Workload::of(fault, event);
            self.shown.retain(|key, _| key.workload != workload);
        }
    }
}

// === impl Key ===

impl Key {
    fn of(fault: &Notification, event: &Event) -> (Self, bool) {
        let crashes = fault.logs.iter().filter_map(|log| log.signature.as_ref());
        let crashes: BTreeSet<_> = crashes.map(|crash| crash.line.clone()).collect();
        let is_crash = !crashes.is_empty();
        let evidence = if is_crash {
            crashes
        } else {
            let logs = fault.logs.iter();
            let logs = logs.flat_map(|log| [&log.sample, &log.error].into_iter().flatten());
            logs.chain([&event.message]).cloned().collect()
        };
        let containers = fault.context.iter().flat_map(|pod| &pod.containers);
        let images: Vec<_> = containers.map(|one| one.image.as_str()).collect();
        let key = Self {
            workload: Workload::of(fault, event),
            reason: event.reason.clone(),
            image: images.join(" "),
            evidence,
        };
        (key, is_crash)
    }
}

// === impl Workload ===

impl Workload {
    fn of(fault: &Notification, event: &Event) -> Self {
        let owner = fault.context.as_ref().and_then(|pod| pod.owners.last());
        let object = owner.unwrap_or(&event.involved_object);
        Self {
            cluster: fault.cluster.clone(),
            namespace: event.namespace.clone(),
            kind: object.kind.clone(),
            name: object.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(pod: &str, image: &str, crash: Option<&str>, sample: &str) -> Notification {
        let signature = crash.map_or(Value::Null, |line| json!({"kind": "go", "line": line}));
        let data = json!({"cluster": "dev", "faultId": "f", "event": {
            "namespace": "shop", "reason": "BackOff", "message": format!("back-off of {pod}"),
            "timestamp": "2026-11-15T10:00:00Z", "involvedObject": {"kind": "Pod", "name": pod}},
            "logs": [{"container": "app", "signature": signature, "sample": sample}],
            "context": {"containers": [{"name": "app", "image": image}],
                        "owners": [{"kind": "Deployment", "name": "web"}]}});
        Notification::parse(&data).unwrap()
    }

    #[test]
    fn the_same_crash_is_counted_and_another_one_is_not() {
        let mut repeats = Repeats::default();
        let mut count = |fault: &Notification| repeats.count(fault).map(|one| one.count);
        let crash = fault("web-1", "web:1", Some("panic: nil"), "at 10:00");
        assert_eq!(count(&crash), None);
        // In another pod of the owner, and with other lines around it.
        assert_eq!(
            count(&fault("web-2", "web:1", Some("panic: nil"), "at 11")),
            Some(2)
        );
        assert_eq!(count(&crash), Some(3));
        assert_eq!(
            count(&fault("web-1", "web:1", Some("panic: full"), "")),
            None
        );
        assert_eq!(
            count(&fault("web-1", "web:2", Some("panic: nil"), "")),
            None
        );
        // Without a crash, all that is shown has to be the same.
        assert_eq!(count(&fault("web-1", "web:1", None, "tired")), None);
        assert_eq!(count(&fault("web-1", "web:1", None, "tired")), Some(2));
        assert_eq!(count(&fault("web-1", "web:1", None, "weary")), None);
        let event = json!({"event": {"reason": "Started"}});
        let event = Notification::parse(&event).unwrap();
        assert_eq!((count(&event), count(&event)), (None, None));
        repeats.forget(&crash);
        assert_eq!(repeats.count(&crash), None, "it is news again");
    }
}
