//! The status of a pod, with the API server's own table as the oracle.

use serde_json::json;
use testbed::{User, namespace, pod};

use crate::harness::{Http, one_context};

/// READY, STATUS and RESTARTS, as the API server prints them for kubectl.
async fn kubectl_columns(cluster: &testbed::Cluster, namespace: &str) -> Vec<[String; 4]> {
    let client = cluster.client(User::Admin).await.unwrap();
    let request = http::Request::get(format!("/api/v1/namespaces/{namespace}/pods"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: serde_json::Value = client.request(request).await.unwrap();
    let cell = |row: &serde_json::Value, index: usize| {
        let text = row["cells"][index].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| row["cells"][index].to_string());
        text.split(' ').next().unwrap().to_owned()
    };
    let rows = table["rows"].as_array().unwrap();
    rows.iter()
        .map(|row| [0, 1, 2, 3].map(|index| cell(row, index)))
        .collect()
}

#[tokio::test]
async fn the_status_of_a_pod_is_what_kubectl_shows() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace("status"))
        .await
        .unwrap();
    let status = |name: &str, ready: bool, restarts: i32, state: serde_json::Value| {
        json!({"name": name, "image": "i", "imageID": "", "ready": ready,
               "restartCount": restarts, "started": ready, "state": state})
    };
    let running = || json!({"running": {}});
    let waiting = |why: &str| json!({"waiting": {"reason": why}});
    let ended = |code: i32, why: &str| json!({"terminated": {"exitCode": code, "reason": why}});
    let is =
        |kind: &str, value: &str, why: &str| json!({"type": kind, "status": value, "reason": why});
    let two = |a: serde_json::Value, b: serde_json::Value| json!({"containerStatuses": [a, b]});
    let mut cases = vec![
        (
            "running",
            two(
                status("a", true, 0, running()),
                status("b", true, 1, running()),
            ),
        ),
        (
            "crashing",
            two(
                status("a", false, 7, waiting("CrashLoopBackOff")),
                status("b", true, 0, running()),
            ),
        ),
        (
            "second-waits",
            two(
                status("a", true, 0, running()),
                status("b", false, 0, waiting("ErrImagePull")),
            ),
        ),
        (
            "half-done",
            two(
                status("a", false, 0, ended(0, "Completed")),
                status("b", false, 0, ended(1, "Error")),
            ),
        ),
        (
            "done-and-running",
            two(
                status("a", false, 0, ended(0, "Completed")),
                status("b", true, 0, running()),
            ),
        ),
        (
            "oom",
            two(
                status("a", false, 2, ended(137, "OOMKilled")),
                status("b", true, 0, running()),
            ),
        ),
        (
            "signalled",
            two(
                status(
                    "a",
                    false,
                    0,
                    json!({"terminated": {"exitCode": 1, "signal": 9}}),
                ),
                status("b", true, 0, running()),
            ),
        ),
        (
            "coded",
            two(
                status("a", false, 0, ended(3, "")),
                status("b", true, 0, running()),
            ),
        ),
        (
            "creating",
            two(
                status("a", false, 0, waiting("ContainerCreating")),
                status("b", false, 0, waiting("ContainerCreating")),
            ),
        ),
        ("evicted", json!({"phase": "Failed", "reason": "Evicted"})),
        (
            "gated",
            json!({"phase": "Pending", "conditions": [is("PodScheduled", "False", "SchedulingGated")]}),
        ),
        ("nothing", json!({})),
    ];
    let mut ready = two(
        status("a", false, 0, ended(0, "Completed")),
        status("b", true, 0, running()),
    );
    ready["conditions"] = json!([is("Ready", "True", "")]);
    cases.push(("ready-again", ready));
    for (name, mut status) in cases {
        cluster
            .create(&pod("status", name, &["a", "b"]))
            .await
            .unwrap();
        if status.get("phase").is_none() {
            status["phase"] = "Running".into();
        }
        cluster
            .set_pod_status("status", name, status)
            .await
            .unwrap();
    }
    let init =
        |first: serde_json::Value| json!({"phase": "Pending", "initContainerStatuses": [first]});
    let mut inits = vec![
        ("init-busy", init(status("setup", false, 0, running()))),
        (
            "init-pull",
            init(status("setup", false, 0, waiting("ImagePullBackOff"))),
        ),
        (
            "init-failed",
            init(status("setup", false, 3, ended(2, "Error"))),
        ),
        (
            "init-done",
            init(status("setup", false, 0, ended(0, "Completed"))),
        ),
    ];
    let mut sidecar = init(status("setup", false, 5, ended(0, "Completed")));
    sidecar["phase"] = "Running".into();
    sidecar["initContainerStatuses"]
        .as_array_mut()
        .unwrap()
        .push(status("proxy", true, 3, running()));
    sidecar["containerStatuses"] = json!([status("a", true, 0, running())]);
    inits.push(("sidecar", sidecar));
    for (name, status) in inits {
        let mut one = pod("status", name, &["a"]);
        one.spec.as_mut().unwrap().init_containers = Some(
            serde_json::from_value(json!([
                {"name": "setup", "image": "i"},
                {"name": "proxy", "image": "i", "restartPolicy": "Always"},
            ]))
            .unwrap(),
        );
        cluster.create(&one).await.unwrap();
        cluster
            .set_pod_status("status", name, status)
            .await
            .unwrap();
    }
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let answer = http
        .call("pods_list", json!({"namespace": "status"}))
        .await
        .ok();
    let ours: Vec<[String; 4]> = answer
        .text
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            [1, 2, 3, 4].map(|index| cells[index].to_owned())
        })
        .collect();
    let theirs = kubectl_columns(cluster, "status").await;
    assert_eq!(theirs.len(), 18);
    assert_eq!(ours, theirs);
}
