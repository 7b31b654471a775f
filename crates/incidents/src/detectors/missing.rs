//! Detectors of Services that are missing: others name them, and what they led to is there.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::{
    objects::{Object, ObjectRef, PodTemplate},
    symptom::{Severity, Symptom},
};

/// Who asks for a Service, by its name among all objects.
type Askers = BTreeMap<ObjectRef, BTreeSet<ObjectRef>>;

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    let state = context.state;
    if !state.services.is_known() || !state.deployments.is_known() {
        return;
    }
    let mut askers = Askers::new();
    for one in state.deployments.iter() {
        ask(context, &mut askers, &**one, &one.spec.template);
    }
    for one in state.stateful_sets.iter() {
        ask(context, &mut askers, &**one, &one.spec.template);
    }
    for (service, askers) in askers {
        found.extend(missing(context, service, &askers));
    }
}

/// Notes the Services that the environment of a workload names and that are not there.
fn ask(context: &Context<'_>, askers: &mut Askers, asker: &impl Object, template: &PodTemplate) {
    let here = &*asker.meta().namespace;
    let hosts = template.spec.containers.iter().flat_map(|one| &one.hosts);
    for host in hosts {
        let mut labels = host.split('.');
        let (Some(name), namespace, rest) = (labels.next(), labels.next(), labels.next()) else {
            continue;
        };
        let is_here = namespace.is_none_or(|one| one == here);
        let is_inside = rest.is_none_or(|one| one == "svc");
        let is_there = || context.state.services.get(here, name).is_some();
        if is_here && is_inside && !is_there() {
            let service = ObjectRef::new("Service", here, name);
            let askers = askers.entry(service).or_default();
            askers.insert(asker.object_ref());
        }
    }
}

/// A Service that is missing though a workload of its name runs: somebody has removed it. If
/// there is no such workload, whoever asks may do without.
fn missing(
    context: &Context<'_>,
    service: ObjectRef,
    askers: &BTreeSet<ObjectRef>,
) -> Option<Symptom> {
    let (namespace, name) = (&*service.namespace, &*service.name);
    let state = context.state;
    let deployment = state.deployments.get(namespace, name);
    let deployment = deployment.filter(|one| one.spec.wanted() > 0 && !one.metadata.is_deleted());
    let since = match deployment {
        Some(one) => context.born(&**one),
        None => {
            let set = state.stateful_sets.get(namespace, name)?;
            (set.spec.wanted() > 0 && !set.metadata.is_deleted()).then(|| context.born(&**set))?
        }
    };
    let mut askers = askers.iter().filter(|one| *one.name != *name);
    let first = askers.next()?.short();
    let what = match askers.count() {
        0 => format!("does not exist, and {first} asks for it"),
        more => format!("does not exist, and {first} and {more} more ask for it"),
    };
    let symptom = Symptom::new("service", service, since, what);
    Some(symptom.severity(Severity::Critical))
}
