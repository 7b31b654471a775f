//! Callers without a session, each of whose requests comes to another replica.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use kubecrier_core::subscriptions::FeedLimits;
use kubecrier_history::{MemoryNetwork, MemoryRegistry, Registry};
use serde_json::{Value, json};
use testbed::{Cluster, User, event, namespace};

use super::{Extras, Replica, SECRET, start};
use crate::harness::{File, Stream, ToolResult, message, one_context};

/// A caller of protocol version 2026-07-28.
pub(super) struct Client {
    http: reqwest::Client,
    token: Option<&'static str>,
}

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

impl Client {
    pub(super) fn new(token: Option<&'static str>) -> Self {
        let http = reqwest::Client::new();
        Self { http, token }
    }

    async fn send(
        &self,
        replica: &Replica,
        method: &str,
        name: Option<&str>,
        mut params: Value,
    ) -> reqwest::Response {
        for (key, value) in [
            ("protocolVersion", json!("2026-07-28")),
            ("clientCapabilities", json!({})),
            ("clientInfo", json!({"name": "test", "version": "1"})),
        ] {
            params["_meta"][format!("io.modelcontextprotocol/{key}")] = value;
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = (self.http.post(format!("{}/mcp", replica.base)))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .json(&body);
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        if let Some(token) = self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap()
    }

    pub(super) async fn call(&self, replica: &Replica, tool: &str, arguments: Value) -> ToolResult {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.send(replica, "tools/call", Some(tool), params).await;
        ToolResult::read(&message(&answer.text().await.unwrap()))
    }

    pub(super) async fn listen(&self, replica: &Replica, uri: &Value) -> reqwest::Response {
        let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
        self.send(replica, "subscriptions/listen", None, wanted)
            .await
    }

    async fn read(&self, replica: &Replica, uri: &Value) -> Value {
        let params = json!({"uri": uri});
        let answer = self.send(replica, "resources/read", uri.as_str(), params);
        message(&answer.await.text().await.unwrap())
    }

    async fn poll(&self, replica: &Replica, mut arguments: Value, more: Value) -> Value {
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        self.call(replica, "events_poll", arguments).await.ok().data
    }
}

/// Two replicas in one space, and what they live on.
struct Pair {
    first: Replica,
    second: Replica,
    registry: Arc<dyn Registry>,
    _held: (File, tempfile::TempDir),
}

impl Pair {
    async fn start(cluster: &Cluster, feed: Option<FeedLimits>) -> Self {
        Self::start_with(cluster, feed, [SECRET; 2]).await
    }

    async fn start_with(
        cluster: &Cluster,
        feed: Option<FeedLimits>,
        secrets: [[u8; 32]; 2],
    ) -> Self {
        let file = one_context(cluster, User::Reader);
        let held = tempfile::tempdir().unwrap();
        let tokens = held.path().join("tokens");
        std::fs::write(&tokens, format!("ann:{ANN}\nbob:{BOB}\n")).unwrap();
        let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
        let network = MemoryNetwork::default();
        let one = async |name: &str, secret: [u8; 32]| {
            let extras = Extras {
                history: Some(held.path()),
                tokens: Some(Path::new(&tokens)),
                feed,
                audit: None,
                secret: Some(secret),
            };
            start(&file.path, name, &registry, &network, extras).await
        };
        let (first, second) = (
            one("first", secrets[0]).await,
            one("second", secrets[1]).await,
        );
        Self {
            first,
            second,
            registry,
            _held: (file, held),
        }
    }

    fn both(&self) -> [&Replica; 2] {
        [&self.first, &self.second]
    }

