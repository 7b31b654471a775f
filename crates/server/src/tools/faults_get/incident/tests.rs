use kubecrier_k8s::ResolvedIncident;

use super::*;
use crate::incidents::tests::crashing;
use kubecrier_core::faults::CrashSignature;
use kubecrier_incidents::{Change, Severity};

fn log(previous: bool, sample: Option<&str>) -> LogEntry {
    LogEntry {
        sample: sample.map(str::to_owned),
        error: None,
        ..LogEntry::failed("app", previous, CaptureError::NotFound)
    }
}

fn story(found: &Found, logs: Vec<LogEntry>) -> Story<'_> {
    let mut evidence = Evidence::failed("app", CaptureError::NotFound);
    evidence.logs = logs;
    Story {
        found,
        context: "dev",
        pod: found.incident().symptoms.first(),
        evidence: Some(Arc::new(evidence)),
        events: Vec::new(),
        next: vec![("pods_log", json!({"namespace": "shop", "previous": true}))],
        notes: Vec::new(),
    }
}

#[test]
fn forty_pods_are_one_line_and_the_log_of_the_crash_is_shown() {
    let mut incident = crashing("payment", Severity::Critical, 40);
    incident.changes = vec![Change {
        object: incident.object.clone(),
        what: "rollout to payment:1.9.0".to_owned(),
        at: incident.since,
    }];
    let found = Found::Open(Arc::new(incident));
    let mut crash = log(
        true,
        Some("booting\nstarting\npanic: no provider for eur\ngoroutine 1\n"),
    );
    crash.has_panic = true;
    crash.signature = Some(CrashSignature {
        kind: kubecrier_core::faults::CrashKind::Go,
        line: "panic: no provider for eur".to_owned(),
    });
    let story = story(&found, vec![log(false, Some("waiting for it\n")), crash]);
    let text = story.text();
    assert!(
        text.starts_with("shop/deployment/payment: all 40 pods"),
        "{text}"
    );
    assert!(text.contains("and 37 more: crashes at start"), "{text}");
    assert_eq!(text.matches("pod/payment").count(), 3, "{text}");
    assert!(text.contains("run before"), "{text}");
    assert!(text.contains("  | panic: no provider for eur\n"), "{text}");
    assert!(!text.contains("waiting for it"), "{text}");
    assert!(text.contains("Changed before:\n- 4m"), "{text}");
    assert!(text.contains("Look next:\n- pods_log {"), "{text}");
    assert!(text.len() <= TEXT_BYTES_MAX, "{}", text.len());
    let data = Value::Object(story.data());
    assert_eq!(data["symptoms"][0]["count"], 40);
    assert!(
        data.to_string().len() < 10_000,
        "{}",
        data.to_string().len()
    );
}

#[test]
fn a_log_that_may_not_be_read_is_named_and_one_that_never_was_is_not() {
    let found = Found::Open(Arc::new(crashing("web", Severity::Warning, 1)));
    let text = |error| story(&found, vec![LogEntry::failed("app", false, error)]).text();
    assert!(text(CaptureError::SwitchedOff).contains("none (switched_off)"));
    assert!(!text(CaptureError::NotFound).contains("Log of"));
}

#[test]
fn what_is_over_says_since_when_and_for_how_long() {
    let incident = crashing("web", Severity::Critical, 1);
    let found = Found::Resolved(Arc::new(ResolvedIncident {
        incident,
        at: Timestamp::now(),
        after: jiff::SignedDuration::from_secs(252),
    }));
    let story = story(&found, Vec::new());
    assert!(
        story.text().contains("critical, resolved at 2"),
        "{}",
        story.text()
    );
    assert!(story.text().contains(" after 4m"), "{}", story.text());
    assert_eq!(story.data()["status"], "resolved");
    assert_eq!(story.data()["incident"]["durationSeconds"], 252);
}
