//! What may be shown of an incident: the part of its scope, and nothing that the operator
//! excludes or that a user may not read.

use kubecrier_incidents::{Eyes as _, Incident, objects::ObjectRef};

use super::eyes::UserEyes;
use crate::allowed::{self, ReadScope};

/// Bytes of a headline.
const HEADLINE_BYTES_MAX: usize = 200;

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

/// Leaves out objects that a user may not read. An object that is not watched cannot be asked
/// about, and is left out as well. The incident is of an object that may be read then, and its
/// headline is made of what is known of that. Answers whether there is anything to show.
pub(super) fn hide_unreadable(incident: &mut Incident, eyes: &UserEyes<'_>) -> bool {
    let is_shown = |object: &ObjectRef| eyes.see(&object.kind, &object.namespace);
    incident.effects.retain(|effect| is_shown(&effect.object));
    incident.changes.retain(|change| is_shown(&change.object));
    incident
        .symptoms
        .retain(|symptom| is_shown(&symptom.object));
    for symptom in &mut incident.symptoms {
        symptom.cause = symptom.cause.take().filter(is_shown);
        if !is_shown(&symptom.workload) {
            symptom.workload = symptom.object.clone();
        }
    }
    if is_shown(&incident.object) {
        return true;
    }
    // The first one tells most.
    let Some(lead) = incident.symptoms.first() else {
        return false;
    };
    incident.object = lead.workload.clone();
    incident.headline = match lead.why.as_str() {
        "" => format!("{}: {}", lead.workload, lead.what),
        why => format!("{}: {}: {why}", lead.workload, lead.what),
    };
    let end = incident.headline.floor_char_boundary(HEADLINE_BYTES_MAX);
    incident.headline.truncate(end);
    incident.detector = lead.detector;
    incident.reason.clone_from(&lead.reason);
    incident.why.clone_from(&lead.why);
    incident
        .effects
        .retain(|effect| effect.object != lead.workload);
    true
}
