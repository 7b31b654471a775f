//! Rollouts of StatefulSets and DaemonSets, whose templates are kept as ControllerRevisions.

use jiff::Timestamp;

use super::told;
use crate::{
    detectors::Context,
    objects::{ControllerRevision, ObjectRef, Pod},
};

/// The newest template of a workload, which replaced another one.
#[derive(Debug)]
pub(super) struct Revision<'a> {
    newest: &'a ControllerRevision,
    pub(super) what: String,
    pub(super) at: Timestamp,
}

/// The newest template of a workload, if it replaced another one and tells when.
pub(super) fn newest<'a>(context: &Context<'a>, workload: &ObjectRef) -> Option<Revision<'a>> {
    let all = context.state.revisions.in_namespace(&workload.namespace);
    let mut mine: Vec<_> = all
        .filter(|one| {
            let owner = one.metadata.controller();
            owner.is_some_and(|owner| *owner.kind == *workload.kind && owner.name == workload.name)
        })
        .map(|one| &**one)
        .collect();
    mine.sort_by_key(|one| one.revision);
    let [.., old, new] = mine.as_slice() else {
        return None;
    };
    let containers = |one: &'a ControllerRevision| &*one.data.spec.template.spec.containers;
    let number = u64::try_from(new.revision).ok();
    let what = told(containers(old), containers(new), number);
    let at = started(context, workload, &mine, new)?;
    Some(Revision {
        newest: new,
        what,
        at,
    })
}

/// When a template was taken up: when it was written, if no other one is younger. A template
/// that a rollback took up again tells nothing about that; and in a copy its first pod does.
fn started(
    context: &Context<'_>,
    workload: &ObjectRef,
    all: &[&ControllerRevision],
    new: &ControllerRevision,
) -> Option<Timestamp> {
    if context.is_copy() {
        let pods = context.pods_of(workload).iter();
        let mine = pods.filter(|pod| is_of(pod, new));
        return mine.map(|pod| context.born(&***pod)).min();
    }
    let written = new.metadata.creation_timestamp?;
    let is_youngest = all
        .iter()
        .all(|one| one.metadata.creation_timestamp <= Some(written));
    is_youngest.then_some(written)
}

/// Whether a pod was made from a template: StatefulSets label it with the name of the revision,
/// DaemonSets with the hash at its end.
fn is_of(pod: &Pod, revision: &ControllerRevision) -> bool {
    let name = &*revision.metadata.name;
    let label = pod.metadata.label("controller-revision-hash");
    label.is_some_and(|label| {
        let before = name.strip_suffix(label);
        before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
    })
}

// === impl Revision ===

impl Revision<'_> {
    /// Whether a pod was made from it.
    pub(super) fn made(&self, pod: &Pod) -> bool {
        is_of(pod, self.newest)
    }
}
