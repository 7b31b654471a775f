//! Two callers with different rights: every way into the cluster answers each with its own.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::{Cluster, User};
use tokio::time::{Duration, Instant};

use super::{ANN, Acting, BOB, furnish, grant, revoke, user_of};
use crate::harness::{HttpSession, TIMEOUT};

const OF_ANN: &str = "acting-ann";
const OF_BOB: &str = "acting-bob";

const ANN_USER: &str = "ann@example.com";
const BOB_USER: &str = "Bob Ray";
const BOB_GROUP: &str = "Team B, \"EU\"";

/// What a tool answers to someone who may read one namespace and nothing else.
enum Expected {
    /// It has this text of the namespace.
    Answer(Value, &'static str),
    /// Kubernetes refuses it: it is about the cluster, or about a kind that nobody may read.
    Forbidden(Value),
    /// It asks no cluster.
    NoCluster(Value),
}

/// Calls that make a tool send every kind of request that it can send.
fn calls(tool: &str, space: &str) -> Vec<Expected> {
    use Expected::{Answer, Forbidden, NoCluster};
    let here = |more: Value| {
        let mut call = json!({"namespace": space});
        let fields = call.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        call
    };
    let web = |mut more: Value| {
        more["name"] = "web".into();
        here(more)
    };
    match tool {
        "configuration_contexts_list" => vec![NoCluster(json!({}))],
        "namespaces_list" | "nodes_list" | "nodes_top" => vec![Forbidden(json!({}))],
        "pods_top" => vec![Forbidden(here(json!({})))],
        "changes_list" => vec![Answer(here(json!({})), "web")],
        "events_list" => vec![Answer(here(json!({})), "event of"), Forbidden(json!({}))],
        "pods_list" => vec![Answer(here(json!({})), "web"), Forbidden(json!({}))],
        "pods_get" => vec![
            Answer(web(json!({})), "web"),
            Answer(web(json!({"output": "yaml"})), "kind: Pod"),
        ],
        "pods_log" => vec![
            Answer(web(json!({})), "log of"),
            Answer(web(json!({"previous": true})), "previous log of"),
        ],
        "resources_get" => vec![
            Answer(web(json!({"kind": "pods"})), "web"),
            Answer(web(json!({"kind": "Pod", "output": "yaml"})), "kind: Pod"),
            Forbidden(json!({"kind": "ClusterRole", "name": "system:node"})),
        ],
        "resources_list" => vec![
            Answer(here(json!({"kind": "pods"})), "web"),
            Answer(here(json!({"kind": "pods", "output": "yaml"})), "kind: Pod"),
            Forbidden(here(json!({"kind": "secrets"}))),
            Forbidden(json!({"kind": "deployments"})),
        ],
        // They answer with what shared watches have: `separate_eyes` tries them.
        "events_subscribe"
        | "events_unsubscribe"
        | "events_list_subscriptions"
        | "events_poll"
        | "faults_get"
        | "faults_list"
        | "faults_wait"
        | "resources_graph" => Vec::new(),
        other => panic!("call the tool `{other}` here: with whose rights does it answer?"),
    }
}

/// Someone who calls: the session, the own namespace, the user.
struct Person {
    session: HttpSession,
    own: &'static str,
    other: &'static str,
    user: &'static str,
}

// === impl Person ===

impl Person {
    /// Calls a tool in both eras, which answer the same.
    async fn call(&self, tool: &str, arguments: &Value) -> (bool, String) {
        let answer = self.session.call(tool, arguments.clone()).await;
        let params = json!({"name": tool, "arguments": arguments});
        let modern = self.session.modern("tools/call", Some(tool), params).await;
        let modern = crate::harness::message(&modern.text().await.unwrap());
        assert_eq!(
            modern["result"]["isError"].as_bool().unwrap_or_default(),
            answer.is_error,
            "{tool} {arguments}: {modern} and {}",
            answer.text
        );
        (answer.is_error, answer.text)
    }

    /// The API server has refused the user, whom its message names.
    async fn refused(&self, tool: &str, arguments: &Value) {
        let (is_error, text) = self.call(tool, arguments).await;
        assert!(is_error, "{tool} {arguments} of {}: {text}", self.user);
        for part in ["forbidden", self.user] {
            assert!(
                text.contains(part),
                "{tool} {arguments}: no {part} in {text}"
            );
        }
        assert!(!text.contains("cannot impersonate"), "{tool}: {text}");
    }

