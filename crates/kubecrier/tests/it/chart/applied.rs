//! The chart on a real API server: every mode is accepted, and gives the rights that the server
//! wants, as its own `doctor` sees them.

use std::{fs, process::Output};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::{Cluster, Crds, Mount, Options, User, namespace, pod};
use tokio::time::{Duration, Instant};

use super::{
    everything,
    rendered::{Rendered, on_top_of, write_files},
};
use crate::{
    harness::{Http, TIMEOUT, initialize},
    in_cluster::in_pod,
};

/// Applies an object as helm does, and lets nothing pass that the API server does not know.
async fn apply(client: &Client, object: &Value) {
    let gvk = {
        let types = kube::core::TypeMeta {
            api_version: object["apiVersion"].as_str().unwrap().to_owned(),
            kind: object["kind"].as_str().unwrap().to_owned(),
        };
        GroupVersionKind::try_from(types).unwrap()
    };
    // A kind that was just defined is served a moment later.
    let began = Instant::now();
    let resource = loop {
        match kube::discovery::pinned_kind(client, &gvk).await {
            Ok((resource, _)) => break resource,
            Err(error) => assert!(began.elapsed() < TIMEOUT, "{gvk:?}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(space) => Api::namespaced_with(client.clone(), space, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object["metadata"]["name"].as_str().unwrap();
    let params = PatchParams::apply("helm").validation_strict();
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied.unwrap_or_else(|error| panic!("{gvk:?} {name}: {error}"));
}

pub(super) async fn apply_all(cluster: &Cluster, rendered: &Rendered) {
    let client = cluster.client(User::Admin).await.unwrap();
    for object in &rendered.objects {
        apply(&client, object).await;
    }
}

/// The report of `kubecrier doctor` in a pod with the ServiceAccount of the chart.
async fn doctor(cluster: &Cluster, space: &str, arguments: &[&str]) -> (Output, String) {
    let token = cluster.bound_token(space, "crier-kubecrier").await.unwrap();
    let mount = Mount::new(cluster, space, &token).unwrap();
    let mut doctor = in_pod(cluster, mount.path());
    let done = doctor.arg("doctor").args(arguments).output().unwrap();
    let text = String::from_utf8(done.stdout.clone()).unwrap();
    (done, text)
}

#[tokio::test]
async fn every_mode_is_applied_and_doctor_finds_its_rights() {
    let Some(bed) = testbed::shared() else { return };
    let files = match Crds::files() {
        Ok(files) => files,
        Err(missing) => return testbed::skip(&missing),
    };
    // Its own cluster: definitions of kinds would change what other tests see.
    let cluster = bed.fresh("chart", Options::default());
    let client = cluster.client(User::Admin).await.unwrap();
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        for text in text.split("\n---\n") {
            apply(&client, &serde_saphyr::from_str(text).unwrap()).await;
        }
    }
    for space in ["one", "some", "some-more", "all"] {
        let space = namespace(space);
        cluster.create_cluster_wide(&space).await.unwrap();
    }
    let mode = |rbac: Value| on_top_of(&everything(), &json!({"rbac": rbac}));

    let one = mode(json!({"scope": "namespace"}));
    let Some(one) = Rendered::of("one", &one) else {
        return;
    };
    apply_all(&cluster, &one).await;
    let (done, text) = doctor(&cluster, "one", &[]).await;
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.contains("only in one"), "{text}");
    let (done, text) = doctor(&cluster, "one", &["-n", "some"]).await;
    assert_eq!(done.status.code(), Some(1), "of no other namespace: {text}");

    let some = mode(json!({"scope": "namespaces", "namespaces": ["some", "some-more"]}));
    // The others have a claim.
    let some = on_top_of(&some, &json!({"history": {"persistent": false}}));
    apply_all(&cluster, &Rendered::of("some", &some).unwrap()).await;
    let (done, text) = doctor(&cluster, "some", &["-n", "some", "-n", "some-more"]).await;
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.contains("only in some, some-more"), "{text}");
    let (done, text) = doctor(&cluster, "some", &["-n", "one"]).await;
    assert_eq!(done.status.code(), Some(1), "of no other namespace: {text}");

    let all = mode(json!({"scope": "cluster"}));
    apply_all(&cluster, &Rendered::of("all", &all).unwrap()).await;
    let (done, text) = doctor(&cluster, "all", &[]).await;
    assert_eq!(done.status.code(), Some(0), "{text}");
    let missing = text.contains("may not") || text.contains("only in");
    assert!(!missing, "nothing is missing: {text}");
}

