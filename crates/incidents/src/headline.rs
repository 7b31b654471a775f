//! An incident in one line, as a person would say it.

use jiff::{SignedDuration, Timestamp};

use crate::{
    detectors::Context, incident::Change, messages::squeeze, objects::ObjectRef, state::State,
    symptom::Symptom,
};

/// Bytes of a headline.
const BYTES_MAX: usize = 200;

/// Bytes in which a reason can be told.
const WHY_MIN: usize = 14;

/// Objects that are named; the rest is a number.
const NAMED_MAX: usize = 2;

/// First words of what is wrong with one, and with several.
const VERBS: [(&str, &str); 14] = [
    ("is", "are"),
    ("was", "were"),
    ("has", "have"),
    ("does", "do"),
    ("crashes", "crash"),
    ("ends", "end"),
    ("waits", "wait"),
    ("leads", "lead"),
    ("wants", "want"),
    ("selects", "select"),
    ("blocks", "block"),
    ("asks", "ask"),
    ("lost", "lost"),
    ("ended", "ended"),
];

/// When an incident began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct When<'a> {
    /// Since when it is there.
    pub since: Timestamp,
    /// The rollout that explains it.
    pub rollout: Option<&'a Change>,
}

/// Tells what is wrong with an object, why, and for how long.
pub(crate) fn of(
    context: &Context<'_>,
    object: &ObjectRef,
    cause: &ObjectRef,
    lead: &Symptom,
    symptoms: &[Symptom],
    when: When<'_>,
) -> String {
    let what = what(context, object, cause, lead, symptoms);
    let begin = format!("{object}: {what}");
    let plain = when.plain(context.now);
    let told = when.since_rollout(context.now);
    line(&begin, &lead.why, told.as_deref(), &plain)
}

/// Puts a headline together. What is wrong comes first, then why, then the rollout that it began
/// with, if there is room for all of it.
fn line(begin: &str, why: &str, told: Option<&str>, plain: &str) -> String {
    let why = match why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    if let Some(told) = told
        && begin.len() + why.len() + told.len() <= BYTES_MAX
    {
        return format!("{begin}{why}{told}");
    }
    let begin = squeeze(begin, BYTES_MAX.saturating_sub(plain.len()));
    let room = BYTES_MAX.saturating_sub(begin.len() + plain.len());
    let why = if room < WHY_MIN {
        String::new()
    } else {
        squeeze(&why, room)
    };
    format!("{begin}{why}{plain}")
}

// === impl When ===

impl When<'_> {
    /// `, for 4 min`
    fn plain(self, now: Timestamp) -> String {
        format!(", for {}", age(now.duration_since(self.since)))
    }

    /// `, since rollout to payment:1.9.0 4 min ago`
    fn since_rollout(self, now: Timestamp) -> Option<String> {
        let Change { what, at, .. } = self.rollout?;
        let age = age(now.duration_since(*at));
        Some(format!(", since {what} {age} ago"))
    }
}

