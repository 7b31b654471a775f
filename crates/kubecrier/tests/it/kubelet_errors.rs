//! What a kubelet answers in place of a log: an error, and never a line of the workload.

use serde_json::{Value, json};
use testbed::{LogScript, User, event, namespace, pod};

use crate::{
    harness::{Http, Subscriber, one_context},
    resources::{UpdateStream, read_modern},
};

const GONE: &str = "unable to retrieve container logs for containerd://4f2d0c9ab6";
const ROTATED: &str = "failed to try resolving symlinks in path \"/var/log/pods/a/app/3.log\": \
                       lstat /var/log/pods/a/app/3.log: no such file or directory";

/// Longer than any attempt goes on.
const ALWAYS: usize = 1000;

/// A pod whose container `app` has crashed and was started again.
async fn crashed(space: &str, name: &str) {
    let cluster = testbed::shared().unwrap().dev();
    cluster.create(&pod(space, name, &["app"])).await.unwrap();
    let status = json!({"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 2,
        "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
    }]});
    cluster.set_pod_status(space, name, status).await.unwrap();
}

async fn warn(space: &str, name: &str) {
    let warning = event(space, &format!("Pod/{name}"), "Warning", "BackOff", "again");
    let cluster = testbed::shared().unwrap().dev();
    cluster.create(&warning).await.unwrap();
}

fn excused(container: &str, previous: bool, message: &str) -> Value {
    json!({"container": container, "previous": previous, "hasPanic": false,
           "error": "unavailable", "message": message})
}

/// S3-34: neither a sample nor silence.
#[tokio::test]
async fn an_excuse_is_an_error_entry_and_what_comes_later_is_the_sample() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "excused-faults");
    let node = cluster.node();
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in ["brief", "gone", "words"] {
        crashed(space, name).await;
    }
    let log = |name: &str| format!("{space}/{name}/app");
    let crash = LogScript::lines(["panic: no config"]);
    node.set_log(
        &log("brief"),
        LogScript::lines(["starting"]).excused(1, ROTATED),
    );
    node.set_previous_log(&log("brief"), crash.clone().excused(2, GONE));
    node.set_log(&log("gone"), LogScript::lines(["starting"]));
    node.set_previous_log(&log("gone"), crash.excused(ALWAYS, GONE));
    // A workload may say the same.
    node.set_log(&log("words"), LogScript::lines([GONE]));
    node.set_previous_log(&log("words"), LogScript::lines([ROTATED]).unterminated());
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::at(&http, Some("warning")).await;
    let arguments = json!({"mode": "faults", "namespace": space});
    client.subscribe(arguments).await;
    for name in ["brief", "gone", "words"] {
        warn(space, name).await;
        let data = client.message().await["data"].take();
        assert_eq!(data["event"]["involvedObject"]["name"], name);
        let [current, previous] = data["logs"].as_array().unwrap().as_slice() else {
            panic!("two logs: {data}");
        };
        match name {
            "brief" => {
                assert_eq!(current["sample"], "starting\n", "{current}");
                assert_eq!(previous["sample"], "panic: no config\n", "{previous}");
                assert_eq!(previous["hasPanic"], true);
            }
            "gone" => {
                assert_eq!(current["sample"], "starting\n", "{current}");
                assert_eq!(*previous, excused("app", true, GONE));
                let id = json!({"faultId": data["faultId"]});
                let found = http.call("faults_get", id).await.ok().data;
                assert_eq!(found["logs"], data["logs"], "the same for a later question");
            }
            _ => {
                assert_eq!(current["sample"], format!("{GONE}\n"), "{current}");
                assert_eq!(previous["sample"], ROTATED, "{previous}");
            }
        }
    }
}

#[tokio::test]
async fn a_read_log_is_asked_for_again_and_then_refused_with_the_kubelets_words() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "excused-logs");
    let node = cluster.node();
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    for name in ["brief", "gone", "words", "half"] {
        crashed(space, name).await;
    }
    let log = |name: &str| format!("{space}/{name}/app");
    node.set_previous_log(
        &log("brief"),
        LogScript::lines(["one", "two"]).excused(2, GONE),
    );
    node.set_previous_log(&log("gone"), LogScript::default().excused(ALWAYS, GONE));
    node.set_previous_log(&log("words"), LogScript::lines([GONE]).unterminated());
    let half = LogScript::lines(["one", "failed to read log file \"/3.log\": disk on fire"]);
    node.set_previous_log(&log("half"), half.unterminated());
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let read = async |name: &str, timestamps: bool| {
        let arguments =
            json!({"namespace": space, "name": name, "previous": true, "timestamps": timestamps});
        http.call("pods_log", arguments).await
    };
    let brief = read("brief", false).await.ok().data;
    assert_eq!(brief["log"], "one\ntwo\n", "{brief}");
    let words = read("words", false).await.ok().data;
    assert_eq!(words["log"], format!("{GONE}\n"), "a line of the workload");
    for timestamps in [false, true] {
        let gone = read("gone", timestamps).await;
        gone.refused("other", &["the kubelet answers", GONE, "try again"]);
    }
    let half = read("half", false).await.ok().data;
    assert_eq!(half["log"], "one\n", "{half}");
    let why = half["incomplete"].as_str().unwrap();
    assert!(why.contains("disk on fire"), "{why}");
    let uri = |name: &str| format!("k8s://dev/{space}/pods/{name}/logs/app?previous=true");
    let gone = read_modern(&http, &uri("gone")).await;
    let message = gone["error"]["message"].as_str().unwrap();
    assert!(message.contains(GONE), "{gone}");
    let words = read_modern(&http, &uri("words")).await;
    let content = &words["result"]["contents"][0];
    assert!(content["text"].as_str().unwrap().contains(GONE), "{words}");
}

#[tokio::test]
async fn a_followed_log_goes_on_after_an_excuse_and_shows_none() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "excused-follow");
    let (node, container) = (cluster.node(), "excused-follow/web/app");
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    crashed(space, "web").await;
    node.set_log(container, LogScript::lines(["old"]).excused(2, ROTATED));
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut stream =
        UpdateStream::listen(&http, &["k8s://dev/excused-follow/pods/web/logs/app"]).await;
    let mut seen = stream.up_to("followed from here on").await;
    assert!(seen.len() > 1, "it failed before: {seen:?}");
    node.append(container, "working");
    seen.extend(stream.up_to("working").await);
    // A restart: the kubelet has lost sight of the run before for a moment.
    node.append(container, "panic: no cheese left");
    node.excuse(container, 1, GONE);
    node.restart(container);
    node.append(container, "starting again");
    seen.extend(stream.up_to("starting again").await);
    let lines = seen
        .iter()
        .flat_map(|(_, update)| update["lines"].as_array().unwrap());
    let lines: Vec<_> = lines.map(|line| line.as_str().unwrap()).collect();
    assert_eq!(
        lines,
        ["working", "panic: no cheese left", "starting again"]
    );
    let previous = node.requests().into_iter();
    let previous = previous.filter(|one| one.container == container && one.selection.previous);
    assert_eq!(previous.count(), 2, "the excuse, and what came after it");
}
