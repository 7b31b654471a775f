//! The kinds that detectors read, and where their objects are kept.

use std::sync::Arc;

use kubecrier_incidents::{
    State, Store,
    detectors::DETECTORS,
    objects::{
        ApiService, ControllerRevision, CronJob, DaemonSet, Deployment, EndpointSlice, Event,
        HorizontalPodAutoscaler, HttpRoute, Ingress, IngressClass, Job, Meta, Namespace, Node,
        Object, ObjectRef, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
        PodTemplate, ReplicaSet, ResourceQuota, Service, StatefulSet, StorageClass,
        WebhookConfiguration,
    },
};
use kubecrier_k8s_api::{BuiltinKind, kinds};
use serde::de::DeserializeOwned;

use super::object::{KeptObject, Watched};
use crate::kind_watch::{Decoder, ListedKind, ObjectName};

/// A kind that detectors read, and what [`StoredObject`] says of its objects.
pub(super) struct WatchedKind {
    pub(super) resource: &'static BuiltinKind,
    pub(super) decoder: Decoder<&'static Self, KeptObject>,
    pub(super) is_known: fn(&State, &'static BuiltinKind, &ObjectName) -> bool,
    pub(super) delete: fn(&mut State, &'static BuiltinKind, &ObjectName) -> bool,
    pub(super) clear: fn(&mut State, &'static BuiltinKind),
    pub(super) set_known: fn(&mut State, bool),
}

/// An object that has a place in the state.
pub(super) trait StoredObject:
    Clone + DeserializeOwned + PartialEq + Send + Sync + 'static
{
    fn meta(&self) -> &Meta;

    fn meta_mut(&mut self) -> &mut Meta;

    /// The words in it that somebody wrote.
    fn free_texts(&mut self) -> Vec<&mut Box<str>>;

    /// Texts in the place of images.
    fn images(&mut self) -> Vec<&mut Box<str>> {
        Vec::new()
    }

    /// Drops messages that may be the end of a log.
    fn hide_logs(&mut self) {}

    /// Whether a detector could read it at all.
    fn is_needed(&self) -> bool {
        true
    }

    /// Whether an object of that name is there.
    fn is_known(state: &State, kind: &'static BuiltinKind, name: &ObjectName) -> bool;

    /// Adds or replaces an object; answers whether anything is another.
    fn apply(self, state: &mut State, kind: &'static BuiltinKind) -> bool;

    /// Removes an object; answers whether it was there.
    fn delete(state: &mut State, kind: &'static BuiltinKind, name: &ObjectName) -> bool;

    /// Removes all objects of the kind.
    fn clear(state: &mut State, kind: &'static BuiltinKind);

    /// Says whether what is not there does not exist.
    fn set_known(state: &mut State, is_known: bool);
}

macro_rules! kinds {
    (
        $($object:ty: $resource:ident => $store:ident $({ $($more:item)+ })?,)+ ;
        $($special:ty: $other:ident,)+
    ) => {
        $(impl StoredObject for $object {
            fn meta(&self) -> &Meta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut Meta {
                &mut self.metadata
            }

            fn free_texts(&mut self) -> Vec<&mut Box<str>> {
                Object::free_texts(self)
            }

            fn is_known(state: &State, _kind: &'static BuiltinKind, name: &ObjectName) -> bool {
                state.$store.get(&name.namespace, &name.name).is_some()
            }

            fn apply(self, state: &mut State, _kind: &'static BuiltinKind) -> bool {
                apply(&mut state.$store, self)
            }

            fn delete(state: &mut State, _kind: &'static BuiltinKind, name: &ObjectName) -> bool {
                let (namespace, name) = (&name.namespace, &name.name);
                let is_known = state.$store.get(namespace, name).is_some();
                // With what was noted about it.
                state.delete(<$object as Object>::KIND, namespace, name);
                is_known
            }

            fn clear(state: &mut State, _kind: &'static BuiltinKind) {
                state.$store = Store::default();
            }

            fn set_known(state: &mut State, is_known: bool) {
                state.$store.set_known(is_known);
            }

            $($($more)+)?
        })+

        /// All kinds that detectors read, and events.
        pub(super) static KINDS: &[WatchedKind] = &[
            $(WatchedKind::of::<$object>(&kinds::$resource),)+
            $(WatchedKind::of::<$special>(&kinds::$other),)+
        ];
    };
}

kinds! {
    Namespace: NAMESPACE => namespaces,
    Node: NODE => nodes,
    Pod: POD => pods {
        fn images(&mut self) -> Vec<&mut Box<str>> {
            let containers = self.spec.init_containers.iter_mut();
            let containers = containers.chain(&mut self.spec.containers);
            containers.map(|container| &mut container.image).collect()
        }

        /// The kubelet's own words stay: of a container that never ran there is no log.
        fn hide_logs(&mut self) {
            let statuses = self.status.init_container_statuses.iter_mut();
            for status in statuses.chain(&mut self.status.container_statuses) {
                for state in [&mut status.state, &mut status.last_state] {
                    if let Some(ended) = &mut state.terminated
                        && !matches!(&*ended.reason, "StartError" | "ContainerCannotRun")
                    {
                        ended.message = Box::default();
                    }
                }
            }
        }
    },
    Deployment: DEPLOYMENT => deployments,
    ReplicaSet: REPLICA_SET => replica_sets {
        fn images(&mut self) -> Vec<&mut Box<str>> {
            template_images(&mut self.spec.template)
        }
    },
    StatefulSet: STATEFUL_SET => stateful_sets,
    DaemonSet: DAEMON_SET => daemon_sets,
    Job: JOB => jobs,
    CronJob: CRON_JOB => cron_jobs,
    PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIM => claims,
    PersistentVolume: PERSISTENT_VOLUME => volumes,
    StorageClass: STORAGE_CLASS => storage_classes,
    HorizontalPodAutoscaler: HORIZONTAL_POD_AUTOSCALER => autoscalers,
    PodDisruptionBudget: POD_DISRUPTION_BUDGET => budgets,
    ResourceQuota: RESOURCE_QUOTA => quotas,
    Service: SERVICE => services,
    EndpointSlice: ENDPOINT_SLICE => slices,
    Ingress: INGRESS => ingresses,
    IngressClass: INGRESS_CLASS => ingress_classes,
    ControllerRevision: CONTROLLER_REVISION => revisions {
        fn images(&mut self) -> Vec<&mut Box<str>> {
            template_images(&mut self.data.spec.template)
        }
    },
    HttpRoute: HTTP_ROUTE => routes,
    ApiService: API_SERVICE => api_services,
    ;
    WebhookConfiguration: VALIDATING_WEBHOOK_CONFIGURATION,
    WebhookConfiguration: MUTATING_WEBHOOK_CONFIGURATION,
    Event: EVENT,
}

fn template_images(template: &mut PodTemplate) -> Vec<&mut Box<str>> {
    let containers = template.spec.containers.iter_mut();
    containers.map(|container| &mut container.image).collect()
}

/// Whether a cluster may do without the kind: nothing is missing then.
pub(super) fn is_optional(kind: &BuiltinKind) -> bool {
    *kind == kinds::HTTP_ROUTE
}

/// All kinds that detectors read, and events.
pub(crate) fn incident_kinds() -> impl Iterator<Item = &'static BuiltinKind> {
    KINDS.iter().map(|kind| kind.resource)
}

/// The detectors that see nothing, or less, without a kind.
pub(crate) fn blind_without(kind: &BuiltinKind) -> impl Iterator<Item = &'static str> {
    let needs = |needed: &[&str]| needed.contains(&kind.kind);
    DETECTORS
        .iter()
        .filter(move |detector| needs(detector.kinds))
        .map(|detector| detector.name)
}

fn apply<T: Object + PartialEq>(store: &mut Store<T>, object: T) -> bool {
    let meta = object.meta();
    let known = store.get(&meta.namespace, &meta.name);
    let changed = known.is_none_or(|known| **known != object);
    if changed {
        store.apply(object);
    }
    changed
}

// === impl WatchedKind ===

impl WatchedKind {
    const fn of<T: StoredObject>(resource: &'static BuiltinKind) -> Self {
        Self {
            resource,
            decoder: Decoder::of::<Watched<T>>(),
            is_known: T::is_known,
            delete: T::delete,
            clear: T::clear,
            set_known: T::set_known,
        }
    }
}

impl ListedKind for &'static WatchedKind {
    fn resource(self) -> &'static BuiltinKind {
        self.resource
    }
}

// === impl WebhookConfiguration ===

impl StoredObject for WebhookConfiguration {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn free_texts(&mut self) -> Vec<&mut Box<str>> {
        Vec::new()
    }

    fn is_known(state: &State, kind: &'static BuiltinKind, name: &ObjectName) -> bool {
        let id = ObjectRef::new(kind.kind, "", &*name.name);
        state.webhooks.contains_key(&id)
    }

    fn apply(self, state: &mut State, kind: &'static BuiltinKind) -> bool {
        let id = ObjectRef::new(kind.kind, "", Arc::clone(&self.metadata.name));
        let known = state.webhooks.get(&id);
        let changed = known.is_none_or(|known| **known != self);
        state.webhooks.insert(id, Arc::new(self));
        changed
    }

    fn delete(state: &mut State, kind: &'static BuiltinKind, name: &ObjectName) -> bool {
        let id = ObjectRef::new(kind.kind, "", &*name.name);
        state.webhooks.remove(&id).is_some()
    }

    fn clear(state: &mut State, kind: &'static BuiltinKind) {
        state.webhooks.retain(|id, _| id.kind != kind.kind);
    }

    fn set_known(_state: &mut State, _is_known: bool) {}
}

// === impl Event ===

impl StoredObject for Event {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn free_texts(&mut self) -> Vec<&mut Box<str>> {
        Object::free_texts(self)
    }

    /// Events explain objects; one about anything else explains nothing.
    fn is_needed(&self) -> bool {
        let about = &*self.involved_object.kind;
        KINDS.iter().any(|kind| kind.resource.kind == about)
    }

    /// The state bounds events by itself.
    fn is_known(_state: &State, _kind: &'static BuiltinKind, _name: &ObjectName) -> bool {
        true
    }

    fn apply(self, state: &mut State, _kind: &'static BuiltinKind) -> bool {
        state.apply_event(self);
        true
    }

    /// The API server forgets events sooner than they stop to explain.
    fn delete(_state: &mut State, _kind: &'static BuiltinKind, _name: &ObjectName) -> bool {
        false
    }

    fn clear(state: &mut State, _kind: &'static BuiltinKind) {
        state.forget_events(jiff::Timestamp::MAX);
    }

    fn set_known(_state: &mut State, _is_known: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_a_detector_needs_is_watched() {
        for detector in DETECTORS {
            for needed in detector.kinds {
                let mut watched = KINDS.iter();
                let is_watched = watched.any(|kind| kind.resource.kind == *needed);
                assert!(is_watched, "{} needs {needed}", detector.name);
            }
        }
        assert_eq!(KINDS.len(), 25);
    }
}
