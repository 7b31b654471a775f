//! Detectors of volumes and claims.

use super::Context;
use crate::{
    messages::{cause, words},
    objects::{Event, Object, ObjectRef, PersistentVolumeClaim},
    symptom::{Severity, Symptom},
};

const CLAIM_REASONS: [&str; 3] = ["ProvisioningFailed", "FailedBinding", "VolumeMismatch"];

const RESIZE_REASONS: [&str; 4] = [
    "VolumeResizeFailed",
    "FileSystemResizeFailed",
    "VolumeModifyFailed",
    "ExternalExpandFailed",
];

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for claim in context.state.claims.iter() {
        if !claim.metadata.is_deleted() {
            found.extend(of_claim(context, claim));
        }
    }
    for volume in context.state.volumes.iter() {
        if &*volume.status.phase == "Failed" && !volume.metadata.is_deleted() {
            let since = context.born(&**volume);
            let symptom = Symptom::new("volume", volume.object_ref(), since, "failed");
            found.push(symptom.why(words(&volume.status.message)).certain());
        }
    }
}

fn of_claim(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Option<Symptom> {
    let id = claim.object_ref();
    let since = context.born(claim);
    let warning = context.warning(claim, &CLAIM_REASONS);
    match &*claim.status.phase {
        "Lost" => {
            let what = format!("lost its volume {}", claim.spec.volume_name);
            let symptom = Symptom::new("claim", id, since, what);
            Some(symptom.severity(Severity::Critical).certain())
        }
        "Pending" => {
            if waits_for_consumer(context, claim) {
                return None;
            }
            let missing = missing_class(context, claim);
            let why = match (&missing, warning) {
                (Some(class), _) => format!("there is no {}", class.short()),
                (None, Some(event)) => words(&event.message),
                (None, None) => {
                    let last = context.events(claim).next_back();
                    last.map_or(String::new(), |event| words(&event.message))
                }
            };
            let named = warning.and_then(|event| cause(&id.namespace, &event.message));
            let is_certain = missing.is_some() || warning.is_some();
            let reason = warning.map_or("", |event| &event.reason);
            let mut symptom = Symptom::new("claim", id, since, "is pending").why(why);
            symptom.reason = reason.into();
            symptom.cause = missing.or(named);
            symptom.is_certain = is_certain;
            Some(symptom)
        }
        _ => unsized_claim(context, claim),
    }
}

/// A claim that does not get the size that it was given.
fn unsized_claim(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Option<Symptom> {
    let status = &claim.status;
    let told = |kinds: &[&str]| {
        let mut conditions = status.conditions.iter();
        conditions.find(|one| kinds.contains(&&*one.kind) && one.is_true())
    };
    let error = told(&[
        "ControllerResizeError",
        "NodeResizeError",
        "ModifyVolumeError",
    ]);
    let mut steps = status.allocated_resource_statuses.values();
    let is_infeasible = steps.any(|step| step.ends_with("Infeasible"));
    let resizing = told(&["Resizing", "ModifyingVolume", "FileSystemResizePending"]);
    let warning = context.warning(claim, &RESIZE_REASONS);
    let is_stuck = error.is_some() || is_infeasible || resizing.is_some() && warning.is_some();
    if !is_stuck {
        return None;
    }
    let message = error
        .map(|one| &*one.message)
        .filter(|text| !text.is_empty());
    let message = message.or(warning.map(|event| &*event.message));
    let began = error.or(resizing).and_then(|one| one.last_transition_time);
    let began = began.or(warning.and_then(Event::first_seen));
    let since = context.since(began, claim);
    let symptom = Symptom::new("resize", claim.object_ref(), since, "cannot be resized");
    let reason = warning.map_or("", |event| &event.reason);
    let symptom = symptom
        .reason(reason)
        .why(words(message.unwrap_or_default()));
    Some(symptom.severity(Severity::Info))
}

/// The class that a claim asks for and that is not there.
fn missing_class(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Option<ObjectRef> {
    let class = claim.spec.storage_class_name.as_ref()?;
    let classes = &context.state.storage_classes;
    let is_missing = classes.is_known() && !class.is_empty() && classes.get("", class).is_none();
    is_missing.then(|| ObjectRef::new("StorageClass", "", class.clone()))
}

/// Whether a claim is pending because nothing uses it yet, as its class wants.
fn waits_for_consumer(context: &Context<'_>, claim: &PersistentVolumeClaim) -> bool {
    let class = claim.spec.storage_class_name.as_ref();
    let class = class.and_then(|name| context.state.storage_classes.get("", name));
    let told = context.events(claim).next_back();
    let waits = match class {
        Some(class) => &*class.volume_binding_mode == "WaitForFirstConsumer",
        None => told.is_some_and(|event| &*event.reason == "WaitForFirstConsumer"),
    };
    if !waits {
        return false;
    }
    let mut pods = context.state.pods.in_namespace(&claim.metadata.namespace);
    let is_used = pods.any(|pod| {
        let scheduled = !pod.spec.node_name.is_empty();
        scheduled && !pod.is_over() && pod.claims().any(|name| *name == claim.metadata.name)
    });
    let failed = told.is_some_and(|event| CLAIM_REASONS.contains(&&*event.reason));
    !is_used && !failed
}
