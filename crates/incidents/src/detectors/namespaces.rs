//! Detectors of namespaces.

use super::Context;
use crate::{
    messages::words,
    objects::{Condition, Object},
    symptom::Symptom,
};

/// Conditions that say why a namespace cannot go, the most telling first.
const REASONS: [&str; 4] = [
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceContentRemaining",
];

pub(super) fn detect(context: &Context<'_>, found: &mut Vec<Symptom>) {
    for namespace in context.state.namespaces.iter() {
        let Some(deleted) = namespace.metadata.deletion_timestamp else {
            continue;
        };
        let conditions = &namespace.status.conditions;
        let why = REASONS.iter().find_map(|kind| {
            let condition = crate::objects::condition(conditions, kind);
            condition.filter(|one| Condition::is_true(one))
        });
        let why = why.map_or(String::new(), |one| words(&one.message));
        let symptom = Symptom::new(
            "namespace",
            namespace.object_ref(),
            deleted,
            "does not terminate",
        );
        found.push(symptom.why(why));
    }
}
