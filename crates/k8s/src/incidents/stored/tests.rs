use super::*;
use crate::{Allowed, AllowedNames, ClusterIdentity, Config, DeniedKinds};

fn contexts(denied: &[&str], namespaces: &[&str], redact: &[&str], hides_logs: bool) -> Contexts {
    let texts = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    let namespaces = match namespaces {
        [] => AllowedNames::default(),
        names => AllowedNames::namespaces(&texts(names)).unwrap(),
    };
    Contexts::new(Config {
        kubeconfig: None,
        context: None,
        request_timeout: std::time::Duration::from_secs(1),
        demo: None,
        redactor: Redactor::new(&texts(redact)).unwrap(),
        denied: DeniedKinds::new(&texts(denied)).unwrap(),
        allowed: Allowed {
            namespaces,
            hides_logs,
            ..Allowed::default()
        },
        identity: ClusterIdentity::default(),
    })
}

fn incident() -> Incident {
    let pod = ObjectRef::new("Pod", "shop", "web-0");
    let web = ObjectRef::new("Deployment", "shop", "web");
    let node = ObjectRef::new("Node", "", "worker-2");
    let at = "2026-11-15T10:00:00Z".parse().unwrap();
    let symptom = Symptom::new("crash-loop", pod.clone(), at, "crashes at start")
        .why("the word is hunter2")
        .reason("CrashLoopBackOff")
        .caused_by(Some(node))
        .container("app")
        .of(web.clone())
        .certain();
    Incident {
        id: "i-0123456789".to_owned(),
        detector: symptom.detector,
        object: web.clone(),
        severity: Severity::Critical,
        since: at,
        headline: "shop/deployment/web: crashes at start: the word is hunter2".to_owned(),
        reason: "CrashLoopBackOff".into(),
        why: "the word is hunter2".to_owned(),
        effects: vec![
            Effect {
                object: pod,
                what: "crashes".to_owned(),
            },
            Effect {
                object: ObjectRef::new("Deployment", "bank", "teller"),
                what: "has nothing to talk to".to_owned(),
            },
        ],
        changes: vec![Change {
            object: web,
            what: "rollout to web:1.9.0".to_owned(),
            at,
        }],
        symptoms: vec![symptom],
    }
}

fn read(contexts: &Contexts, incident: &Incident) -> Option<StoredIncident> {
    let kept = keep_incident(incident, Some(SignedDuration::from_secs(7)));
    contexts.stored_incident(&kept, StoredWords::MayBeOfLogs)
}

#[test]
fn an_incident_is_read_as_it_was_written() {
    let mut known = incident();
    // Whichever detectors there are, their names are known.
    known.detector = kubecrier_incidents::detectors::DETECTORS[0].name;
    known.symptoms[0].detector = known.detector;
    let stored = read(&contexts(&[], &[], &[], false), &known).unwrap();
    assert_eq!(stored.incident, known);
    assert_eq!(stored.after, Some(SignedDuration::from_secs(7)));
    assert!(stored.concerns("shop") && stored.concerns("bank") && !stored.concerns("other"));
    let garbage = contexts(&[], &[], &[], false);
    assert!(
        garbage
            .stored_incident(b"{}", StoredWords::WithoutLogs)
            .is_none()
    );
}

#[test]
fn the_settings_of_now_decide_what_is_shown() {
    let known = incident();
    assert!(read(&contexts(&["deployments"], &[], &[], false), &known).is_none());
    assert!(read(&contexts(&[], &["bank"], &[], false), &known).is_none());
    let confined = read(&contexts(&[], &["shop"], &[], false), &known).unwrap();
    let text = format!("{:?}", confined.incident);
    assert!(text.contains("web-0") && !text.contains("bank"), "{text}");
    assert!(
        !text.contains("worker-2"),
        "a node belongs to the whole cluster: {text}"
    );
    let pods = read(&contexts(&["pods"], &[], &[], false), &known).unwrap();
    assert!(pods.incident.symptoms.is_empty(), "{:?}", pods.incident);
    assert_eq!(pods.incident.effects.len(), 1);
    let mut naming = known.clone();
    naming.headline = "shop/deployment/web: web-0 crashes".to_owned();
    assert!(read(&contexts(&["pods"], &[], &[], false), &naming).is_none());
    let redacted = read(&contexts(&[], &[], &["hunter2"], false), &known).unwrap();
    let text = format!("{:?}", redacted.incident);
    assert!(
        text.contains("the word is") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn words_of_logs_are_not_shown_where_logs_are_switched_off() {
    let known = incident();
    let silent = contexts(&[], &[], &[], true);
    let stored = read(&silent, &known).unwrap();
    let text = format!("{:?}", stored.incident);
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(
        stored.incident.headline,
        "shop/deployment/web: crashes at start"
    );
    let kept = keep_incident(&known, None);
    let stored = silent
        .stored_incident(&kept, StoredWords::WithoutLogs)
        .unwrap();
    assert_eq!(stored.incident.headline, known.headline);
    assert_eq!(silent.stored_words(), StoredWords::WithoutLogs);
}

#[test]
fn a_large_incident_keeps_all_its_namespaces() {
    let mut large = incident();
    for number in 0..2000 {
        large.effects.push(Effect {
            object: ObjectRef::new("Pod", &format!("team-{number}"), "web"),
            what: "waits".to_owned(),
        });
    }
    let stored = read(&contexts(&[], &[], &[], false), &large).unwrap();
    assert_eq!(stored.incident.effects.len(), EFFECTS_MAX);
    assert!(stored.concerns("team-1999"));
}
