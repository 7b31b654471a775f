//! Events, as kubelets and controllers record them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    random::Random,
    resource::{EVENTS, RESOURCES},
    store::{ObjectKey, Store},
};

/// An event to record about an object. A repetition counts up the event that is stored.
#[derive(Clone, Debug)]
pub struct NewEvent {
    namespace: String,
    kind: String,
    name: String,
    field: Option<String>,
    warning: bool,
    reason: String,
    message: String,
    component: String,
    host: Option<String>,
    times: u32,
    series: bool,
}

// === impl NewEvent ===

impl NewEvent {
    /// An event of type `Normal`. `object` is written `Kind/name`.
    pub fn normal(namespace: &str, object: &str, reason: &str, message: &str) -> Self {
        let (kind, name) = object.split_once('/').unwrap_or(("Pod", object));
        Self {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            field: None,
            warning: false,
            reason: reason.to_owned(),
            message: message.to_owned(),
            component: "kubelet".to_owned(),
            host: None,
            times: 1,
            series: false,
        }
    }

    /// An event of type `Warning`. `object` is written `Kind/name`.
    pub fn warning(namespace: &str, object: &str, reason: &str, message: &str) -> Self {
        Self {
            warning: true,
            ..Self::normal(namespace, object, reason, message)
        }
    }

    /// The component that reports it; `kubelet` by default.
    #[must_use]
    pub fn from(mut self, component: &str) -> Self {
        component.clone_into(&mut self.component);
        self
    }

    /// The node that it is reported from.
    #[must_use]
    pub fn on(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// The part of the object that it is about: `spec.containers{web}`.
    #[must_use]
    pub fn about(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    /// How often it happened at once.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Counts in `series` instead of `count`, as `events.k8s.io` does.
    #[must_use]
    pub fn in_series(mut self) -> Self {
        self.series = true;
        self
    }

    /// The object to store: the stored event with a higher count, or a new one.
    pub(crate) fn record(&self, store: &mut Store, now: Timestamp) -> Value {
        let prefix = format!("{}.", self.name);
        let known = store
            .with_prefix(EVENTS, &self.namespace, &prefix)
            .find(|event| self.repeats(event));
        match known.map(|event| Value::clone(event)) {
            Some(event) => self.count_up(event, now),
            None => {
                let involved = self.involved(store);
                self.to_object(involved, store.random(), now)
            }
        }
    }

    fn repeats(&self, event: &Value) -> bool {
        let object = &event["involvedObject"];
        let kind = if self.warning { "Warning" } else { "Normal" };
        object["name"] == self.name
            && object["kind"] == self.kind
            && event["metadata"]["namespace"] == self.namespace
            && event["reason"] == self.reason
            && event["message"] == self.message
            && event["type"] == kind
            && object["fieldPath"].as_str() == self.field.as_deref()
    }

    fn count_up(&self, mut event: Value, now: Timestamp) -> Value {
        if self.series {
            let count = event["series"]["count"].as_u64().unwrap_or(1) + u64::from(self.times);
            event["series"] = json!({"count": count, "lastObservedTime": clock::micros(now)});
        } else {
            let count = event["count"].as_u64().unwrap_or(0) + u64::from(self.times);
            event["count"] = count.into();
            event["lastTimestamp"] = clock::seconds(now).into();
        }
        event
    }

    fn to_object(&self, involved: Value, random: &mut Random, now: Timestamp) -> Value {
        let mut source = json!({"component": self.component});
        if let Some(host) = &self.host {
            source["host"] = host.as_str().into();
        }
        let instance = self.host.as_deref().unwrap_or_default();
        let mut event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "namespace": self.namespace,
                "name": format!("{}.{:016x}", self.name, random.next()),
            },
            "involvedObject": involved,
            "type": if self.warning { "Warning" } else { "Normal" },
            "reason": self.reason,
            "message": self.message,
            "source": source,
            "firstTimestamp": clock::seconds(now),
            "lastTimestamp": clock::seconds(now),
            "count": self.times,
            "eventTime": null,
            "reportingComponent": self.component,
            "reportingInstance": instance,
        });
        if self.series {
            event["eventTime"] = clock::micros(now).into();
            event["firstTimestamp"] = Value::Null;
            event["lastTimestamp"] = Value::Null;
            event["source"] = json!({});
            if let Some(fields) = event.as_object_mut() {
                fields.remove("count");
            }
            if self.times > 1 {
                event["series"] =
                    json!({"count": self.times, "lastObservedTime": clock::micros(now)});
            }
        }
        event
    }

    fn involved(&self, store: &Store) -> Value {
        let resource = RESOURCES.iter().find(|one| one.api.kind == self.kind);
        let mut involved = json!({"kind": self.kind, "name": self.name});
        if let Some(resource) = resource {
            involved["apiVersion"] = resource.api.api_version().into();
            let namespace = if resource.api.namespaced {
                &*self.namespace
            } else {
                ""
            };
            if resource.api.namespaced {
                involved["namespace"] = namespace.into();
            }
            let key = ObjectKey {
                resource: resource.store_key(),
                namespace: namespace.to_owned(),
                name: self.name.clone(),
            };
            if let Some(object) = store.get(&key) {
                involved["uid"] = object["metadata"]["uid"].clone();
                involved["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            }
        }
        if let Some(field) = &self.field {
            involved["fieldPath"] = field.as_str().into();
        }
        involved
    }
}
