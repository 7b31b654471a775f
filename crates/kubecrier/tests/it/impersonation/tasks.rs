//! The answer of a task is kept for a while; what it shows is decided when it is read.

use serde_json::{Value, json};
use testbed::{User, namespace};

use super::{ANN, Acting, grant, revoke};
use crate::{
    harness::{HttpSession, Stream, TIMEOUT},
    incidents::{break_workload, create_workload},
    waits::modern::Modern,
};

/// What only the state of the broken pod says.
const WHY: &str = "invalid reference format";

/// Asks for a task until it is as a test expects it.
async fn until(client: &Modern, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let reached = async {
        loop {
            let answer = client.task("tasks/get", id).await;
            if is_so(&answer["result"]) {
                return answer["result"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    reached.expect("the task gets there")
}

#[tokio::test]
async fn the_answer_of_a_task_is_gone_with_the_rights_of_its_caller() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "acting-tasks");
    let created = cluster.create_cluster_wide(&namespace(space)).await;
    created.unwrap();
    create_workload(cluster, space, "web").await;
    grant(cluster, space, "tasks", "User", "tasks-ann").await;
    let line = format!("ann:{ANN} user=tasks-ann");
    let acting = Acting::start_as(cluster, User::Admin, &[&line]);
    let ann = Modern::new(&acting.base, "test", "1").with_token(ANN.to_owned());
    // Once the namespace is watched: what is there before is not announced.
    ann.wait(json!({"namespace": space, "timeoutSeconds": 1}))
        .await;
    let ann = ann.with_tasks();
    let task = ann.wait(json!({"namespace": space})).await;
    let id = task["result"]["taskId"].as_str().unwrap().to_owned();
    let session = HttpSession::signed(&acting.base, ANN).await;
    let waiting = async {
        loop {
            let metrics = session.get("/metrics").await.text().await.unwrap();
            if metrics.contains("kubecrier_waits 1\n") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap();
    break_workload(cluster, space, "web").await;
    let shown = until(&ann, &id, |task| task["status"] == "completed").await;
    assert!(shown.to_string().contains(WHY), "{shown}");
    revoke(cluster, space, "tasks").await;
    let is_gone = |task: &Value| task["status"] == "completed" && !task.to_string().contains(WHY);
    let shown = until(&ann, &id, is_gone).await;
    assert_eq!(shown["result"]["isError"], true, "{shown}");
    let kind = &shown["result"]["structuredContent"]["error"]["kind"];
    assert_eq!(kind, "forbidden", "{shown}");
    assert!(!shown.to_string().contains("web"), "{shown}");
    // Nor is it notified.
    let wanted = json!({"notifications": {"taskIds": [id]}});
    let mut listen = Stream::new(ann.send("subscriptions/listen", None, wanted).await);
    let notified = loop {
        let message = listen.next().await;
        if message["method"] == "notifications/tasks" {
            break message;
        }
    };
    assert!(!notified.to_string().contains("web"), "{notified}");
    // The right is back, and so is the answer.
    grant(cluster, space, "tasks", "User", "tasks-ann").await;
    until(&ann, &id, |task| task.to_string().contains(WHY)).await;
}