    async fn every_tool(&self, tools: &[String]) {
        for tool in tools {
            for (own, other) in calls(tool, self.own)
                .into_iter()
                .zip(calls(tool, self.other))
            {
                match (own, other) {
                    (Expected::Answer(own, part), Expected::Answer(other, _)) => {
                        let (is_error, text) = self.call(tool, &own).await;
                        assert!(!is_error, "{tool} {own} of {}: {text}", self.user);
                        assert!(text.contains(part), "{tool} {own}: no {part} in {text}");
                        self.refused(tool, &other).await;
                    }
                    (Expected::Forbidden(call), _) => self.refused(tool, &call).await,
                    (Expected::NoCluster(call), _) => {
                        let (is_error, text) = self.call(tool, &call).await;
                        assert!(!is_error, "{tool}: {text}");
                    }
                    (Expected::Answer(..), _) => unreachable!("the same calls in both"),
                }
            }
        }
    }

    /// Reads, completes and fills in what is in a namespace: everything that came back.
    async fn elsewhere(&self, space: &str) -> Vec<String> {
        let mut answers = Vec::new();
        for path in ["events", "pods/web/logs/app"] {
            let uri = json!({"uri": format!("k8s://dev/{space}/{path}")});
            answers.push(self.session.rpc("resources/read", uri).await.to_string());
        }
        let templates = self
            .session
            .rpc("resources/templates/list", json!({}))
            .await;
        let templates = templates["result"]["resourceTemplates"].as_array().unwrap();
        let mut templates = templates
            .iter()
            .map(|one| one["uriTemplate"].as_str().unwrap());
        let logs = templates.find(|one| one.contains("/logs/")).unwrap();
        for (variable, chosen) in [
            ("pod", json!({"context": "dev", "namespace": space})),
            (
                "container",
                json!({"context": "dev", "namespace": space, "pod": "web"}),
            ),
        ] {
            let completing = json!({
                "ref": {"type": "ref/resource", "uri": logs},
                "argument": {"name": variable, "value": ""},
                "context": {"arguments": chosen},
            });
            let completed = self.session.rpc("completion/complete", completing).await;
            answers.push(completed["result"]["completion"]["values"].to_string());
        }
        for prompt in [
            "runbook_crash_loop",
            "runbook_image_pull",
            "runbook_pending",
        ] {
            let given = json!({"namespace": space, "name": "web", "context": "dev"});
            let prompt = json!({"name": prompt, "arguments": given});
            answers.push(self.session.rpc("prompts/get", prompt).await["result"].to_string());
        }
        answers
    }
}

async fn people(cluster: &Cluster) -> (Acting, [Person; 2]) {
    for space in [OF_ANN, OF_BOB] {
        furnish(cluster, space).await;
    }
    grant(cluster, OF_ANN, "ann", "User", ANN_USER).await;
    grant(cluster, OF_BOB, "bob", "Group", BOB_GROUP).await;
    let bob = format!(r#"bob:{BOB} user="{BOB_USER}" groups=idle,"Team B, \"EU\"""#);
    let acting = Acting::start(cluster, &[&format!("ann:{ANN} user={ANN_USER}"), &bob]);
    let person = async |token, own, other, user| Person {
        session: HttpSession::signed(&acting.base, token).await,
        own,
        other,
        user,
    };
    let ann = person(ANN, OF_ANN, OF_BOB, ANN_USER).await;
    let bob = person(BOB, OF_BOB, OF_ANN, BOB_USER).await;
    (acting, [ann, bob])
}

/// Every request for a caller is in the audit log with the caller's user and groups, and all
/// others are the server's own.
fn check_audit(cluster: &Cluster) {
    let mut requests = BTreeSet::new();
    for request in cluster.audit_of(User::ActsAsCallers).unwrap() {
        let Some(user) = user_of(&request) else {
            continue;
        };
        // Other tests have users of their own.
        let own = match user {
            ANN_USER => json!(["system:authenticated"]),
            BOB_USER => json!([BOB_GROUP, "idle", "system:authenticated"]),
            _ => continue,
        };
        assert_eq!(request["impersonatedUser"]["groups"], own, "{request}");
        let object = &request["objectRef"];
        let below = object["subresource"].as_str();
        requests.insert(format!(
            "{user}: {} {}{}",
            request["verb"].as_str().unwrap(),
            object["resource"].as_str().unwrap(),
            below.map(|below| format!("/{below}")).unwrap_or_default()
        ));
    }
    // The expected reads are in the audit log, so it is complete.
    for user in [ANN_USER, BOB_USER] {
        for expected in [
            "get pods",
            "get pods/log",
            "list pods",
            "list events",
            "list nodes",
            "list namespaces",
            "list secrets",
            "get clusterroles",
            "list replicasets",
        ] {
            let expected = format!("{user}: {expected}");
            assert!(requests.contains(&expected), "{expected}: {requests:#?}");
        }
    }
}

#[tokio::test]
async fn each_caller_gets_what_kubernetes_lets_its_user_read() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let (_acting, people) = people(cluster).await;
    let tools = people[0].session.rpc("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap();
    let tools: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(tools.len(), 20, "{tools:?}");
    for person in &people {
        person.every_tool(&tools).await;
        let own = person.elsewhere(person.own).await;
        for (answer, part) in own.iter().zip([
            "event of",
            "log of",
            "web",
            "app",
            "previous log of",
            "event of",
            "event of",
        ]) {
            assert!(answer.contains(part), "no {part} in {answer}");
        }
        let foreign = person.elsewhere(person.other).await;
        for answer in &foreign {
            assert!(
                !answer.contains(" of acting-"),
                "{} got {answer}",
                person.user
            );
        }
        assert_eq!(foreign[2..4], ["[]", "[]"], "nothing is completed");
        for answer in foreign[..2].iter().chain(&foreign[4..]) {
            assert!(answer.contains("forbidden"), "{answer}");
        }
    }
    check_audit(cluster);
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_gone_from_answers_at_once() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "acting-revoked";
    furnish(cluster, space).await;
    grant(cluster, space, "cy", "User", "cy").await;
    let acting = Acting::start(cluster, &[&format!("cy:{ANN} user=cy")]);
    let cy = HttpSession::signed(&acting.base, ANN).await;
    let pods = async || cy.call("pods_list", json!({"namespace": space})).await;
    let uri = json!({"uri": format!("k8s://dev/{space}/pods/web/logs/app")});
    pods().await.ok();
    assert!(cy.rpc("resources/read", uri.clone()).await["result"].is_object());
    revoke(cluster, space, "cy").await;
    // The API server's own view of roles follows within moments; nothing here remembers more.
    let began = Instant::now();
    let refused = loop {
        let answer = pods().await;
        if answer.is_error {
            break answer;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{}", answer.text);
    };
    refused.refused("forbidden", &["cy", "--as 'cy'", "list"]);
    // That is the affair of the caller, and nothing that an operator has to see to.
    let log = acting.log();
    assert!(!log.contains("tool failed"), "{log}");
    let read = cy.rpc("resources/read", uri).await;
    assert!(
        read["error"]["message"]
            .as_str()
            .unwrap()
            .contains("forbidden"),
        "{read}"
    );
    grant(cluster, space, "cy-again", "User", "cy").await;
    let again = async {
        while pods().await.is_error {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, again).await.unwrap();
}

#[tokio::test]
async fn a_changed_user_of_a_token_counts_from_the_next_request_on() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let space = "acting-moved";
    furnish(cluster, space).await;
    grant(cluster, space, "movers", "Group", "movers").await;
    let with_groups = |groups: &str| format!("di:{ANN} user=di groups={groups}");
    let acting = Acting::start(cluster, &[&with_groups("stayers")]);
    let client = reqwest::Client::new();
    // A request that is under way while the file changes ends with its old user.
    let allowed = async || {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "pods_list", "arguments": {"namespace": space}, "_meta": meta}});
        let request = client
            .post(format!("{}/mcp", acting.base))
            .bearer_auth(ANN)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "pods_list");
        let answer = request.json(&call).send().await.unwrap();
        if answer.status() == reqwest::StatusCode::UNAUTHORIZED {
            return None;
        }
        let answer = crate::harness::message(&answer.text().await.unwrap());
        assert!(answer["result"].is_object(), "{answer}");
        Some(answer["result"]["isError"] != true)
    };
    let until = async |expected: bool| {
        let changed = async {
            while allowed().await != Some(expected) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, changed).await.unwrap();
    };
    assert_eq!(allowed().await, Some(false));
    acting.tokens.replace(&[&with_groups("stayers,movers")]);
    until(true).await;
    acting.tokens.replace(&[&with_groups("stayers")]);
    until(false).await;
}
