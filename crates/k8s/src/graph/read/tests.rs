use serde_json::{Value, json};

use super::*;
use crate::{DeniedKinds, kind_watch::Lenient};
use kubecrier_topology::Relation;

fn summary<T: WatchedObject<Kind = Kind, Kept = ObjectSummary>>(
    kind: Kind,
    object: Value,
) -> ObjectSummary {
    let object: T = serde_json::from_value(object).unwrap();
    object.keep(kind, &Redactor::new(&[]).unwrap(), &ReadScope::default())
}

#[track_caller]
fn status<T: WatchedObject<Kind = Kind, Kept = ObjectSummary>>(
    kind: Kind,
    spec: Value,
    status: Value,
    expected: &str,
) {
    let metadata = json!({"name": "a", "namespace": "shop"});
    let object = json!({"metadata": metadata, "spec": spec, "status": status});
    assert_eq!(&*summary::<T>(kind, object).status, expected);
}

fn pod(spec: Value) -> ObjectSummary {
    let metadata = json!({
        "name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"},
        "managedFields": [{"fieldsV1": {"f:spec": {}}}],
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"},
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "x", "uid": "y"},
        ],
    });
    summary::<Pod>(Kind::Pod, json!({"metadata": metadata, "spec": spec}))
}

fn references(summary: &ObjectSummary) -> Vec<String> {
    let references = summary.references.iter();
    references
        .map(|reference| format!("{} {}", reference.relation, reference.target))
        .collect()
}

#[test]
fn a_pod_names_its_owner_its_node_and_what_it_reads() {
    let one = pod(json!({
        "nodeName": "node-1",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "env"}}]}],
        "containers": [{
            "name": "c",
            "envFrom": [{"secretRef": {"name": "env"}}],
            "env": [
                {"name": "PLAIN", "value": "x"},
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }],
        "volumes": [
            {"name": "a", "configMap": {"name": "files"}},
            {"name": "b", "secret": {"secretName": "tls"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "e", "emptyDir": {}},
            {"name": "f", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt"}},
                {"secret": {"name": "tls"}},
            ]}},
        ],
    }));
    assert_eq!(
        references(&one),
        [
            "owns ReplicaSet:shop/web",
            "runs-on Node:node-1",
            "mounts ConfigMap:shop/env",
            "mounts ConfigMap:shop/files",
            "mounts Secret:shop/env",
            "mounts Secret:shop/key",
            "mounts Secret:shop/pull",
            "mounts Secret:shop/tls",
            "mounts PersistentVolumeClaim:shop/data",
            "mounts PersistentVolumeClaim:shop/web-1-d",
        ]
    );
    assert_eq!((&*one.uid, one.labels.get("app")), ("u", Some("web")));
    assert_eq!(one.references[0].uid.as_deref(), Some("r"));
}

#[test]
fn what_an_operator_denied_is_not_even_named() {
    let metadata = json!({"name": "a", "namespace": "shop"});
    let spec = json!({
        "volumes": [{"secret": {"secretName": "tls"}}, {"configMap": {"name": "files"}}],
    });
    let one: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let denied = ReadScope {
        denied: DeniedKinds::new(&["Secret".to_owned()]).unwrap(),
        ..ReadScope::default()
    };
    let one = one.keep(Kind::Pod, &Redactor::new(&[]).unwrap(), &denied);
    assert_eq!(references(&one), ["mounts ConfigMap:shop/files"]);
}

