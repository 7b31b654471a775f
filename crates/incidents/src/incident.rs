//! Incidents: symptoms with one cause, put together.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    changes,
    detectors::{Context, dependencies, detector, symptoms},
    headline,
    objects::ObjectRef,
    options::Options,
    state::State,
    symptom::{Severity, Symptom},
};

/// Causes of causes that are followed.
const CAUSES_MAX: usize = 6;

/// How long an error has to be there before it is shown: many are gone by then.
const CERTAIN_HOLD: SignedDuration = SignedDuration::from_secs(15);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// The same on every server and after a restart.
    pub id: String,
    /// The name of the detector that tells most.
    pub detector: &'static str,
    /// The object that is named first.
    pub object: ObjectRef,
    /// How bad it is.
    pub severity: Severity,
    /// Since when the oldest of its symptoms is there.
    pub since: Timestamp,
    /// What, since when and why, in one line.
    pub headline: String,
    /// The one word that Kubernetes has for it, if it has one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    /// Why, in the words of whoever knows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What is hurt by it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// What changed shortly before it began, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What was found on which object.
    #[serde(skip)]
    pub symptoms: Vec<Symptom>,
}

/// An object that is hurt by an incident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Effect {
    /// The object.
    pub object: ObjectRef,
    /// What is wrong with it.
    pub what: String,
}

/// A change of an object shortly before an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The object.
    pub object: ObjectRef,
    /// What changed: `rollout to payment:1.9.0`.
    pub what: String,
    /// When.
    pub at: Timestamp,
}

/// Symptoms with one cause.
#[derive(Debug)]
struct Group {
    cause: ObjectRef,
    symptoms: Vec<Symptom>,
}

/// What is wrong at a moment.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The incidents, the worst first.
    pub incidents: Vec<Incident>,
    /// When the next symptom will have held, if it stays.
    pub next: Option<Timestamp>,
}

/// The incidents of a state, the worst first.
pub fn incidents(state: &State, now: Timestamp) -> Vec<Incident> {
    incidents_with(state, now, &Options::default())
}

/// The incidents of a state as an operator wants them, the worst first.
pub fn incidents_with(state: &State, now: Timestamp, options: &Options) -> Vec<Incident> {
    evaluate(state, now, options).incidents
}

/// The incidents of a state, and when there may be more though nothing changes.
pub fn evaluate(state: &State, now: Timestamp, options: &Options) -> Evaluation {
    let context = Context::new(state, now);
    let mut found = symptoms(&context);
    let mut next: Option<SignedDuration> = None;
    found.retain(|symptom| {
        if options.is_disabled(symptom.detector) {
            return false;
        }
        let remaining = remaining_hold(symptom, context.now, options);
        if remaining > SignedDuration::ZERO {
            next = Some(next.map_or(remaining, |next| next.min(remaining)));
        }
        remaining <= SignedDuration::ZERO
    });
    let groups = group(found);
    let mut incidents: Vec<_> = groups
        .into_iter()
        .map(|group| incident(&context, group))
        .collect();
    incidents.sort_by_cached_key(|incident| {
        let rank = detector(incident.detector).map_or(0, |detector| detector.rank);
        (
            std::cmp::Reverse(incident.severity),
            // Who fails for want of another is rarely the cause.
            dependencies::wants_another(incident.detector, &incident.why),
            std::cmp::Reverse(rank),
            std::cmp::Reverse(incident.since),
            incident.object.clone(),
        )
    });
    Evaluation {
        incidents,
        next: next.and_then(|next| now.checked_add(next).ok()),
    }
}

/// How much longer a state has to be there before it is shown. One that is an error by itself
/// is shown soon: a reader who asks wants to know, and only what is announced waits longer. But
/// a hold that the operator chose is kept.
fn remaining_hold(symptom: &Symptom, now: Timestamp, options: &Options) -> SignedDuration {
    let open = options.hold(symptom.detector).open;
    let is_chosen = options.chosen_hold(symptom.detector).is_some();
    let hold = if symptom.is_certain && !is_chosen {
        open.min(CERTAIN_HOLD)
    } else {
        open
    };
    hold.saturating_sub(now.duration_since(symptom.since))
}

