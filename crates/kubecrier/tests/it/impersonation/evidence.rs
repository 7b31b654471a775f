//! The evidence of a fault, for users who may see all of it, some, or none: it is captured once
//! for all of them.

use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, event, namespace, pod};
use tokio::time::{Duration, Instant, sleep};

use super::{Acting, revoke};
use crate::harness::{HttpSession, Stream, TIMEOUT, message};

const SPACE: &str = "acting-evidence";

/// What only the log says.
const CRASH: &str = "panic: known from the log alone";

/// The roles, each with the one right that it grants.
const ROLES: [(&str, &str, &str); 3] = [
    ("evidence-events", "events", "list"),
    ("evidence-pods", "pods", "get"),
    ("evidence-logs", "pods/log", "get"),
];

/// Users, and how many of the roles each of them has.
const USERS: [(&str, usize); 4] = [("all", 3), ("no-logs", 2), ("events", 1), ("nothing", 0)];

fn token(user: &str) -> String {
    format!("{user}-0123456789abcdef")
}

async fn furnish(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let space = namespace(SPACE);
    cluster.create_cluster_wide(&space).await.unwrap();
    for (name, resource, verb) in ROLES {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let path = format!("/apis/{group}/v1/clusterroles");
        cluster.send("POST", &path, &role).await.unwrap();
    }
    for (user, count) in USERS {
        for (role, ..) in &ROLES[..count] {
            let path = format!("/apis/{group}/v1/namespaces/{SPACE}/rolebindings");
            let binding = json!({
                "metadata": {"name": format!("{user}-{role}")},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": format!("evidence-{user}")}],
            });
            cluster.send("POST", &path, &binding).await.unwrap();
        }
    }
    cluster
        .create(&pod(SPACE, "web-0", &["app"]))
        .await
        .unwrap();
    let container = json!({
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
    });
    let status = json!({"phase": "Running", "containerStatuses": [container]});
    cluster
        .set_pod_status(SPACE, "web-0", status)
        .await
        .unwrap();
    let lines = || LogScript::lines([CRASH]);
    cluster
        .node()
        .set_log(&format!("{SPACE}/web-0/app"), lines());
    cluster
        .node()
        .set_previous_log(&format!("{SPACE}/web-0/app"), lines());
}

/// What one of the users has open.
struct Reader {
    session: HttpSession,
    stream: Stream,
    id: String,
    modern_cursor: Value,
}

// === impl Reader ===

impl Reader {
    async fn poll_modern(&self, cursor: &Value) -> Value {
        let mut arguments = json!({"mode": "faults", "namespace": SPACE});
        if cursor.is_string() {
            arguments["cursor"] = cursor.clone();
        }
        let params = json!({"name": "events_poll", "arguments": arguments});
        let answer = self
            .session
            .modern("tools/call", Some("events_poll"), params);
        let answer = message(&answer.await.text().await.unwrap());
        answer["result"]["structuredContent"].clone()
    }

    /// Everything that is to be had of the fault without a stream.
    async fn asked(&self, fault: &str) -> Vec<(&'static str, String)> {
        let poll = json!({"subscriptionId": self.id});
        let polled = self.session.call("events_poll", poll).await;
        let feed = json!({"uri": format!("kubecrier://subscriptions/{}", self.id)});
        let read = self.session.rpc("resources/read", feed).await;
        let got = json!({"faultId": fault});
        let got = self.session.call("faults_get", got).await;
        vec![
            ("poll", format!("{}{}", polled.text, polled.data)),
            (
                "poll without a session",
                self.poll_modern(&self.modern_cursor).await.to_string(),
            ),
            ("feed", read.to_string()),
            ("faults_get", format!("{}{}", got.text, got.data)),
        ]
    }
}

#[tokio::test]
async fn a_fault_shows_each_user_the_evidence_that_it_may_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    furnish(cluster).await;
    let lines = USERS.map(|(user, _)| format!("{user}:{} user=evidence-{user}", token(user)));
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let acting = Acting::start_as(cluster, User::Admin, &lines);
    let mut readers = Vec::new();
    for (user, count) in USERS {
        let session = HttpSession::signed(&acting.base, &token(user)).await;
        let level = json!({"level": "warning"});
        session.rpc("logging/setLevel", level).await;
        let filters = json!({"mode": "faults", "namespace": SPACE});
        // The API server follows a new binding within moments.
        let began = Instant::now();
        let made = loop {
            let made = session.call("events_subscribe", filters.clone()).await;
            if !made.is_error || count == 0 || began.elapsed() > TIMEOUT {
                break made;
            }
            sleep(Duration::from_millis(100)).await;
        };
        if count == 0 {
            made.refused("forbidden", &["evidence-nothing"]);
            continue;
        }
        let stream = session.stream(None).await;
        let id = made.ok().data["subscriptionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut reader = Reader {
            session,
            stream,
            id,
            modern_cursor: Value::Null,
        };
        reader.modern_cursor = reader.poll_modern(&Value::Null).await["cursor"].clone();
        readers.push((user, count, reader));
    }
    let warning = event(
        SPACE,
        "Pod/web-0",
        "Warning",
        "BackOff",
        "back-off restarting",
    );
    cluster.create(&warning).await.unwrap();
    let check = |user: &str, way: &str, told: &str, sees_logs: bool| {
        assert_eq!(told.contains(CRASH), sees_logs, "{user}, {way}: {told}");
        assert!(told.contains("BackOff"), "{user}, {way}: {told}");
    };
    let mut fault = String::new();
    for (user, count, reader) in &mut readers {
        let pushed = async {
            loop {
                let message = reader.stream.next().await;
                if message["params"]["logger"] == "kubernetes/faults" {
                    return message["params"]["data"].clone();
                }
            }
        };
        let pushed = tokio::time::timeout(TIMEOUT, pushed).await.unwrap();
        check(user, "push", &pushed.to_string(), *count > 2);
        assert_eq!(
            pushed["context"].is_object(),
            *count > 1,
            "{user}: {pushed}"
        );
        if *count < 3 {
            assert_eq!(pushed["logs"][0]["error"], "forbidden", "{user}: {pushed}");
        }
        fault = pushed["faultId"].as_str().unwrap().to_owned();
    }
    for (user, count, reader) in &readers {
        for (way, told) in reader.asked(&fault).await {
            check(user, way, &told, *count > 2);
            let state = told.contains("CrashLoopBackOff");
            assert_eq!(state, *count > 1, "{user}, {way}: {told}");
        }
    }
    // The right to the logs goes: what was captured is still there, and is not shown any more.
    revoke(cluster, SPACE, "all-evidence-logs").await;
    let (user, _, reader) = &readers[0];
    let began = Instant::now();
    loop {
        let told = reader.asked(&fault).await;
        if told.iter().all(|(_, told)| !told.contains(CRASH)) {
            for (way, told) in told {
                check(user, way, &told, false);
            }
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{told:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
