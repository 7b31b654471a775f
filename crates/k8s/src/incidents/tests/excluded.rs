//! What the operator excludes is in no list.

use super::*;

/// The pods were just made; an error is shown after a while.
const HELD: Duration = Duration::from_secs(20);

/// Two pods that wait for one ConfigMap.
fn without_config(fixture: &Fixture) {
    let pod = fixture.cluster.get("pods", "shop", "web-1-a").unwrap();
    let mut other = Value::clone(&pod);
    other["metadata"] = json!({"name": "other", "namespace": "shop"});
    fixture.cluster.put(other).unwrap();
    let message = "configmap \"env\" not found";
    let waiting = json!({"reason": "CreateContainerConfigError", "message": message});
    for name in ["web-1-a", "other"] {
        let changed = fixture.cluster.modify("pods", "shop", name, |pod| {
            pod["status"] = json!({
                "phase": "Pending",
                "containerStatuses": [{"name": "app", "state": {"waiting": waiting}}],
            });
        });
        assert!(changed.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_denied_kind_is_not_named_as_the_cause() {
    let open_server = Fixture::new();
    without_config(&open_server);
    let view = open_server.follow().await.unwrap();
    open_server.pass(HELD).await;
    assert_eq!(open(&view), ["shop/configmap/env config-missing"]);
    let denying = Fixture::of(|config| {
        config.denied = DeniedKinds::new(&["configmaps".to_owned()]).unwrap();
    });
    without_config(&denying);
    let view = denying.follow().await.unwrap();
    denying.pass(HELD).await;
    let snapshot = view.snapshot();
    let [incident] = snapshot.open.as_slice() else {
        panic!("{:?}", open(&view))
    };
    assert_ne!(incident.object.kind, "ConfigMap");
    assert!(
        !incident.headline.starts_with("shop/configmap"),
        "{}",
        incident.headline
    );
    assert!(
        incident
            .effects
            .iter()
            .all(|one| one.object.kind != "ConfigMap")
    );
}

#[tokio::test(start_paused = true)]
async fn a_denied_kind_is_not_requested_and_what_is_not_seen_is_said() {
    let fixture = Fixture::of(|config| {
        config.denied = DeniedKinds::new(&["pods".to_owned()]).unwrap();
    });
    fixture.crash("no");
    let view = fixture.follow().await.unwrap();
    assert_eq!(open(&view), [""; 0]);
    let notes = view.snapshot().notes.clone();
    assert!(notes[0].contains("--denied-kinds"), "{notes:?}");
    assert!(notes[0].contains("crash-loop"), "{notes:?}");
    let pods = fixture.cluster.requests("list", "pods") + fixture.cluster.requests("watch", "pods");
    assert_eq!(pods, 0);
}

#[tokio::test(start_paused = true)]
async fn a_confined_server_reads_its_namespaces_and_nothing_else() {
    let fixture = Fixture::of(|config| {
        config.allowed.namespaces = AllowedNames::namespaces(&["shop".to_owned()]).unwrap();
    });
    fixture.crash("no");
    let shop = fixture.read("shop").await.unwrap();
    assert_eq!(open(&shop), ["shop/deployment/web crash-loop"]);
    for error in [
        fixture.read("other").await.unwrap_err(),
        fixture.follow().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    }
    let requests = fixture.cluster.recorded_requests();
    let outside = requests.iter().filter(|request| {
        request.namespace.as_deref() != Some("shop") && request.resource != "namespaces"
    });
    assert_eq!(outside.count(), 0, "{requests:?}");
}

/// A message of a container may be the end of its log, which is switched off.
#[tokio::test(start_paused = true)]
async fn logs_that_are_switched_off_are_neither_read_nor_shown() {
    let fixture = Fixture::of(|config| config.allowed.hides_logs = true);
    fixture
        .cluster
        .log("shop", "web-1-a", "app", "panic: no provider for eur");
    fixture.cluster.restart_log("shop", "web-1-a", "app");
    fixture.crash("panic: no provider for eur");
    let view = fixture.follow().await.unwrap();
    fixture.settle().await;
    assert_eq!(open(&view), ["shop/deployment/web crash-loop"]);
    let shown = format!("{:?}", view.snapshot());
    assert!(!shown.contains("no provider"), "{shown}");
    assert_eq!(fixture.cluster.requests("get", "pods/log"), 0);
}
