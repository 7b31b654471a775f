use jiff::SignedDuration;
use kubecrier_incidents::{Effect, Symptom, Transition, objects::ObjectRef};

use super::*;

impl IncidentRead {
    /// Incidents that nothing keeps up to date.
    pub(crate) fn of(snapshots: Vec<IncidentSnapshot>) -> Self {
        Self {
            context: "dev".to_owned(),
            snapshots: snapshots.into_iter().map(Arc::new).collect(),
            views: Vec::new(),
            left_out: Vec::new(),
            _claims: Vec::new(),
        }
    }
}

/// A Deployment of which so many pods crash.
pub(crate) fn crashing(name: &str, severity: Severity, pods: usize) -> Incident {
    let now = Timestamp::now();
    let object = ObjectRef::new("Deployment", "shop", name);
    let pod = |number: usize| ObjectRef::new("Pod", "shop", format!("{name}-85ffffd97d-{number}"));
    let symptom = |number: usize| {
        Symptom::new("crash-loop", pod(number), now, "crashes at start")
            .of(object.clone())
            .why("panic: no provider for eur")
            .container("app")
    };
    let effect = |number: usize| Effect {
        object: pod(number),
        what: "crashes at start".to_owned(),
    };
    Incident {
        id: format!("i-{name}"),
        detector: "crash-loop",
        object: object.clone(),
        severity,
        since: now - SignedDuration::from_mins(4),
        headline: format!(
            "{object}: all {pods} pods crash at start (exit 2, \"panic: no provider for eur\"), since \
             rollout to {name}:1.9.0 4 min ago"
        ),
        reason: "CrashLoopBackOff".into(),
        why: "panic: no provider for eur".to_owned(),
        effects: (0..pods).map(effect).collect(),
        changes: Vec::new(),
        symptoms: (0..pods).map(symptom).collect(),
    }
}

/// The incidents of a cluster.
pub(crate) fn snapshot(open: Vec<Incident>, resolved: Vec<Incident>) -> IncidentSnapshot {
    let now = Timestamp::now();
    let resolved = resolved.into_iter().map(|incident| ResolvedIncident {
        incident,
        at: now,
        after: SignedDuration::from_secs(252),
    });
    IncidentSnapshot {
        context: "dev".to_owned(),
        namespace: None,
        at: now,
        open: open.into_iter().map(Arc::new).collect(),
        resolved: resolved.map(Arc::new).collect(),
        notes: Vec::new(),
        seq: 3,
        clearance: None,
    }
}

/// An update in which these were opened.
pub(crate) fn update(seq: u64, opened: Vec<Incident>) -> Arc<IncidentUpdate> {
    Arc::new(IncidentUpdate {
        context: "dev".into(),
        seq,
        at: Timestamp::now(),
        clearance: None,
        transitions: opened.into_iter().map(Transition::Opened).collect(),
    })
}

#[test]
fn an_update_is_serialised_once_for_all_that_follow() {
    let cache = NoticeCache::default();
    let first = update(1, vec![crashing("web", Severity::Critical, 3)]);
    let notices = cache.get(&first);
    assert!(Arc::ptr_eq(&notices, &cache.get(&first)));
    let second = update(2, Vec::new());
    assert!(cache.get(&second).is_empty());
}

#[test]
fn incidents_of_several_namespaces_are_one_list() {
    let node = |namespace: &str| {
        let mut one = crashing("node", Severity::Warning, 0);
        one.why = namespace.to_owned();
        one
    };
    let a = snapshot(
        vec![node("a"), crashing("low", Severity::Info, 1)],
        Vec::new(),
    );
    let b = snapshot(
        vec![crashing("web", Severity::Critical, 1), node("b")],
        Vec::new(),
    );
    let read = IncidentRead::of(vec![a, b]);
    let ids: Vec<_> = read.open().iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["i-web", "i-node", "i-low"]);
}
