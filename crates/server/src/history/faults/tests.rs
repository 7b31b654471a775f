use std::time::Duration;

use kubecrier_core::{EventFields, InvolvedObject, faults::CaptureError};
use kubecrier_history::{HistoryConfig, Retention};
use kubecrier_k8s::{Allowed, ClusterIdentity, Config, DeniedKinds};
use tokio::{sync::oneshot, task::JoinSet};

use super::*;

fn contexts(denied: &[&str], redact: &[&str], hides_logs: bool) -> Arc<Contexts> {
    let texts = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    Arc::new(Contexts::new(Config {
        kubeconfig: None,
        context: None,
        request_timeout: Duration::from_secs(1),
        demo: None,
        redactor: Redactor::new(&texts(redact)).unwrap(),
        denied: DeniedKinds::new(&texts(denied)).unwrap(),
        allowed: Allowed {
            hides_logs,
            ..Allowed::default()
        },
        identity: ClusterIdentity::default(),
    }))
}

fn event(count: i32) -> Arc<Event> {
    Arc::new(Event::from(EventFields {
        uid: "u1".to_owned(),
        namespace: "shop".to_owned(),
        kind: "Warning".to_owned(),
        reason: "BackOff".to_owned(),
        timestamp: Timestamp::from_second(1_800_000_000 + i64::from(count)).unwrap(),
        count,
        involved: InvolvedObject {
            kind: "Pod".to_owned(),
            name: "web-0".to_owned(),
            namespace: "shop".to_owned(),
            ..InvolvedObject::default()
        },
        ..EventFields::default()
    }))
}

fn report(id: &str, sample: Option<&str>) -> Arc<Report> {
    let mut evidence = Evidence::failed("app", CaptureError::NotFound);
    evidence.logs[0].sample = sample.map(str::to_owned);
    Arc::new(Report::new(&Captured {
        fault_id: id.to_owned(),
        evidence: Arc::new(evidence),
    }))
}

#[tokio::test]
async fn a_fault_is_found_with_the_evidence_of_then_by_the_settings_of_now() {
    let held = tempfile::tempdir().unwrap();
    let (history, writer) = History::open(HistoryConfig {
        folder: held.path().join("history"),
        retention: Retention::default(),
    })
    .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(writer.run(async {
        let _ended = stopped.await;
    }));
    let open = contexts(&[], &[], false);
    let archive = FaultArchive {
        history: history.clone(),
        contexts: Arc::clone(&open),
    };
    archive.keep("dev", &event(1), &report("f1", None));
    archive.keep(
        "dev",
        &event(2),
        &report("f1", Some("panic: the word is hunter2")),
    );
    // The pod is gone: what was found before stays.
    archive.keep("dev", &event(3), &report("f1", None));
    archive.keep("dev", &event(3), &report("f2", None));
    assert!(history.flush().await);
    let among = || vec!["other".to_owned(), "dev".to_owned()];
    let found = find(&history, &open, among(), "f1").await.unwrap();
    assert_eq!((&*found.cluster, found.count), ("dev", 3));
    assert_eq!(found.first_seen.as_second(), 1_800_000_001);
    assert_eq!(
        found.report.logs()[0].sample.as_deref(),
        Some("panic: the word is hunter2")
    );
    assert!(find(&history, &open, among(), "f3").await.is_none());
    assert!(
        find(&history, &open, vec!["other".to_owned()], "f1")
            .await
            .is_none()
    );
    let denied = contexts(&["pods"], &[], false);
    assert!(find(&history, &denied, among(), "f1").await.is_none());
    let silent = contexts(&[], &[], true);
    let found = find(&history, &silent, among(), "f1").await.unwrap();
    assert!(!found.report.has_samples());
    let shown = serde_json::to_string(&*found.report).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    drop(stop);
    running.join_next().await.unwrap().unwrap();
}
