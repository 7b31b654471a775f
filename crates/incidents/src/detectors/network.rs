//! Detectors of what sends traffic to pods, and of what scales them by it.

use jiff::Timestamp;
use serde_json::Value;

use super::Context;
use crate::{
    messages::words,
    objects::{
        ContainerPort, HorizontalPodAutoscaler, LEADER, Meta, Object, ObjectRef, Pod, Service,
        ServicePort, condition, selects,
    },
    symptom::{Severity, Symptom},
};

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for service in context.state.services.iter() {
        if service.is_selecting() && !service.metadata.is_deleted() {
            found.extend(of_service(context, service));
        }
    }
    for autoscaler in context.state.autoscalers.iter() {
        if !autoscaler.metadata.is_deleted() {
            found.extend(of_autoscaler(context, autoscaler));
        }
    }
}

fn of_service(context: &Context<'_>, service: &Service) -> Option<Symptom> {
    let state = context.state;
    if !state.pods.is_known() || !state.slices.is_known() {
        return None;
    }
    let meta = &service.metadata;
    // Leader elections of old keep their lease where endpoints would be.
    if meta.annotations.contains_key(LEADER) {
        return None;
    }
    let (mut ready, mut target) = (0, None);
    for slice in context.slices_of(&meta.namespace, &meta.name) {
        ready += slice.ready();
        let first = slice
            .endpoints
            .first()
            .map(|endpoint| &endpoint.target.name);
        target = target.or(first.filter(|name| !name.is_empty()));
    }
    if ready > 0 {
        let pod = target.and_then(|name| state.pods.get(&meta.namespace, name))?;
        return wrong_port(context, service, pod);
    }
    let id = service.object_ref();
    let mut pods = context.selected(&meta.namespace, &service.spec.selector);
    let Some(pod) = pods.find(|pod| !pod.is_over()) else {
        return selects_nothing(context, service);
    };
    if context.answers(&meta.namespace, &meta.name) {
        return wrong_port(context, service, pod);
    }
    if service.spec.publish_not_ready_addresses || service.is_headless() {
        return None;
    }
    if let Some(symptom) = wrong_port(context, service, pod) {
        return Some(symptom);
    }
    let since = pod
        .condition("Ready")
        .and_then(|ready| ready.last_transition_time);
    let since = context.since(since, &**pod);
    let workload = state.top_owner(&pod.object_ref(), &pod.metadata);
    let symptom = Symptom::new("service", id, since, "has no ready endpoint");
    Some(
        symptom
            .severity(Severity::Critical)
            .caused_by(Some(workload)),
    )
}

/// A Service that no pod belongs to.
fn selects_nothing(context: &Context<'_>, service: &Service) -> Option<Symptom> {
    let id = service.object_ref();
    let since = context.born(service);
    let mut done = context.selected(&service.metadata.namespace, &service.spec.selector);
    if done.next().is_some() || is_optional(context, service) {
        return None;
    }
    if let Some(workload) = selected_workload(context, service) {
        return empty_workload(service, workload, since);
    }
    let pairs = service.spec.selector.iter();
    let selector: Vec<_> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    let near = nearest_workload(context, service);
    let what = format!("selects no pod ({})", selector.join(","));
    let why = near.map_or(String::new(), |near| format!("{near} has other labels"));
    let symptom = Symptom::new("service", id, since, what);
    Some(symptom.why(why).severity(Severity::Critical))
}

/// Whether a Service is only there for a webhook that need not answer.
fn is_optional(context: &Context<'_>, service: &Service) -> bool {
    let hooks = context
        .state
        .webhooks
        .values()
        .flat_map(|one| &one.webhooks);
    let mut mine = hooks.filter(|hook| {
        let config = hook.client_config.service.as_ref();
        config.is_some_and(|config| {
            config.name == service.metadata.name && config.namespace == service.metadata.namespace
        })
    });
    mine.any(|hook| &*hook.failure_policy == "Ignore")
}

/// A workload whose template has the labels that a Service selects: its name, how many pods it
/// wants, and whether something scales it.
fn selected_workload(context: &Context<'_>, service: &Service) -> Option<(ObjectRef, i64, bool)> {
    let state = context.state;
    let namespace = &*service.metadata.namespace;
    let selector = &service.spec.selector;
    let matches = |template: &Meta| selects(selector, &template.labels);
    let scaled = |kind: &str, meta: &Meta| {
        let owned = meta.controller().is_some();
        let mut scalers = state.autoscalers.in_namespace(namespace);
        owned
            || scalers.any(|one| {
                let target = &one.spec.scale_target_ref;
                // An autoscaler gives up on a workload that somebody has scaled to zero, unless
                // it is itself the tool of something that scales from zero.
                let has_given_up = condition(&one.status.conditions, "ScalingActive")
                    .is_some_and(|one| &*one.reason == "ScalingDisabled")
                    && one.metadata.controller().is_none();
                &*target.kind == kind && target.name == meta.name && !has_given_up
            })
    };
    let deployment = state
        .deployments
        .in_namespace(namespace)
        .find(|one| matches(&one.spec.template.metadata))
        .map(|one| {
            (
                one.object_ref(),
                one.spec.wanted(),
                scaled("Deployment", &one.metadata),
            )
        });
    deployment.or_else(|| {
        state
            .stateful_sets
            .in_namespace(namespace)
            .find(|one| matches(&one.spec.template.metadata))
            .map(|one| {
                (
                    one.object_ref(),
                    one.spec.wanted(),
                    scaled("StatefulSet", &one.metadata),
                )
            })
    })
}

