//! What may be shown of an incident: the part of its scope, and nothing that the operator
//! excludes.

use kubecrier_incidents::{Incident, objects::ObjectRef};

use crate::allowed::{self, ReadScope};

/// Whether an incident is one of a namespace: of a node, only if it hurts something there.
pub(super) fn concerns(incident: &Incident, namespace: &str) -> bool {
    let object = &incident.object;
    let is_itself = object.kind == "Namespace" && &*object.name == namespace;
    let hurt = |of: &ObjectRef| &*of.namespace == namespace;
    let mut symptoms = incident.symptoms.iter();
    is_itself
        || hurt(object)
        || symptoms.any(|symptom| hurt(&symptom.object) || hurt(&symptom.workload))
}

/// Leaves out objects of denied kinds, which messages may name as the cause: what is hurt
/// stands for them. Answers whether there is anything to show.
pub(super) fn hide_denied(incident: &mut Incident, scope: &ReadScope) -> bool {
    let is_shown = |object: &ObjectRef| {
        !scope.hides(allowed::ObjectRef {
            api_version: "",
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
        })
    };
    incident.effects.retain(|effect| is_shown(&effect.object));
    incident.changes.retain(|change| is_shown(&change.object));
    for symptom in &mut incident.symptoms {
        symptom.cause = symptom.cause.take().filter(is_shown);
    }
    if is_shown(&incident.object) {
        return true;
    }
    let mut workloads = incident.symptoms.iter().map(|symptom| &symptom.workload);
    let Some(shown) = workloads.find(|workload| is_shown(workload)).cloned() else {
        return false;
    };
    let hidden = incident.object.to_string();
    incident.headline = incident.headline.replacen(&hidden, &shown.to_string(), 1);
    incident.object = shown;
    true
}