    fn close(&self) {
        self.first.serving.close();
        self.second.serving.close();
    }
}

fn reasons(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().unwrap().iter();
    events
        .map(|one| {
            let reason = one["event"]["reason"].as_str();
            reason.map_or_else(|| one.to_string(), str::to_owned)
        })
        .collect()
}

async fn happen(cluster: &Cluster, space: &str, reason: &str) {
    let new_event = event(space, "Pod/web-0", "Warning", reason, "it went wrong");
    cluster.create(&new_event).await.unwrap();
}

fn with(arguments: &Value, cursor: &Value) -> Value {
    let mut arguments = arguments.clone();
    arguments["cursor"] = cursor.clone();
    arguments
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_polled_read_and_ended_anywhere() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "stateless");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let pair = Pair::start(cluster, None).await;
    let (ann, bob) = (Client::new(Some(ANN)), Client::new(Some(BOB)));
    let made = ann.call(&pair.first, "events_subscribe", json!({"namespace": name}));
    let made = made.await.ok();
    let id = json!({"subscriptionId": made.data["subscriptionId"]});
    let kept = pair.registry.list("subscription.").await.unwrap();
    assert_eq!(kept.len(), 1);
    let record = String::from_utf8(kept[0].1.value.to_vec()).unwrap();
    assert!(!record.contains("ann"), "no name, no token: {record}");
    // Nobody else has it, anywhere.
    for replica in pair.both() {
        for tool in ["events_poll", "events_unsubscribe"] {
            let refused = bob.call(replica, tool, id.clone()).await;
            refused.refused("not_found", &["not found"]);
        }
        let listed = bob
            .call(replica, "events_list_subscriptions", json!({}))
            .await;
        assert_eq!(listed.ok().data["total"], 0);
        let read = bob.read(replica, &made.data["resourceUri"]).await;
        assert!(read["error"].is_object(), "{read}");
        let mut stream = Stream::new(bob.listen(replica, &made.data["resourceUri"]).await);
        let ack = stream.next().await;
        let accepted = &ack["params"]["notifications"]["resourceSubscriptions"];
        assert!(accepted.as_array().is_none_or(Vec::is_empty), "{ack}");
    }
    assert_eq!(pair.second.server.watching().subscriptions, 0);
    let listed = ann.call(&pair.second, "events_list_subscriptions", json!({}));
    let listed = listed.await.ok().data;
    assert_eq!(
        listed["subscriptions"][0]["subscriptionId"],
        id["subscriptionId"]
    );
    assert_eq!(listed["subscriptions"][0]["status"], "elsewhere");
    // What happened before the other replica has heard of it is there as well.
    happen(cluster, name, "One").await;
    let wait = json!({"waitSeconds": 20});
    let one = ann.poll(&pair.second, id.clone(), wait.clone()).await;
    assert_eq!(reasons(&one), ["One"]);
    assert_eq!(one["subscriptionId"], id["subscriptionId"]);
    // In turns, each with the cursor of the other.
    let mut cursor = one["cursor"].clone();
    for (number, replica) in pair.both().into_iter().cycle().take(6).enumerate() {
        let reason = format!("Number{number}");
        happen(cluster, name, &reason).await;
        let page = ann.poll(replica, with(&id, &cursor), wait.clone()).await;
        assert_eq!(reasons(&page), [reason], "{page}");
        cursor = page["cursor"].clone();
    }
    let quiet = ann.poll(&pair.first, with(&id, &cursor), json!({})).await;
    assert_eq!(reasons(&quiet), [""; 0]);
    // An old cursor leads back to what it does not have.
    let again = ann
        .poll(&pair.first, with(&id, &one["cursor"]), json!({}))
        .await;
    assert_eq!(reasons(&again).len(), 6, "{again}");
    for replica in pair.both() {
        assert_eq!(replica.server.watching().subscriptions, 1);
        let read = ann.read(replica, &made.data["resourceUri"]).await;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap();
        assert!(text.contains("Number5"), "{text}");
    }
    // It ends everywhere.
    let ended = ann.call(&pair.second, "events_unsubscribe", id.clone());
    assert_eq!(ended.await.ok().data["alreadyEnded"], false);
    let refused = ann
        .call(&pair.first, "events_poll", with(&id, &cursor))
        .await;
    refused.refused("not_found", &["not found"]);
    let read = ann.read(&pair.first, &made.data["resourceUri"]).await;
    assert!(read["error"].is_object(), "{read}");
    for replica in pair.both() {
        assert_eq!(replica.server.watching().subscriptions, 0);
        let again = ann.call(replica, "events_unsubscribe", id.clone()).await;
        assert_eq!(again.ok().data["alreadyEnded"], true);
        let listed = ann
            .call(replica, "events_list_subscriptions", json!({}))
            .await;
        assert_eq!(listed.ok().data["total"], 0);
    }
    // Neither has written it again, and what is left says only that it has ended.
    let kept = pair.registry.list("subscription.").await.unwrap();
    assert_eq!(kept.len(), 1);
    let record: Value = serde_json::from_slice(&kept[0].1.value).unwrap();
    assert!(record["subscription"].is_null(), "{record}");
    pair.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_read_and_listened_for_where_it_was_not_made() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "stateless-listen");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let pair = Pair::start(cluster, None).await;
    let ann = Client::new(Some(ANN));
    let made = ann.call(&pair.first, "events_subscribe", json!({"namespace": name}));
    let uri = made.await.ok().data["resourceUri"].clone();
    happen(cluster, name, "Before").await;
    let mut stream = Stream::new(ann.listen(&pair.second, &uri).await);
    let ack = stream.next().await;
    let accepted = &ack["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(accepted, &json!([uri]), "{ack}");
    let first = stream.next().await;
    assert_eq!(first["params"]["uri"], uri, "{first}");
    let read = ann.read(&pair.second, &uri).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("Before"), "{text}");
    happen(cluster, name, "Live").await;
    loop {
        let update = stream.next().await;
        assert_eq!(update["params"]["uri"], uri, "{update}");
        if update.to_string().contains("Live") {
            break;
        }
    }
    pair.close();
}