fn what(
    context: &Context<'_>,
    object: &ObjectRef,
    cause: &ObjectRef,
    lead: &Symptom,
    symptoms: &[Symptom],
) -> String {
    let mut hurt: Vec<_> = symptoms
        .iter()
        .filter(|symptom| symptom.workload != *object && symptom.object != *object)
        .map(|symptom| &symptom.workload)
        .collect();
    hurt.sort();
    hurt.dedup();
    // A Service is hurt because its pods are.
    if hurt.iter().any(|one| &*one.kind != "Service") {
        hurt.retain(|one| &*one.kind != "Service");
    }
    if lead.object == *object {
        return match hurt.as_slice() {
            [] => lead.what.clone(),
            hurt => format!("{}; hurts {}", lead.what, named(hurt)),
        };
    }
    if lead.workload != *object {
        // Several workloads miss the same thing.
        let state = match &*cause.kind {
            "ConfigMap" | "Secret" | "ServiceAccount" | "StorageClass" | "PriorityClass" => {
                "is missing or lacks a key"
            }
            _ => "is the cause",
        };
        return format!(
            "{state}; {} {}",
            named(&hurt),
            plural(&lead.what, hurt.len())
        );
    }
    if &*lead.object.kind != "Pod" {
        return lead.what.clone();
    }
    let sick = symptoms
        .iter()
        .filter(|one| one.detector == lead.detector && &*one.object.kind == "Pod")
        .count();
    let all = context
        .pods_of(object)
        .iter()
        .filter(|pod| !pod.is_over())
        .count()
        .max(sick);
    let who = match (sick, all) {
        (1, 1) => "its pod".to_owned(),
        // A pod of a StatefulSet has a name that people know, one of a DaemonSet a node.
        (1, _) if &*object.kind == "StatefulSet" => format!("pod {}", lead.object.name),
        (1, all) if &*object.kind == "DaemonSet" => match node_of(context.state, &lead.object) {
            Some(node) => format!("its pod on {node}"),
            None => format!("1 of {all} pods"),
        },
        (sick, all) if sick == all => format!("all {all} pods"),
        (sick, all) => format!("{sick} of {all} pods"),
    };
    let one = sick == 1;
    let verb = if one {
        lead.what.clone()
    } else {
        plural(&lead.what, sick)
    };
    format!("{who} {verb}")
}

/// The node that a pod runs on.
fn node_of<'a>(state: &'a State, pod: &ObjectRef) -> Option<&'a str> {
    let pod = state.pods.get(&pod.namespace, &pod.name)?;
    Some(&*pod.spec.node_name).filter(|node| !node.is_empty())
}

/// Some names, and how many more there are.
fn named(objects: &[&ObjectRef]) -> String {
    let names: Vec<_> = objects
        .iter()
        .take(NAMED_MAX)
        .map(|one| one.short())
        .collect();
    match objects.len() {
        0 => "nothing else".to_owned(),
        count if count > NAMED_MAX => {
            format!("{} and {} more", names.join(", "), count - NAMED_MAX)
        }
        _ => names.join(" and "),
    }
}

/// The same about several.
fn plural(what: &str, count: usize) -> String {
    if count == 1 {
        return what.to_owned();
    }
    let (first, rest) = what.split_once(' ').unwrap_or((what, ""));
    let verb = VERBS.iter().find(|(one, _)| *one == first);
    let first = verb.map_or(first, |(_, many)| many);
    let rest = format!(" {rest} ").replace(" its ", " their ");
    format!("{first} {}", rest.trim()).trim_end().to_owned()
}

/// A time as people say it.
pub(crate) fn age(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rollout_is_told_if_there_is_room_for_it_and_the_reason() {
        let told = ", since rollout to payment:1.9.0 4 min ago";
        let rollout = Some(told);
        let begin = "shop/deployment/payment: all 3 pods crash at start (exit 2)";
        assert_eq!(
            line(
                begin,
                "\"panic: no provider for eur\"",
                rollout,
                ", for 4 min"
            ),
            format!("{begin}: \"panic: no provider for eur\"{told}")
        );
        let long = "no provider ".repeat(10);
        assert_eq!(
            line(begin, long.trim(), rollout, ", for 4 min"),
            format!("{begin}: {}, for 4 min", long.trim())
        );
    }

    proptest! {
        /// Whatever is told: it fits, says how long, and keeps a reason that fits.
        #[test]
        fn fuzz_a_headline_fits(
            begin in "\\PC{0,260}",
            why in "\\PC{0,260}",
            told in prop::option::of("\\PC{0,90}"),
            seconds in -10..1_000_000_000_i64,
        ) {
            let plain = format!(", for {}", age(SignedDuration::from_secs(seconds)));
            let told = told.as_deref();
            let line = line(&begin, &why, told, &plain);
            prop_assert!(line.len() <= BYTES_MAX);
            let ends = line.ends_with(&plain) || told.is_some_and(|told| line.ends_with(told));
            prop_assert!(ends);
            if begin.len() + why.len() + plain.len() + 2 <= BYTES_MAX && why.len() >= WHY_MIN {
                prop_assert!(line.contains(&why));
            }
        }
    }
}
