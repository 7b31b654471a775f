//! Workloads that fail because another one does: their last words name its Service.

use std::collections::{HashMap, HashSet};

use super::Context;
use crate::{
    objects::{Object, ObjectRef, Service, selects},
    symptom::{Severity, Symptom},
};

/// Detectors of workloads that run until something else is missing.
const DEPENDENT: [&str; 5] = ["crash-loop", "liveness", "not-ready", "exit", "job"];

/// Words about a server that does not answer.
const UNANSWERED: [&str; 10] = [
    "connection refused",
    "econnrefused",
    "connectexception",
    "connection timed out",
    "etimedout",
    "i/o timeout",
    "no route to host",
    "host unreachable",
    "connection reset",
    "econnreset",
];

/// Longest name of a host that is looked for.
const HOST_MAX: usize = 253;

/// Words about names that nobody could resolve.
const UNRESOLVED: [&str; 7] = [
    "no such host",
    "name resolution",
    "unknownhost",
    "server misbehaving",
    "getaddrinfo",
    "could not resolve",
    "name or service not known",
];

/// Namespace of what every pod needs.
const SYSTEM: &str = "kube-system";

/// Whether a workload only says that a server does not answer or has no name. A probe says so
/// about the workload itself.
pub(crate) fn wants_another(detector: &str, why: &str) -> bool {
    let lower = why.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    matches!(detector, "crash-loop" | "exit" | "job") && (says(&UNANSWERED) || says(&UNRESOLVED))
}

/// Names a sick workload as the cause where others fail for want of it: the one behind a
/// Service that a crash names as what does not answer, the cluster's DNS, the scheduler, or the
/// node's own network and storage pods.
pub(super) fn link(context: &Context<'_>, found: &mut [Symptom]) {
    let sick = Sick::of(context, found);
    if sick.workloads.len() < 2 {
        return;
    }
    let mut behind: HashMap<ObjectRef, Option<ObjectRef>> = HashMap::new();
    let mut causes: HashMap<ObjectRef, ObjectRef> = HashMap::new();
    for symptom in found.iter().filter(|one| one.cause.is_none()) {
        let mut by_service = |service: &Service| {
            let cause = behind
                .entry(service.object_ref())
                .or_insert_with(|| workload_of(context, service, &sick.workloads));
            cause.clone()
        };
        let cause = match symptom.detector {
            "mount" => sick.agent(context, symptom),
            "unschedulable" if symptom.reason.is_empty() => sick.scheduler.clone(),
            detector if DEPENDENT.contains(&detector) => {
                let namespace = &*symptom.object.namespace;
                let services = hosts(&symptom.why);
                let mut services =
                    services.filter_map(|host| sick.service(context, namespace, host));
                services
                    .find_map(&mut by_service)
                    .or_else(|| sick.dns(context, &symptom.why, by_service))
            }
            _ => None,
        };
        if let Some(cause) = cause.filter(|cause| *cause != symptom.workload) {
            causes.insert(symptom.workload.clone(), cause);
        }
    }
    // Two that wait for each other have no cause in each other.
    let is_mutual = |workload: &ObjectRef| {
        let mut at = workload;
        for _ in 0..causes.len() {
            match causes.get(at) {
                Some(next) if next == workload => return true,
                Some(next) => at = next,
                None => return false,
            }
        }
        false
    };
    for symptom in found.iter_mut() {
        let depends = DEPENDENT.contains(&symptom.detector)
            || matches!(symptom.detector, "mount" | "unschedulable");
        if symptom.cause.is_none()
            && depends
            && let Some(cause) = causes.get(&symptom.workload)
            && !is_mutual(&symptom.workload)
        {
            symptom.cause = Some(cause.clone());
        }
    }
}

/// What is sick, by what others need it for.
#[derive(Debug, Default)]
struct Sick<'a> {
    workloads: HashSet<ObjectRef>,
    /// DaemonSets, by the node on which one of their pods is sick.
    agents: HashMap<&'a str, ObjectRef>,
    scheduler: Option<ObjectRef>,
    /// Services by their address.
    addresses: HashMap<&'a str, &'a Service>,
}

// === impl Sick ===

impl<'a> Sick<'a> {
    fn of(context: &Context<'a>, found: &[Symptom]) -> Self {
        let mut sick = Self::default();
        for symptom in found.iter().filter(|one| one.severity > Severity::Info) {
            sick.workloads.insert(symptom.workload.clone());
            let ObjectRef {
                namespace, name, ..
            } = &symptom.object;
            if &*symptom.workload.kind == "DaemonSet"
                && let Some(pod) = context.state.pods.get(namespace, name)
            {
                let node = &*pod.spec.node_name;
                sick.agents.entry(node).or_insert(symptom.workload.clone());
            }
            if &**namespace == SYSTEM && name.starts_with("kube-scheduler") {
                sick.scheduler = Some(symptom.workload.clone());
            }
        }
        if sick.workloads.len() > 1 {
            let services = context.state.services.iter();
            let addressed = services.filter(|service| !service.is_headless());
            sick.addresses = addressed
                .map(|service| (&*service.spec.cluster_ip, &**service))
                .collect();
        }
        sick
    }