/// Puts symptoms together by the object without which they would not be.
fn group(symptoms: Vec<Symptom>) -> Vec<Group> {
    let mut causes: BTreeMap<ObjectRef, ObjectRef> = BTreeMap::new();
    let sick: BTreeSet<_> = symptoms
        .iter()
        .flat_map(|symptom| [symptom.object.clone(), symptom.workload.clone()])
        .collect();
    // What runs and says nothing itself is no cause.
    let explains = |cause: &ObjectRef| sick.contains(cause) || !is_workload(cause);
    let mut symptoms = symptoms;
    for symptom in &mut symptoms {
        symptom.cause = symptom.cause.take().filter(explains);
    }
    for symptom in &symptoms {
        if let Some(cause) = &symptom.cause
            && *cause != symptom.object
            && *cause != symptom.workload
        {
            causes.insert(symptom.object.clone(), cause.clone());
            // A workload follows its pods only if it has nothing to say itself.
            causes
                .entry(symptom.workload.clone())
                .or_insert_with(|| cause.clone());
        }
    }
    let root = |symptom: &Symptom| {
        let mut at = symptom
            .cause
            .clone()
            .unwrap_or_else(|| symptom.workload.clone());
        let mut seen = BTreeSet::new();
        for _ in 0..CAUSES_MAX {
            let Some(next) = causes.get(&at) else { break };
            if !seen.insert(at.clone()) {
                break;
            }
            at = next.clone();
        }
        at
    };
    let mut groups: BTreeMap<ObjectRef, Vec<Symptom>> = BTreeMap::new();
    for symptom in symptoms {
        groups.entry(root(&symptom)).or_default().push(symptom);
    }
    groups
        .into_iter()
        .map(|(cause, symptoms)| Group { cause, symptoms })
        .collect()
}

fn incident(context: &Context<'_>, group: Group) -> Incident {
    let Group {
        cause,
        mut symptoms,
    } = group;
    let rank = |symptom: &Symptom| {
        let rank = detector(symptom.detector).map_or(0, |detector| detector.rank);
        // What the cause says about itself comes first, if it is more than a hint. A workload
        // only counts its pods, which know more.
        let own = (symptom.object == cause || symptom.workload == cause)
            && symptom.severity > Severity::Info
            && !matches!(symptom.detector, "rollout" | "replicas");
        (
            own,
            symptom.severity > Severity::Info,
            rank,
            !symptom.why.is_empty(),
        )
    };
    symptoms.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.object.cmp(&b.object)));
    let mut lead = symptoms[0].clone();
    if lead.why.is_empty() {
        lead.why = other_words(&lead, &symptoms);
    }
    let timely = symptoms.iter().filter(|one| !is_timeless(one));
    let since = timely.map(|one| one.since).min().unwrap_or(lead.since);
    let workloads: BTreeSet<_> = symptoms.iter().map(|one| one.workload.clone()).collect();
    let worst = symptoms.iter().map(|one| one.severity).max();
    let mut severity = worst.unwrap_or(Severity::Warning);
    if severity == Severity::Warning && workloads.iter().any(|one| has_nothing(context.state, one))
    {
        severity = Severity::Critical;
    }
    // A cause that only one workload is hurt by is told with the workload.
    let is_own = symptoms
        .iter()
        .any(|one| one.object == cause || one.workload == cause);
    let speaks_for_others = cause.kind.ends_with("WebhookConfiguration");
    let object = if let ("terminating", [one]) = (lead.detector, symptoms.as_slice()) {
        // One pod that does not go says nothing about the workload that has let go of it.
        one.object.clone()
    } else if is_own || workloads.len() > 1 || speaks_for_others {
        cause.clone()
    } else {
        lead.workload.clone()
    };
    let mut effects: BTreeMap<ObjectRef, String> = BTreeMap::new();
    for symptom in &symptoms {
        let hurt = if symptom.workload == object {
            &symptom.object
        } else {
            &symptom.workload
        };
        if *hurt != object {
            effects
                .entry(hurt.clone())
                .or_insert_with(|| symptom.what.clone());
        }
    }
    let effects: Vec<_> = effects
        .into_iter()
        .map(|(object, what)| Effect { object, what })
        .collect();
    let changes = changes::before(context, &object, &cause, &lead, since);
    let rollout = changes::explaining(context, &changes, &lead);
    let when = headline::When { since, rollout };
    let headline = headline::of(context, &object, &cause, &lead, &symptoms, when);
    Incident {
        id: id(&cause),
        detector: lead.detector,
        object,
        severity,
        since,
        headline,
        reason: lead.reason.clone(),
        why: lead.why.clone(),
        effects,
        changes,
        symptoms,
    }
}