#[test]
fn how_things_are_fits_a_line() {
    let running = json!({"phase": "Running", "containerStatuses": [{
        "name": "c", "ready": true, "restartCount": 2, "image": "", "imageID": "",
        "state": {"running": {}},
    }]});
    let spec = json!({"containers": [{"name": "c"}]});
    status::<Pod>(Kind::Pod, spec, running, "Running, 1/1 ready, 2 restarts");
    let deployment = Kind::Deployment;
    let ready =
        |ready: i64, updated: i64| json!({"readyReplicas": ready, "updatedReplicas": updated});
    status::<ReplicaWorkload>(deployment, json!({"replicas": 3}), ready(3, 3), "3/3 ready");
    let paused = json!({"replicas": 3, "paused": true, "strategy": {}});
    status::<ReplicaWorkload>(
        deployment,
        paused,
        ready(2, 1),
        "2/3 ready, 1 updated, paused",
    );
    status::<ReplicaWorkload>(deployment, json!({"replicas": 0}), json!({}), "scaled to 0");
    let stuck = json!({"conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]});
    status::<ReplicaWorkload>(
        deployment,
        json!({"replicas": 1}),
        stuck,
        "0/1 ready, ProgressDeadlineExceeded",
    );
    let daemons = json!({"numberReady": 2, "desiredNumberScheduled": 3});
    status::<DaemonSet>(Kind::DaemonSet, json!({}), daemons, "2/3 ready");
    let failed = json!({"conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
    ]});
    status::<Job>(Kind::Job, json!({}), failed, "Failed: BackoffLimitExceeded");
    status::<Job>(
        Kind::Job,
        json!({}),
        json!({"active": 1}),
        "1 active, 0 succeeded, 0 failed",
    );
    status::<Job>(Kind::Job, json!({"suspend": true}), json!({}), "Suspended");
    let cron = json!({"schedule": "*/5 * * * *", "suspend": true});
    let active = json!({"active": [{"name": "x"}]});
    status::<CronJob>(Kind::CronJob, cron, active, "*/5 * * * *, suspended");
    let conditions = json!({"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "True"},
    ]});
    let cordoned = json!({"unschedulable": true});
    status::<Node>(
        Kind::Node,
        cordoned,
        conditions,
        "Ready,SchedulingDisabled, DiskPressure",
    );
    status::<Namespace>(
        Kind::Namespace,
        json!({}),
        json!({"phase": "Active"}),
        "Active",
    );
}

