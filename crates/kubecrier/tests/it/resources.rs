//! Resources of a cluster, as clients of both eras read and follow them.

mod events;
#[cfg(feature = "conformance-fixtures")]
mod failures;
mod podlogs;
mod prompts;
mod sdk;

use serde_json::{Value, json};
use testbed::{Cluster, LogScript, User, namespace, pod};

use crate::harness::{Http, HttpSession, Stream, kubeconfig, message, one_context};

/// A stream of resource updates; other notifications are skipped.
pub(crate) struct UpdateStream(Stream);

// === impl UpdateStream ===

impl UpdateStream {
    /// The stream of a session.
    pub(crate) async fn of(session: &HttpSession) -> Self {
        Self(session.stream(None).await)
    }

    /// A listen of the newest protocol, acknowledged.
    pub(crate) async fn listen(session: &HttpSession, uris: &[&str]) -> Self {
        let wanted = json!({"notifications": {"resourceSubscriptions": uris}});
        let response = session.modern("subscriptions/listen", None, wanted).await;
        let mut stream = Stream::new(response);
        let ack = stream.next().await;
        let honoured = &ack["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(honoured, &json!(uris), "{ack}");
        Self(stream)
    }

    /// The next update: its URI and its content.
    pub(crate) async fn update(&mut self) -> (String, Value) {
        loop {
            let message = self.0.next().await;
            match message["method"].as_str().unwrap_or_default() {
                "notifications/resources/updated" => {
                    let params = &message["params"];
                    let uri = params["uri"].as_str().unwrap().to_owned();
                    return (uri, params["_meta"]["kubecrier/update"].clone());
                }
                method if method.ends_with("/list_changed") => {}
                _ => panic!("{message}"),
            }
        }
    }

    /// The updates up to the first with this text, with their URIs.
    pub(crate) async fn up_to(&mut self, words: &str) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        loop {
            let next = self.update().await;
            let last = next.1.to_string().contains(words);
            all.push(next);
            if last {
                return all;
            }
        }
    }

    /// The first update with this text.
    pub(crate) async fn until(&mut self, words: &str) -> Value {
        self.up_to(words).await.pop().unwrap().1
    }
}

/// Creates a namespace with a pod of two containers, of which one has a log.
pub(crate) async fn create_pod_with_log(cluster: &Cluster, space: &str) {
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let web = pod(space, "web-0", &["app", "proxy"]);
    cluster.create(&web).await.unwrap();
    let log = LogScript::lines(["listening", "ready"]);
    cluster.node().set_log(&format!("{space}/web-0/app"), log);
}

pub(crate) async fn subscribe(session: &HttpSession, uri: &str) {
    let answer = session
        .rpc("resources/subscribe", json!({"uri": uri}))
        .await;
    assert_eq!(answer["result"], json!({}), "{answer}");
}

/// Reads a resource with the newest protocol.
pub(crate) async fn read_modern(session: &HttpSession, uri: &str) -> Value {
    let read = session.modern("resources/read", Some(uri), json!({"uri": uri}));
    message(&read.await.text().await.unwrap())
}

#[tokio::test]
async fn templates_carry_discovery_and_are_completed_by_the_cluster() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "completed").await;
    let odd = "arn:aws:eks:eu-1:123:cluster/prod";
    let file = kubeconfig(|file| {
        file.context("dev", cluster, User::Reader)
            .context(odd, cluster, User::Reader)
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let listed = http.rpc("resources/list", json!({})).await;
    let listed = listed["result"]["resources"].as_array().unwrap().clone();
    assert!((1..=6).contains(&listed.len()), "a handful: {listed:?}");
    for one in &listed {
        let uri = one["uri"].as_str().unwrap();
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    }
    let templates = http.rpc("resources/templates/list", json!({})).await;
    let text = templates.to_string();
    for part in ["/events{?for", "/logs/{container}{?previous"] {
        assert!(text.contains(part), "{text}");
    }
    let logs = "k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}";
    let complete = async |variable: &str, given: &str, chosen: Value| {
        let asked = json!({
            "ref": {"type": "ref/resource", "uri": logs},
            "argument": {"name": variable, "value": given},
            "context": {"arguments": chosen},
        });
        let answer = http.rpc("completion/complete", asked).await;
        answer["result"]["completion"]["values"].clone()
    };
    assert_eq!(complete("context", "arn", json!({})).await, json!([odd]));
    let named = complete("namespace", "complet", json!({"context": odd})).await;
    assert_eq!(named, json!(["completed"]));
    let mut chosen = json!({"context": "dev", "namespace": "completed"});
    assert_eq!(complete("pod", "", chosen.clone()).await, json!(["web-0"]));
    chosen["pod"] = "web-0".into();
    assert_eq!(
        complete("container", "", chosen.clone()).await,
        json!(["app", "proxy"])
    );
    assert_eq!(complete("container", "p", chosen).await, json!(["proxy"]));
    assert_eq!(complete("container", "", json!({})).await, json!([]));
    assert_eq!(
        complete(
            "pod",
            "",
            json!({"context": "none", "namespace": "completed"})
        )
        .await,
        json!([])
    );
    // The odd name goes through a URI and back.
    let uri = "k8s://arn%3Aaws%3Aeks%3Aeu-1%3A123%3Acluster%2Fprod/completed/pods/web-0/logs/app";
    let read = http.rpc("resources/read", json!({"uri": uri})).await;
    assert_eq!(
        read["result"]["contents"][0]["text"], "listening\nready\n",
        "{read}"
    );
}

#[tokio::test]
async fn a_missing_resource_is_the_error_of_each_era() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    create_pod_with_log(cluster, "absent").await;
    let file = one_context(cluster, User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for (uri, says) in [
        ("k8s://dev/absent/secrets/token", "/events{?for"),
        ("k8s://dev/absent/pods/web-0", "/logs/{container}"),
        ("k8s://nowhere/absent/events", "contexts are: dev"),
        ("k8s://dev/absent/pods/none/logs/app", "not found"),
        (
            "k8s://dev/absent/pods/web-0/logs/nope",
            "its containers are: `app`, `proxy`",
        ),
        ("other://thing", "resources/list"),
    ] {
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["error"]["code"], -32002, "{uri}: {read}");
        assert!(read.to_string().contains(says), "{uri}: {read}");
        let subscribed = http.rpc("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(subscribed["error"]["code"], -32002, "{uri}: {subscribed}");
        let modern = read_modern(&http, uri).await;
        assert_eq!(modern["error"]["code"], -32602, "{uri}: {modern}");
        assert!(modern.to_string().contains(says), "{uri}: {modern}");
    }
    for (uri, says) in [
        ("k8s://dev/absent/events?limit=0", "from 1 to 500"),
        ("k8s://dev/absent/events?tail=1", "there is no parameter"),
        ("k8s://dev/-/pods/web-0/logs/app", "one namespace"),
    ] {
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["error"]["code"], -32602, "{uri}: {read}");
        assert!(read.to_string().contains(says), "{uri}: {read}");
    }
    let previous = "k8s://dev/absent/pods/web-0/logs/app?previous=true";
    let refused = http
        .rpc("resources/subscribe", json!({"uri": previous}))
        .await;
    assert!(refused.to_string().contains("does not grow"), "{refused}");
}
