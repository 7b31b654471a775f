use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn policy() -> ScopePolicy {
    ScopePolicy::new(vec![ScopePolicy::READ.to_owned()], true, true)
}

/// What is known of subscriptions.
fn modes() -> Modes {
    let known = [
        ("s-events", Mode::Events),
        ("s-faults", Mode::Faults),
        ("s-incidents", Mode::Incidents),
    ];
    known.map(|(id, mode)| (id.to_owned(), mode)).into()
}

fn granted(scopes: &[&str]) -> Scopes {
    scopes.iter().copied().collect()
}

fn check(message: &Value, expected: &[Scope]) {
    let needed = policy().needed(message.to_string().as_bytes(), Shape::Message, &modes());
    assert_eq!(
        needed.into_iter().collect::<Vec<_>>(),
        expected,
        "{message}"
    );
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[test]
fn a_message_needs_what_its_answer_has() {
    check(&request("initialize", json!({"protocolVersion": "x"})), &[]);
    check(&request("tools/list", json!({})), &[]);
    check(&call("pods_list", json!({})), &[]);
    check(&call("pods_log", json!({"name": "a"})), &[Scope::Logs]);
    check(&call("events_list", json!({})), &[Scope::Events]);
    check(
        &call("events_subscribe", json!({"mode": "events"})),
        &[Scope::Events],
    );
    let both = [Scope::Events, Scope::Logs];
    check(&call("events_subscribe", json!({"mode": "faults"})), &both);
    check(&call("events_poll", json!({"mode": "faults"})), &both);
    check(&call("faults_get", json!({})), &both);
    check(&call("resources_list", json!({"kind": "Pod"})), &[]);
    for kind in [
        "Event",
        "events",
        "ev",
        "events.events.k8s.io",
        " EVENTS ",
        "events.k8s.io/v1/events",
    ] {
        check(
            &call("resources_list", json!({"kind": kind})),
            &[Scope::Events],
        );
    }
    check(&call("deploy", json!({})), &[Scope::Tools]);
    check(
        &request("prompts/get", json!({"name": "triage_fault"})),
        &both,
    );
    let read = |uri: &str| request("resources/read", json!({"uri": uri}));
    check(&read("k8s://dev/shop/events"), &[Scope::Events]);
    check(&read("k8s://dev/shop/pods/web/logs/app"), &[Scope::Logs]);
    check(&read("k8s://dev/shop/graph"), &[]);
    check(&read("k8s://dev/incidents"), &both);
    check(&call("faults_list", json!({})), &both);
    check(
        &call("events_subscribe", json!({"mode": "incidents"})),
        &both,
    );
    let uris = ["k8s://dev/shop/pods/web/logs/app", "k8s://dev/shop/events"];
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    check(&request("subscriptions/listen", filter), &both);
    let lists = json!({"notifications": {"toolsListChanged": true}});
    check(&request("subscriptions/listen", lists), &[]);
    let task = |id: &str| request("tasks/get", json!({"taskId": id}));
    check(&task("wait-0"), &both);
    check(&task("tool-0"), &[Scope::Tools]);
    check(&task("none"), &[]);
    check(&request("tasks/cancel", json!({"taskId": "wait-0"})), &[]);
    let listen = |filter| request("subscriptions/listen", json!({"notifications": filter}));
    check(&listen(json!({"taskIds": ["none", "wait-0"]})), &both);
    check(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}), &[]);
}

#[test]
fn a_feed_needs_what_its_subscription_tells() {
    let both = [Scope::Events, Scope::Logs];
    for (id, needed) in [
        ("s-events", &both[..1]),
        ("s-faults", &both[..]),
        ("s-incidents", &both[..]),
        ("s-unknown", &both[..]),
    ] {
        let uri = format!("kubecrier://subscriptions/{id}");
        let named = BTreeSet::from([id.to_owned()]);
        for message in [
            request("resources/read", json!({"uri": uri})),
            request("resources/subscribe", json!({"uri": uri})),
            request(
                "subscriptions/listen",
                json!({"notifications": {"resourceSubscriptions": [uri]}}),
            ),
            call("events_poll", json!({"subscriptionId": id})),
            call(
                "events_poll",
                json!({"subscriptionId": id, "mode": "events"}),
            ),
        ] {
            check(&message, needed);
            let text = message.to_string();
            let found = policy().named_subscriptions(text.as_bytes(), Shape::Message);
            assert_eq!(found, named, "{message}");
        }
    }
    for (arguments, needed) in [
        (json!({}), &both[..1]),
        (json!({"mode": null, "subscriptionId": ""}), &both[..1]),
        (json!({"mode": "events", "namespace": "shop"}), &both[..1]),
        (json!({"mode": "Events"}), &both[..]),
        (json!({"mode": "other"}), &both[..]),
        (json!({"subscriptionId": 7}), &Scope::ALL[..]),
    ] {
        check(&call("events_poll", arguments), needed);
    }
}