#[test]
fn ways_in_name_where_they_lead() {
    let metadata = json!({"name": "web", "namespace": "shop"});
    let service = |spec: Value| {
        summary::<Service>(
            Kind::Service,
            json!({"metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}),
        )
    };
    let cluster_ip = service(json!({"type": "ClusterIP", "selector": {"app": "web"}}));
    assert_eq!(
        (&*cluster_ip.status, cluster_ip.selector.get("app")),
        ("ClusterIP", Some("web"))
    );
    let waiting = service(json!({"type": "LoadBalancer"}));
    assert_eq!(&*waiting.status, "LoadBalancer, no address yet");
    let other = json!({"type": "ExternalName", "externalName": "x.io", "selector": {"app": "web"}});
    let other = service(other);
    assert_eq!(&*other.status, "ExternalName, x.io");
    assert!(other.selector.is_empty());
    let ingress = summary::<Ingress>(
        Kind::Ingress,
        json!({
            "metadata": metadata,
            "spec": {
                "defaultBackend": {"service": {"name": "fallback"}},
                "rules": [
                    {"host": "a.io", "http": {"paths": [
                        {"path": "/", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
                        {"path": "/x", "backend": {"resource": {"kind": "Bucket", "name": "b"}}},
                    ]}},
                    {"http": {"paths": [{"backend": {"service": {"name": "web"}}}]}},
                ],
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}},
        }),
    );
    assert_eq!(&*ingress.status, "* a.io, at 10.0.0.1");
    assert_eq!(
        references(&ingress),
        ["routes Service:shop/fallback", "routes Service:shop/web"]
    );
    let scaler = summary::<Autoscaler>(
        Kind::HorizontalPodAutoscaler,
        json!({
            "metadata": metadata,
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 10,
            },
            "status": {"currentReplicas": 3},
        }),
    );
    assert_eq!(&*scaler.status, "3 of 2-10");
    assert_eq!(scaler.references[0].relation, Relation::Scales);
    assert_eq!(references(&scaler), ["scales Deployment:shop/web"]);
}

#[test]
fn what_an_object_says_is_bounded_and_clean() {
    let many: Vec<_> = (0..2000)
        .map(|n| json!({"configMap": {"name": format!("c-{n}")}}))
        .collect();
    let one = pod(json!({"volumes": many}));
    assert_eq!(one.references.len(), REFERENCES_MAX);
    let labels: BTreeMap<_, _> = (0..2000).map(|n| (format!("l-{n}"), "x")).collect();
    let object = json!({
        "metadata": {"name": "a", "labels": labels},
        "status": {"phase": format!("\u{1b}[31mpassword=swordfish-1 {}", "x".repeat(1000))},
    });
    let one = summary::<Namespace>(Kind::Namespace, object);
    assert_eq!(one.labels.iter().count(), LABELS_MAX);
    assert!(one.status.chars().count() < 300 && !one.status.contains('\u{1b}'));
    assert!(!one.status.contains("swordfish"), "{}", one.status);
}

/// The API server sends some empty lists as `null`, so every list must accept it.
#[test]
fn what_is_null_is_as_good_as_not_written() {
    let one = pod(json!({
        "nodeName": null, "initContainers": null, "imagePullSecrets": null,
        "containers": [{"name": "c", "env": null, "envFrom": null}],
        "volumes": [
            {"name": "a", "projected": {"sources": null}},
            {"name": "b", "secret": {"secretName": null}},
            {"name": "c", "configMap": {"name": "files"}},
        ],
    }));
    let expected = ["owns ReplicaSet:shop/web", "mounts ConfigMap:shop/files"];
    assert_eq!(references(&one), expected);
    let null = || json!({"spec": null, "status": null, "metadata": {"name": "a", "uid": null}});
    assert_eq!(&*summary::<Namespace>(Kind::Namespace, null()).status, "");
    assert_eq!(&*summary::<Job>(Kind::Job, null()).uid, "");
    let nothing = json!({"type": "LoadBalancer", "selector": null});
    let status_of = json!({"loadBalancer": {"ingress": null}});
    status::<Service>(
        Kind::Service,
        nothing,
        status_of,
        "LoadBalancer, no address yet",
    );
    let rules = json!({"rules": [{"http": {"paths": null}}]});
    status::<Ingress>(Kind::Ingress, rules, json!({"loadBalancer": null}), "*");
    let conditions = json!({"conditions": null, "readyReplicas": null});
    let spec = json!({"replicas": 2, "paused": null});
    status::<ReplicaWorkload>(Kind::Deployment, spec, conditions, "0/2 ready");
    let conditions = json!({"conditions": null});
    status::<Node>(
        Kind::Node,
        json!({"unschedulable": null}),
        conditions,
        "Unknown",
    );
}

#[test]
fn of_what_has_another_form_the_name_and_the_owners_are_known() {
    let decode = |spec: Value| {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}]);
        let metadata = json!({"name": "a", "namespace": "shop", "ownerReferences": owners});
        let object = json!({"metadata": metadata, "spec": spec});
        serde_json::from_value::<Lenient<Pod>>(object).unwrap()
    };
    assert!(decode(json!({"containers": []})).is_complete());
    let decoded = decode(json!({"containers": "none"}));
    assert!(!decoded.is_complete());
    let redactor = Redactor::new(&[]).unwrap();
    let one = decoded.keep(Kind::Pod, &redactor, &ReadScope::default());
    assert_eq!(
        (one.id.to_string(), &*one.status),
        ("Pod:shop/a".to_owned(), "not understood")
    );
    assert_eq!(references(&one), ["owns ReplicaSet:shop/web"]);
}

/// The first half of a secret would not be recognized.
#[test]
fn a_text_is_clean_before_it_is_cut() {
    let redactor = Redactor::new(&[]).unwrap();
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let text = format!("{} {token} and more", "x".repeat(150));
    let cut = clean(&text, STATUS_CHARS_MAX, &redactor);
    assert!(
        cut.chars().count() <= STATUS_CHARS_MAX && !cut.contains("ghp_a1B2"),
        "{cut}"
    );
    let long = "\u{fc}".repeat(5000);
    assert_eq!(
        clean(&long, 10_000, &redactor).chars().count(),
        REDACTED_BYTES_MAX / 2
    );
}
