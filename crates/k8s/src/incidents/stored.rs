//! Incidents that were kept in a history: read as they were written, and shown by the settings
//! of now. What was kept under other settings may be more than those allow.

use std::{borrow::Cow, collections::BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kubecrier_incidents::{
    Change, Effect, Incident, Severity, Symptom, detectors::detector, objects::ObjectRef,
};
use kubecrier_redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::{
    Contexts,
    allowed::{self, ReadScope},
    identity,
};

/// What is kept of a large incident. Its namespaces are kept all the same.
const EFFECTS_MAX: usize = 500;
const SYMPTOMS_MAX: usize = 100;

/// An incident whose detector this version does not have.
const UNKNOWN_DETECTOR: &str = "unknown";

/// An incident that was kept.
#[derive(Clone, Debug)]
pub struct StoredIncident {
    /// As it was then.
    pub incident: Incident,
    /// How long it took, if it was over.
    pub after: Option<SignedDuration>,
    namespaces: BTreeSet<String>,
}

/// Whether what was kept may have words of logs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredWords {
    /// Logs were read then.
    MayBeOfLogs,
    /// Logs were switched off then.
    WithoutLogs,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    id: String,
    detector: String,
    object: KeptRef,
    severity: Severity,
    since: Timestamp,
    after_seconds: Option<i64>,
    headline: String,
    reason: String,
    why: String,
    effects: Vec<(KeptRef, String)>,
    changes: Vec<(KeptRef, String, Timestamp)>,
    symptoms: Vec<KeptSymptom>,
    namespaces: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptSymptom {
    detector: String,
    object: KeptRef,
    workload: KeptRef,
    since: Timestamp,
    is_certain: bool,
    severity: Severity,
    what: String,
    reason: String,
    why: String,
    cause: Option<KeptRef>,
    container: Option<String>,
}

/// Namespace, kind and name.
#[derive(Serialize, Deserialize)]
struct KeptRef(String, String, String);

/// An incident as it is kept, and how long it took if it is over. Its texts are redacted.
pub fn keep_incident(incident: &Incident, after: Option<SignedDuration>) -> Vec<u8> {
    let objects = objects(incident).map(|object| object.namespace.to_string());
    let kept = Kept {
        id: incident.id.clone(),
        detector: incident.detector.to_owned(),
        object: KeptRef::of(&incident.object),
        severity: incident.severity,
        since: incident.since,
        after_seconds: after.map(|after| after.as_secs()),
        headline: incident.headline.clone(),
        reason: incident.reason.to_string(),
        why: incident.why.clone(),
        effects: (incident.effects.iter().take(EFFECTS_MAX))
            .map(|effect| (KeptRef::of(&effect.object), effect.what.clone()))
            .collect(),
        changes: (incident.changes.iter())
            .map(|change| (KeptRef::of(&change.object), change.what.clone(), change.at))
            .collect(),
        symptoms: (incident.symptoms.iter().take(SYMPTOMS_MAX))
            .map(KeptSymptom::of)
            .collect(),
        namespaces: objects.filter(|name| !name.is_empty()).collect(),
    };
    // Texts, numbers and times always serialise.
    serde_json::to_vec(&kept).unwrap_or_default()
}

impl Contexts {
    /// An incident that was kept, redacted once more; `None` if it must not be shown now, or is
    /// not one.
    pub fn stored_incident(&self, kept: &[u8], words: StoredWords) -> Option<StoredIncident> {
        let kept: Kept = serde_json::from_slice(kept).ok()?;
        let after = kept.after_seconds.map(SignedDuration::from_secs);
        let namespaces = kept.namespaces.clone();
        let mut incident = kept.into_incident(self.redactor());
        let scope = self.scope();
        if scope.hides_logs && words == StoredWords::MayBeOfLogs {
            drop_words(&mut incident);
        }
        if scope.hides_some() && !hide(&mut incident, &scope) {
            return None;
        }
        redact(&mut incident, self.redactor());
        Some(StoredIncident {
            incident,
            after,
            namespaces,
        })
    }

    /// Whether an object that something kept names may be shown now.
    pub fn shows_stored(&self, kind: &str, namespace: &str, name: &str) -> bool {
        !self.scope().hides(allowed::ObjectRef {
            api_version: "",
            kind,
            namespace,
            name,
        })
    }

    /// What an incident that is kept now may have in it.
    pub fn stored_words(&self) -> StoredWords {
        if self.hides_logs() {
            StoredWords::WithoutLogs
        } else {
            StoredWords::MayBeOfLogs
        }
    }
}

/// All objects that an incident names.
fn objects(incident: &Incident) -> impl Iterator<Item = &ObjectRef> {
    let effects = incident.effects.iter().map(|effect| &effect.object);
    let changes = incident.changes.iter().map(|change| &change.object);
    let symptoms = incident.symptoms.iter().flat_map(|symptom| {
        [&symptom.object, &symptom.workload]
            .into_iter()
            .chain(&symptom.cause)
    });
    std::iter::once(&incident.object)
        .chain(effects)
        .chain(changes)
        .chain(symptoms)
}

/// Leaves only what Kubernetes itself says: the words may be those of a log.
fn drop_words(incident: &mut Incident) {
    incident.why = String::new();
    for symptom in &mut incident.symptoms {
        symptom.why = String::new();
    }
    let what = incident.symptoms.first().map(|symptom| &*symptom.what);
    let what = what.unwrap_or(incident.detector);
    incident.headline = format!("{}: {what}", incident.object);
}

/// Leaves out what must not be shown. Answers whether there is anything to show: an incident
/// whose own words name an object that must not be shown is left out as a whole.
fn hide(incident: &mut Incident, scope: &ReadScope) -> bool {
    let is_hidden = |object: &ObjectRef| {
        scope.hides(allowed::ObjectRef {
            api_version: "",
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
        })
    };
    if is_hidden(&incident.object) {
        return false;
    }
    let hidden: Vec<_> = objects(incident)
        .filter(|object| is_hidden(object))
        .map(|object| object.name.to_string())
        .collect();
    if hidden.is_empty() {
        return true;
    }
    let names_hidden = |text: &str| hidden.iter().any(|name| has_word(text, name));
    if names_hidden(&incident.headline) || names_hidden(&incident.why) {
        return false;
    }
    incident
        .effects
        .retain(|effect| !is_hidden(&effect.object) && !names_hidden(&effect.what));
    incident
        .changes
        .retain(|change| !is_hidden(&change.object) && !names_hidden(&change.what));
    for symptom in &mut incident.symptoms {
        symptom.cause = symptom.cause.take().filter(|cause| !is_hidden(cause));
    }
    incident.symptoms.retain(|symptom| {
        !is_hidden(&symptom.object)
            && !is_hidden(&symptom.workload)
            && !names_hidden(&symptom.what)
            && !names_hidden(&symptom.why)
    });
    true
}

/// Whether a name stands in a text as a word of its own.
fn has_word(text: &str, name: &str) -> bool {
    let inside = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_');
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            !text[..at].ends_with(inside) && !text[at + name.len()..].starts_with(inside)
        })
}

