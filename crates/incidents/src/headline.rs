//! An incident in one line, as a person would say it.

use jiff::{SignedDuration, Timestamp};

use crate::{
    messages::{cut, cut_middle},
    objects::ObjectRef,
    state::State,
    symptom::Symptom,
};

/// Bytes of a headline.
const BYTES_MAX: usize = 200;

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

/// Tells what is wrong with an object, why, and for how long.
pub(crate) fn of(
    state: &State,
    now: Timestamp,
    object: &ObjectRef,
    cause: &ObjectRef,
    lead: &Symptom,
    symptoms: &[Symptom],
    since: Timestamp,
) -> String {
    let age = age(now.duration_since(since));
    let what = what(state, object, cause, lead, symptoms);
    let begin = format!("{object}: {what}");
    let end = format!(", for {age}");
    let why = match &*lead.why {
        "" => String::new(),
        why => {
            let room = BYTES_MAX.saturating_sub(begin.len() + end.len() + 2);
            if room < 12 {
                String::new()
            } else {
                format!(": {}", cut_middle(why, room))
            }
        }
    };
    let begin = cut(&begin, BYTES_MAX - end.len());
    format!("{begin}{why}{end}")
}

fn what(
    state: &State,
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
    let all = state
        .pods_of(object)
        .filter(|pod| !pod.is_over())
        .count()
        .max(sick);
    let who = match (sick, all) {
        (1, 1) => "its pod".to_owned(),
        // A pod of a StatefulSet has a name that people know, one of a DaemonSet a node.
        (1, _) if &*object.kind == "StatefulSet" => format!("pod {}", lead.object.name),
        (1, all) if &*object.kind == "DaemonSet" => match node_of(state, &lead.object) {
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