/// What others say if the first symptom has no reason: a pod of a workload that cannot get on,
/// or a workload whose pods have no words.
fn other_words(lead: &Symptom, symptoms: &[Symptom]) -> String {
    let counts = |symptom: &Symptom| matches!(symptom.detector, "rollout" | "replicas");
    let other = if counts(lead) {
        symptoms
            .iter()
            .find(|one| !counts(one) && !is_timeless(one))
    } else {
        // The API server says why it refuses.
        let refused = symptoms.iter().find(|one| one.detector == "cannot-create");
        refused.or_else(|| symptoms.iter().find(|one| one.detector == "rollout"))
    };
    match other {
        Some(other) if other.why.is_empty() => other.what.clone(),
        Some(other) => format!("{}: {}", other.what, other.why),
        None => String::new(),
    }
}

/// Whether an object is there to run pods or to lead to them.
fn is_workload(object: &ObjectRef) -> bool {
    matches!(
        &*object.kind,
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" | "Pod" | "Service"
    )
}

/// Symptoms that say nothing about when it began.
pub(crate) fn is_timeless(symptom: &Symptom) -> bool {
    matches!(
        symptom.detector,
        "service" | "webhook" | "quota" | "route" | "scaled-to-zero"
    )
}

/// Whether a workload wants pods and has none.
fn has_nothing(state: &State, workload: &ObjectRef) -> bool {
    let (namespace, name) = (&*workload.namespace, &*workload.name);
    match &*workload.kind {
        "Deployment" => state
            .deployments
            .get(namespace, name)
            .is_some_and(|one| one.spec.wanted() > 0 && one.status.available_replicas == 0),
        "StatefulSet" => state
            .stateful_sets
            .get(namespace, name)
            .is_some_and(|one| one.spec.wanted() > 0 && one.status.ready_replicas == 0),
        "DaemonSet" => state.daemon_sets.get(namespace, name).is_some_and(|one| {
            one.status.desired_number_scheduled > 0 && one.status.number_ready == 0
        }),
        _ => false,
    }
}

// === impl Incident ===

impl Incident {
    /// The incident in a list: the headline, the severity, the word that Kubernetes has for it,
    /// the id, and a second line with the whole reason if the headline has not all of it.
    pub fn listed(&self) -> String {
        let severity = self.severity.as_str();
        let reason = match &*self.reason {
            "" => String::new(),
            reason => format!(" {reason}"),
        };
        let rest = match &*self.why {
            why if self.headline.contains(why) => String::new(),
            why => format!("\n  {why}"),
        };
        format!("{} [{severity}{reason} {}]{rest}", self.headline, self.id)
    }
}

/// The same for the same cause, whoever computes it.
fn id(cause: &ObjectRef) -> String {
    let hash = Sha256::digest(cause.to_string());
    let hex: String = hash
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("i-{hex}")
}