/// The filters are all that a client says, and each poll comes to the other replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_by_filters_go_on_with_the_cursor_of_the_other_replica() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "stateless-filters");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let pair = Pair::start(cluster, None).await;
    let ann = Client::new(Some(ANN));
    let filters = json!({"namespace": name, "types": ["Warning"]});
    let wait = json!({"waitSeconds": 20});
    let mut cursor = ann.poll(&pair.first, filters.clone(), json!({})).await["cursor"].clone();
    let mut ids = BTreeSet::new();
    for (number, replica) in pair.both().into_iter().cycle().skip(1).take(8).enumerate() {
        let reason = format!("Number{number}");
        happen(cluster, name, &reason).await;
        let page = ann
            .poll(replica, with(&filters, &cursor), wait.clone())
            .await;
        assert_eq!(reasons(&page), [reason], "{page}");
        ids.insert(page["subscriptionId"].to_string());
        cursor = page["cursor"].clone();
    }
    assert_eq!(ids.len(), 2, "one on each");
    for replica in pair.both() {
        assert_eq!(replica.server.watching().subscriptions, 1);
    }
    // Cursors of other filters lead nowhere, and nowhere else either.
    let other = json!({"namespace": name, "cursor": cursor});
    for replica in pair.both() {
        let refused = ann.call(replica, "events_poll", other.clone()).await;
        refused.refused("invalid", &["cursor", "another subscription"]);
    }
    let bob = Client::new(Some(BOB));
    for replica in pair.both() {
        let refused = bob.call(replica, "events_poll", with(&filters, &cursor));
        refused
            .await
            .refused("invalid", &["cursor", "another subscription"]);
    }
    pair.close();
}

/// The store has lost the secret, and one replica came before the other one had put it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_with_two_secrets_read_each_others_cursors_once_they_know_both() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "stateless-secrets");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let secrets = [SECRET, [8; 32]];
    let pair = Pair::start_with(cluster, None, secrets).await;
    let ann = Client::new(Some(ANN));
    let filters = json!({"namespace": name});
    let made = ann.call(&pair.first, "events_subscribe", filters.clone());
    let id = json!({"subscriptionId": made.await.ok().data["subscriptionId"]});
    let wait = json!({"waitSeconds": 20});
    for arguments in [&filters, &id] {
        let begun = ann.poll(&pair.first, arguments.clone(), json!({})).await;
        let refused = ann.call(
            &pair.second,
            "events_poll",
            with(arguments, &begun["cursor"]),
        );
        refused.await.refused("invalid", &["cursor"]);
    }
    for (replica, other) in pair.both().into_iter().zip([secrets[1], secrets[0]]) {
        let history = replica.server.history().unwrap();
        history.set_other_secrets(vec![other]);
    }
    for (way, arguments) in [("Filters", &filters), ("Id", &id)] {
        let begun = ann.poll(&pair.first, arguments.clone(), json!({})).await;
        let mut cursor = begun["cursor"].clone();
        for (number, replica) in pair.both().into_iter().cycle().skip(1).take(4).enumerate() {
            let reason = format!("{way}{number}");
            happen(cluster, name, &reason).await;
            let page = ann
                .poll(replica, with(arguments, &cursor), wait.clone())
                .await;
            assert_eq!(reasons(&page), [reason], "{page}");
            cursor = page["cursor"].clone();
        }
    }
    pair.close();
}

/// Feeds that keep three events, and a client that is far behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_behind_loses_nothing_between_two_replicas() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "stateless-behind");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let feed = FeedLimits {
        entries_max: 3,
        ..FeedLimits::default()
    };
    let pair = Pair::start(cluster, Some(feed)).await;
    let ann = Client::new(Some(ANN));
    let filters = json!({"namespace": name});
    let made = ann.call(&pair.first, "events_subscribe", json!({"namespace": name}));
    let id = json!({"subscriptionId": made.await.ok().data["subscriptionId"]});
    let began = ann.poll(&pair.first, filters.clone(), json!({})).await;
    let expected: Vec<_> = (0..12).map(|number| format!("Number{number}")).collect();
    for reason in &expected {
        happen(cluster, name, reason).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let began_by_id = ann
        .poll(&pair.second, id.clone(), json!({"limit": 1}))
        .await;
    assert_eq!(reasons(&began_by_id), ["Number0"]);
    for (arguments, begun, mut seen) in [
        (&filters, &began["cursor"], Vec::new()),
        (&id, &began_by_id["cursor"], vec!["Number0".to_owned()]),
    ] {
        let mut cursor = begun.clone();
        let more = json!({"limit": 2, "waitSeconds": 5});
        for replica in pair.both().into_iter().cycle().take(30) {
            let page = ann
                .poll(replica, with(arguments, &cursor), more.clone())
                .await;
            for reason in reasons(&page) {
                if !seen.contains(&reason) {
                    seen.push(reason);
                }
            }
            cursor = page["cursor"].clone();
            if seen.len() == expected.len() {
                break;
            }
        }
        assert_eq!(seen, expected, "{arguments}");
    }
    pair.close();
}