#[tokio::test]
async fn a_pod_of_the_chart_is_accepted_where_only_restricted_ones_are() {
    let Some(bed) = testbed::shared() else { return };
    let Some(rendered) = Rendered::of("restricted", &everything()) else {
        return;
    };
    let mut space = namespace("restricted");
    let enforce = ("pod-security.kubernetes.io/enforce", "restricted");
    let labels = [(enforce.0.to_owned(), enforce.1.to_owned())];
    space.metadata.labels = Some(labels.into());
    bed.dev().create_cluster_wide(&space).await.unwrap();
    let client = bed.dev().client(User::Admin).await.unwrap();
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, "restricted");
    let template = &rendered.one("Deployment", "crier-kubecrier")["spec"]["template"];
    let mut pod = json!({"metadata": {"name": "crier"}, "spec": template["spec"]});
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let create = async |pod: &Value| {
        let pod = serde_json::from_value(pod.clone()).unwrap();
        pods.create(&params, &pod).await
    };
    create(&pod).await.unwrap();
    let container = &mut pod["spec"]["containers"][0];
    container["securityContext"]["allowPrivilegeEscalation"] = true.into();
    let refused = create(&pod).await.unwrap_err().to_string();
    assert!(refused.contains("violates PodSecurity"), "{refused}");
}

/// What the container would have: arguments, mounted files and environment, elsewhere.
#[tokio::test]
async fn what_is_rendered_starts_and_asks_for_a_token() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let values = json!({
        "image": {"repository": "registry.example/kubecrier"},
        "auth": {"tokens": {"values": {"ann": "0123456789abcdef", "bob": "fedcba9876543210"}}},
        "settings": {"denied_kinds": ["Secret"], "drain_timeout_seconds": 20, "redact": ["a+"]},
    });
    let Some(rendered) = Rendered::of("chart-run", &values) else {
        return;
    };
    let created = cluster.create_cluster_wide(&namespace("chart-run")).await;
    created.unwrap();
    apply_all(cluster, &rendered).await;
    cluster
        .create(&pod("chart-run", "web-0", &["web"]))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let moved = |text: &str| text.replace("/etc/kubecrier", here);
    let files: Vec<_> = rendered
        .mounted()
        .into_iter()
        .map(|(path, text)| (path, moved(&text)))
        .collect();
    write_files(folder.path(), &files);
    let container =
        &rendered.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments = arguments.map(|argument| moved(argument.as_str().unwrap()));
    let token = cluster.bound_token("chart-run", "crier-kubecrier").await;
    let mount = Mount::new(cluster, "chart-run", &token.unwrap()).unwrap();
    let mut command = in_pod(cluster, mount.path());
    command
        .args(arguments)
        .args(["--bind-address", "127.0.0.1"]);
    let (server, base) = Http::launch(&mut command);
    let http = reqwest::Client::new();
    for probe in [&container["livenessProbe"], &container["readinessProbe"]] {
        let path = probe["httpGet"]["path"].as_str().unwrap();
        let answer = http.get(format!("{base}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}: {}", server.log());
    }
    let call = async |host: &str, token: Option<&str>| {
        let mut request = http.post(format!("{base}/mcp")).header("host", host);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let request = request.header("accept", "application/json, text/event-stream");
        let answer = request.json(&initialize("2025-11-25")).send().await;
        answer.unwrap().status()
    };
    let name = "crier-kubecrier.chart-run.svc:8080";
    assert_eq!(call(name, None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(call(name, Some("0123456789abcdef")).await, StatusCode::OK);
    assert_eq!(call(name, Some("fedcba9876543210")).await, StatusCode::OK);
    let elsewhere = call("evil.example", Some("0123456789abcdef")).await;
    assert!(elsewhere.is_client_error(), "{elsewhere}");
    // A call without a namespace sees the one that may be read.
    let session = crate::harness::HttpSession::begin_as(&base, "0123456789abcdef").await;
    let pods = session.call("pods_list", json!({})).await.ok();
    assert!(pods.text.contains("web-0"), "{}", pods.text);
    let metrics = http.get(format!("{base}/metrics"));
    let metrics = metrics.send().await.unwrap().status();
    assert_eq!(metrics, StatusCode::UNAUTHORIZED);
}