    /// The sick DaemonSet on the node of a pod that cannot be set up.
    fn agent(&self, context: &Context<'_>, symptom: &Symptom) -> Option<ObjectRef> {
        let ObjectRef {
            namespace, name, ..
        } = &symptom.object;
        let pod = context.state.pods.get(namespace, name)?;
        self.agents.get(&*pod.spec.node_name).cloned()
    }

    /// The Service that a host stands for.
    fn service(&self, context: &Context<'a>, namespace: &str, host: &str) -> Option<&'a Service> {
        let by_address = || self.addresses.get(host).copied();
        service_of(context, namespace, host).or_else(by_address)
    }

    /// The cluster's DNS, if a name could not be resolved and it is sick.
    fn dns(
        &self,
        context: &Context<'_>,
        why: &str,
        behind: impl FnOnce(&Service) -> Option<ObjectRef>,
    ) -> Option<ObjectRef> {
        let lower = why.to_ascii_lowercase();
        if !UNRESOLVED.iter().any(|word| lower.contains(word)) {
            return None;
        }
        let service = context.state.services.get(SYSTEM, "kube-dns")?;
        behind(service).or_else(|| {
            let id = service.object_ref();
            self.workloads.contains(&id).then_some(id)
        })
    }
}

/// The Service that a host name stands for, as a pod of a namespace resolves it.
fn service_of<'a>(context: &Context<'a>, namespace: &str, host: &str) -> Option<&'a Service> {
    let mut parts = host.split('.');
    let (name, second, third) = (parts.next()?, parts.next(), parts.next());
    let services = &context.state.services;
    let found = match (second, third) {
        (None, _) => services.get(namespace, name),
        (Some(other), None | Some("svc")) => services.get(other, name),
        // `pod.service.namespace.svc`: a pod of a StatefulSet.
        (Some(service), Some(other)) => services.get(other, service),
    };
    found.map(|service| &**service)
}

/// The sick workload that a Service leads to; none if a pod of it is ready.
fn workload_of(
    context: &Context<'_>,
    service: &Service,
    sick: &HashSet<ObjectRef>,
) -> Option<ObjectRef> {
    if !service.is_selecting() {
        return None;
    }
    let namespace = &*service.metadata.namespace;
    let pods = context.state.pods.in_namespace(namespace);
    let mut pods = pods
        .filter(|pod| !pod.is_over() && selects(&service.spec.selector, &pod.metadata.labels))
        .peekable();
    let Some(first) = pods.peek() else {
        // Nothing runs behind it; what should is scaled to zero.
        let mut named = sick.iter().filter(|one| *one.namespace == *namespace);
        let zero = |one: &&ObjectRef| {
            let deployment = context.state.deployments.get(namespace, &one.name);
            &*one.kind == "Deployment"
                && deployment.is_some_and(|deployment| {
                    let labels = &deployment.spec.template.metadata.labels;
                    selects(&service.spec.selector, labels)
                })
        };
        return named.find(zero).cloned();
    };
    let workload = (context.state).top_owner(&first.object_ref(), &first.metadata);
    let answers = pods.any(|pod| pod.is_ready());
    (!answers && sick.contains(&workload)).then_some(workload)
}

/// Words of a text that are the name of a host by their form or their place: `db:5432`,
/// `orders-db`, `//db/`, `lookup db`. Other words may only sound like a Service.
fn hosts(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '.';
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let begin = at + text[at..].find(is_part)?;
            let end = text[begin..].find(|one| !is_part(one));
            let end = end.map_or(text.len(), |length| begin + length);
            at = end;
            let word = text[begin..end].trim_matches(['.', '-']);
            let (before, after) = (&text[..begin], &text[end..]);
            let has_port = after
                .strip_prefix(':')
                .is_some_and(|port| port.starts_with(|one: char| one.is_ascii_digit()));
            let is_address = ["lookup ", "//", "@", "host ", "host: ", "host '", "host \""]
                .iter()
                .any(|word| before.ends_with(word));
            let is_host = has_port || is_address || word.contains(['-', '.']);
            let is_name =
                word.starts_with(|one: char| one.is_ascii_lowercase() || one.is_ascii_digit());
            if is_host && is_name && word.len() <= HOST_MAX {
                return Some(word);
            }
        }
    })
}

#[cfg(test)]
mod tests;
