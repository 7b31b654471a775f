use serde_json::{Value, json};

use super::*;

/// An incident of a Deployment that hurts so many of its pods.
pub(crate) fn incident(namespace: &str, name: &str, severity: Severity, pods: usize) -> Incident {
    let pod = |number: usize| Effect {
        object: ObjectRef::new("Pod", namespace, format!("{name}-{number}")),
        what: "crashes at start".to_owned(),
    };
    Incident {
        id: format!("i-{name}"),
        detector: "crash-loop",
        object: ObjectRef::new("Deployment", namespace, name),
        severity,
        since: "2026-11-15T10:00:00Z".parse().unwrap(),
        headline: format!("{namespace}/deployment/{name}: all {pods} pods crash at start"),
        reason: "CrashLoopBackOff".into(),
        why: "panic: no provider".to_owned(),
        effects: (0..pods).map(pod).collect(),
        changes: Vec::new(),
        symptoms: Vec::new(),
    }
}

fn payload(transition: &Transition) -> (String, Value) {
    let notice = IncidentNotice::new(transition, "2026-11-15T10:04:12Z".parse().unwrap());
    let payload = serde_json::to_value(notice.payload()).unwrap();
    (notice.summary().to_owned(), payload)
}

#[test]
fn a_payload_says_what_happened_and_the_end_how_long_it_took() {
    let web = incident("shop", "web", Severity::Critical, 1);
    let (summary, opened) = payload(&Transition::Opened(web.clone()));
    assert_eq!(
        opened,
        json!({
            "transition": "opened",
            "at": "2026-11-15T10:04:12Z",
            "id": "i-web",
            "severity": "critical",
            "object": "shop/deployment/web",
            "headline": "shop/deployment/web: all 1 pods crash at start",
            "since": "2026-11-15T10:00:00Z",
            "reason": "CrashLoopBackOff",
            "why": "panic: no provider",
            "detector": "crash-loop",
            "effects": [{"object": "shop/pod/web-0", "what": "crashes at start"}],
        })
    );
    assert!(
        summary.starts_with("opened critical i-web shop/"),
        "{summary}"
    );
    let over = Transition::Resolved {
        incident: web,
        after: SignedDuration::from_secs(252),
    };
    let (summary, over) = payload(&over);
    assert_eq!(over["transition"], "resolved");
    assert_eq!(over["durationSeconds"], 252);
    assert!(summary.starts_with("resolved after 4m"), "{summary}");
}

#[test]
fn forty_pods_are_twenty_and_a_number() {
    let (_, data) = payload(&Transition::Changed(incident(
        "shop",
        "web",
        Severity::Info,
        40,
    )));
    assert_eq!(data["effects"].as_array().unwrap().len(), EFFECTS_MAX);
    assert_eq!(data["effectsOmitted"], 20);
}