#[test]
fn what_a_project_runs_needs_a_scope() {
    let read = |uri: &str| request("resources/read", json!({"uri": uri}));
    let prompt = request("prompts/get", json!({"name": "of-the-project"}));
    for uri in ["file:///report", "demo://metrics", "kubecrier://other"] {
        check(&read(uri), &[Scope::Tools]);
        check(
            &request("resources/subscribe", json!({"uri": uri})),
            &[Scope::Tools],
        );
    }
    check(&read("k8s://no/such/address/at/all"), &[]);
    // It can embed logs, and what programs print.
    check(&prompt, &Scope::ALL);
    let without = ScopePolicy::new(Vec::new(), true, false);
    for message in [read("file:///report"), prompt] {
        let text = message.to_string();
        let needed = without.needed(text.as_bytes(), Shape::Message, &modes());
        assert_eq!(needed, BTreeSet::new(), "{message}");
    }
}

#[test]
fn a_prompt_that_is_built_in_is_known_here() {
    for prompt in prompts::PROMPTS {
        let message = request("prompts/get", json!({"name": prompt.name}));
        check(&message, &[Scope::Events, Scope::Logs]);
    }
}

#[test]
fn every_tool_has_its_scopes_here() {
    for entry in &tools::TOOLS {
        let scopes = of_built_in(entry.name).unwrap();
        assert_ne!(scopes, ToolScopes::Always(&Scope::ALL), "{}", entry.name);
    }
}

#[test]
fn a_message_that_can_be_read_in_two_ways_needs_everything() {
    for text in [
        r#"{"method":"tools/list","method":"tools/call","params":{"name":"pods_log"}}"#,
        r#"{"method":"tools/call","params":{"name":"pods_list","name":"pods_log"}}"#,
        r#"{"method":"tools/call","params":{"name":"resources_list","arguments":{"kind":"Pod","kind":"Event"}}}"#,
        r#"{"method":"tools/call","params":{"name":"events_poll","arguments":{"mode":"events","mode":"faults"}}}"#,
        r#"{"method":"tools/call","params":["pods_log"]"#,
    ] {
        let needed = policy().needed(text.as_bytes(), Shape::Message, &modes());
        assert_eq!(needed, Scope::ALL.into(), "{text}");
    }
    // Escapes are no other name.
    let text = r#"{"method":"tools\/call","params":{"name":"pods_\u006cog"}}"#;
    let needed = policy().needed(text.as_bytes(), Shape::Message, &modes());
    assert_eq!(needed, [Scope::Logs].into());
}

#[test]
fn a_batch_needs_what_all_of_it_needs() {
    let batch = json!([call("pods_log", json!({})), call("events_list", json!({}))]);
    let needed = policy().needed(batch.to_string().as_bytes(), Shape::Batch, &modes());
    assert_eq!(needed, [Scope::Events, Scope::Logs].into());
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let body = call("faults_get", json!({})).to_string();
    let check = |scopes: &[&str]| {
        policy().check_body(&granted(scopes), body.as_bytes(), Shape::Message, &modes())
    };
    let all = ["kubecrier:read", "kubecrier:events", "kubecrier:logs"];
    assert_eq!(check(&all), Ok(()));
    let refused = check(&[]).unwrap_err();
    assert_eq!(refused.missing, all);
    assert_eq!(refused.wanted, all);
    let refused = check(&["kubecrier:read", "kubecrier:tools", "openid"]).unwrap_err();
    assert_eq!(refused.missing, all[1..]);
    let wanted = [
        "kubecrier:read",
        "kubecrier:events",
        "kubecrier:logs",
        "kubecrier:tools",
    ];
    assert_eq!(refused.wanted, wanted, "a new token does not permit less");
    let coarse = ScopePolicy::new(vec!["use".to_owned()], false, true);
    let granted = granted(&["use"]);
    assert_eq!(
        coarse.check_body(&granted, body.as_bytes(), Shape::Message, &modes()),
        Ok(())
    );
    assert!(
        policy()
            .check_body(&granted, body.as_bytes(), Shape::Message, &modes())
            .is_err()
    );
    assert_eq!(coarse.supported(), ["use"]);
    let entra = ScopePolicy::new(vec!["api://crier/access".to_owned()], false, false);
    assert_eq!(entra.check_base(&["access"].into_iter().collect()), Ok(()));
    let other = entra.check_base(&["acces", "api://other/access"].into_iter().collect());
    assert_eq!(other.unwrap_err().wanted, ["api://crier/access"]);
    let open = ScopePolicy::new(Vec::new(), false, true);
    assert_eq!(open.check_base(&Scopes::default()), Ok(()));
}

proptest! {
    /// A tool that gives logs is never called without their scope, however it is written.
    #[test]
    fn fuzz_logs_are_not_read_without_their_scope(
        before in "[ \\t\\n]{0,3}",
        extra in prop::collection::btree_map("[a-z]{1,6}", "[a-z]{0,4}", 0..4),
    ) {
        let mut params: serde_json::Map<_, _> = extra.into_iter().map(|(k, v)| (k, json!(v))).collect();
        params.insert("name".to_owned(), json!("pods_log"));
        params.remove("notifications");
        let message = json!({"method": "tools/call", "params": params, "id": 1});
        let text = format!("{before}{message}");
        let needed = policy().needed(text.as_bytes(), Shape::Message, &modes());
        prop_assert!(needed.contains(&Scope::Logs), "{}", text);
    }
}