/// Redacts texts by the settings of now, around the names in them.
fn redact(incident: &mut Incident, redactor: &Redactor) {
    let names: BTreeSet<String> = objects(incident)
        .flat_map(|object| [object.name.to_string(), object.namespace.to_string()])
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let clean = |text: &mut String| *text = identity::keep_names(redactor, text, &names);
    clean(&mut incident.headline);
    clean(&mut incident.why);
    for effect in &mut incident.effects {
        clean(&mut effect.what);
    }
    for change in &mut incident.changes {
        clean(&mut change.what);
    }
    for symptom in &mut incident.symptoms {
        clean(&mut symptom.what);
        clean(&mut symptom.why);
    }
}

fn word(redactor: &Redactor, text: &str) -> Box<str> {
    identity::word(redactor, text).into()
}

fn known_detector(name: &str) -> &'static str {
    detector(name).map_or(UNKNOWN_DETECTOR, |detector| detector.name)
}

// === impl StoredIncident ===

impl StoredIncident {
    /// Whether it is one of a namespace: of a node, only if it hurts something there.
    pub fn concerns(&self, namespace: &str) -> bool {
        let object = &self.incident.object;
        (object.kind == "Namespace" && &*object.name == namespace)
            || self.namespaces.contains(namespace)
    }
}

// === impl Kept ===

impl Kept {
    fn into_incident(self, redactor: &Redactor) -> Incident {
        let of = |object: KeptRef| object.into_object(redactor);
        Incident {
            id: self.id,
            detector: known_detector(&self.detector),
            object: of(self.object),
            severity: self.severity,
            since: self.since,
            headline: self.headline,
            reason: word(redactor, &self.reason),
            why: self.why,
            effects: (self.effects.into_iter())
                .map(|(object, what)| Effect {
                    object: of(object),
                    what,
                })
                .collect(),
            changes: (self.changes.into_iter())
                .map(|(object, what, at)| Change {
                    object: of(object),
                    what,
                    at,
                })
                .collect(),
            symptoms: (self.symptoms.into_iter())
                .map(|symptom| symptom.into_symptom(redactor))
                .collect(),
        }
    }
}

// === impl KeptSymptom ===

impl KeptSymptom {
    fn of(symptom: &Symptom) -> Self {
        Self {
            detector: symptom.detector.to_owned(),
            object: KeptRef::of(&symptom.object),
            workload: KeptRef::of(&symptom.workload),
            since: symptom.since,
            is_certain: symptom.is_certain,
            severity: symptom.severity,
            what: symptom.what.clone(),
            reason: symptom.reason.to_string(),
            why: symptom.why.clone(),
            cause: symptom.cause.as_ref().map(KeptRef::of),
            container: symptom.container.as_deref().map(str::to_owned),
        }
    }

    fn into_symptom(self, redactor: &Redactor) -> Symptom {
        Symptom {
            detector: known_detector(&self.detector),
            object: self.object.into_object(redactor),
            workload: self.workload.into_object(redactor),
            since: self.since,
            is_certain: self.is_certain,
            severity: self.severity,
            what: self.what,
            reason: word(redactor, &self.reason),
            why: self.why,
            cause: self.cause.map(|cause| cause.into_object(redactor)),
            container: (self.container).map(|name| identity::name(redactor, &name).into()),
        }
    }
}

// === impl KeptRef ===

impl KeptRef {
    fn of(object: &ObjectRef) -> Self {
        Self(
            object.namespace.to_string(),
            object.kind.to_string(),
            object.name.to_string(),
        )
    }

    fn into_object(self, redactor: &Redactor) -> ObjectRef {
        let Self(namespace, kind, name) = self;
        let kind = match identity::word(redactor, &kind) {
            Cow::Borrowed(_) => kind,
            Cow::Owned(clean) => clean,
        };
        ObjectRef::new(
            kind,
            &identity::name(redactor, &namespace),
            &*identity::name(redactor, &name),
        )
    }
}

#[cfg(test)]
mod tests;
