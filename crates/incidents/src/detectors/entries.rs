//! Detectors of ways in from outside: Ingresses, routes and load balancers.

use super::Context;
use crate::{
    messages::words,
    objects::{HttpRoute, Ingress, Object, ObjectRef, Service},
    symptom::{Severity, Symptom},
};

/// Why a load balancer cannot be had, as clouds and controllers call it.
const LOAD_BALANCER_REASONS: [&str; 7] = [
    "SyncLoadBalancerFailed",
    "CreatingLoadBalancerFailed",
    "UpdateLoadBalancerFailed",
    "FailedBuildModel",
    "FailedDeployModel",
    "AllocationFailed",
    "UnAvailableLoadBalancer",
];

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for service in context.state.services.iter() {
        if service.lacks_load_balancer() && !service.metadata.is_deleted() {
            found.extend(without_address(context, service));
        }
    }
    for ingress in context.state.ingresses.iter() {
        if !ingress.metadata.is_deleted() {
            found.extend(of_ingress(context, ingress).or_else(|| unserved(context, ingress)));
        }
    }
    for route in context.state.routes.iter() {
        found.extend(of_route(context, route));
    }
}

/// A Service that no load balancer serves, though somebody tries. Where nobody does, as on most
/// clusters at home, it is normal.
fn without_address(context: &Context<'_>, service: &Service) -> Option<Symptom> {
    let warning = context.warning(service, &LOAD_BALANCER_REASONS)?;
    let since = context.since(warning.first_seen(), service);
    let what = "gets no address from a load balancer";
    let symptom = Symptom::new("load-balancer", service.object_ref(), since, what);
    Some(symptom.reason(&warning.reason).why(words(&warning.message)))
}

fn of_route(context: &Context<'_>, route: &HttpRoute) -> Option<Symptom> {
    let parents = route.status.parents.iter();
    let mut conditions = parents.flat_map(|parent| &parent.conditions);
    let broken = conditions.find(|one| &*one.kind == "ResolvedRefs" && one.is_false())?;
    let since = context.since(broken.last_transition_time, route);
    let symptom = Symptom::new("route", route.object_ref(), since, "leads nowhere");
    Some(symptom.why(words(&broken.message)).certain())
}

/// An Ingress of a class that is not there, and that nobody serves.
fn unserved(context: &Context<'_>, ingress: &Ingress) -> Option<Symptom> {
    let classes = &context.state.ingress_classes;
    let class = ingress.spec.ingress_class_name.as_ref()?;
    let is_served = !ingress.status.load_balancer.ingress.is_empty();
    if is_served || !classes.is_known() || classes.get("", class).is_some() {
        return None;
    }
    let known: Vec<_> = classes.iter().map(|one| &*one.metadata.name).collect();
    let why = match known.as_slice() {
        [] => "the cluster has no IngressClass".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    let what = format!("asks for ingressclass/{class}, which does not exist");
    let symptom = Symptom::new("route", ingress.object_ref(), context.born(ingress), what);
    Some(symptom.why(why).severity(Severity::Warning))
}

fn of_ingress(context: &Context<'_>, ingress: &Ingress) -> Option<Symptom> {
    let services = &context.state.services;
    if !services.is_known() {
        return None;
    }
    let since = context.born(ingress);
    ingress.services().find_map(|backend| {
        let id = ingress.object_ref();
        let Some(service) = services.get(&ingress.metadata.namespace, &backend.name) else {
            let what = format!("leads to service/{}, which does not exist", backend.name);
            let symptom = Symptom::new("route", id, since, what);
            let service =
                ObjectRef::new("Service", &ingress.metadata.namespace, backend.name.clone());
            return Some(symptom.caused_by(Some(service)));
        };
        let has = service.spec.ports.iter().any(|port| {
            (backend.port.number != 0 && port.port == backend.port.number)
                || (!backend.port.name.is_empty() && port.name == backend.port.name)
        });
        let is_named = backend.port.number != 0 || !backend.port.name.is_empty();
        let named = match &*backend.port.name {
            "" => backend.port.number.to_string(),
            name => name.to_owned(),
        };
        let what = format!(
            "leads to port {named} of service/{}, which it does not have",
            backend.name
        );
        (is_named && !has).then(|| Symptom::new("route", id, since, what))
    })
}