fn empty_workload(
    service: &Service,
    (workload, wanted, is_scaled): (ObjectRef, i64, bool),
    since: Timestamp,
) -> Option<Symptom> {
    if wanted > 0 {
        // It cannot create its pods, which it says itself.
        let symptom = Symptom::new("service", service.object_ref(), since, "has no endpoint");
        return Some(
            symptom
                .severity(Severity::Critical)
                .caused_by(Some(workload)),
        );
    }
    if is_scaled {
        return None;
    }
    let what = format!(
        "is scaled to zero, and {} leads to it",
        service.object_ref().short()
    );
    let symptom = Symptom::new("scaled-to-zero", workload, since, what);
    Some(symptom.severity(Severity::Critical).certain())
}

/// The workload of the same name, which a Service was probably meant for.
fn nearest_workload(context: &Context<'_>, service: &Service) -> Option<String> {
    let (namespace, name) = (&*service.metadata.namespace, &*service.metadata.name);
    let state = context.state;
    let deployment = state
        .deployments
        .get(namespace, name)
        .map(|one| one.object_ref());
    let other = || {
        state
            .stateful_sets
            .get(namespace, name)
            .map(|one| one.object_ref())
    };
    deployment.or_else(other).map(|id| id.short())
}

/// The protocol of a port; the API server fills it in, and a dump may lack it.
fn protocol(given: &str) -> &str {
    match given {
        "" => "TCP",
        given => given,
    }
}

/// A Service whose target port no container of its pods declares.
fn wrong_port(context: &Context<'_>, service: &Service, pod: &Pod) -> Option<Symptom> {
    let declared: Vec<_> = pod
        .spec
        .containers
        .iter()
        .chain(&pod.spec.init_containers)
        .flat_map(|container| &container.ports)
        .collect();
    // Ports need not be declared.
    if declared.is_empty() {
        return None;
    }
    let is_meant = |port: &ContainerPort, target: &Value| match target {
        Value::String(name) => *port.name == **name,
        number => number.as_i64() == Some(port.container_port.into()),
    };
    let is_declared = |wanted: &ServicePort| {
        let target = wanted.target();
        let mut declared = declared.iter();
        declared.any(|port| {
            is_meant(port, &target) && protocol(&port.protocol) == protocol(&wanted.protocol)
        })
    };
    let ports = &service.spec.ports;
    let wrong = ports.iter().find(|port| !is_declared(port))?;
    let target = wrong.target();
    let is_other_protocol = declared.iter().any(|port| is_meant(port, &target));
    let target = match target {
        Value::String(name) => name,
        number => number.to_string(),
    };
    let all_wrong = !ports.iter().any(is_declared);
    let with = if is_other_protocol {
        format!(" with {}", protocol(&wrong.protocol))
    } else {
        String::new()
    };
    let what = format!("leads to port {target}{with}, which no container has");
    let known: Vec<_> = declared
        .iter()
        .map(|port| match protocol(&port.protocol) {
            "TCP" if !is_other_protocol => port.container_port.to_string(),
            protocol => format!("{}/{protocol}", port.container_port),
        })
        .collect();
    let why = format!("containers declare {}", known.join(", "));
    let since = context.born(service);
    let severity = if all_wrong {
        Severity::Warning
    } else {
        Severity::Info
    };
    let symptom = Symptom::new("service", service.object_ref(), since, what);
    Some(symptom.why(why).severity(severity))
}

fn of_autoscaler(context: &Context<'_>, one: &HorizontalPodAutoscaler) -> Option<Symptom> {
    let conditions = &one.status.conditions;
    let id = one.object_ref();
    let broken = ["ScalingActive", "AbleToScale"]
        .into_iter()
        .find_map(|kind| {
            condition(conditions, kind)
                .filter(|one| one.is_false() && &*one.reason != "ScalingDisabled")
        });
    if let Some(broken) = broken {
        let what = match &*broken.kind {
            "ScalingActive" => "cannot read its metrics",
            _ => "cannot scale",
        };
        let since = context.since(broken.last_transition_time, one);
        let symptom = Symptom::new("autoscaler", id, since, what).reason(&broken.reason);
        return Some(symptom.why(words(&broken.message)));
    }
    let limited = condition(conditions, "ScalingLimited")
        .filter(|one| one.is_true() && &*one.reason == "TooManyReplicas")?;
    let fixed = one.spec.min_replicas.unwrap_or(1) >= one.spec.max_replicas;
    let since = context.since(limited.last_transition_time, one);
    let what = format!(
        "wants more than its maximum of {} pods",
        one.spec.max_replicas
    );
    let symptom = Symptom::new("autoscaler-limit", id, since, what)
        .reason(&limited.reason)
        .why(words(&limited.message));
    (!fixed).then(|| symptom.severity(Severity::Info))
}
