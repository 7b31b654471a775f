//! The exits of a server with a cluster. A tool, a resource, a prompt or a capability that is
//! not known here fails the test that walks through them.

use serde_json::{Value, json};

use super::{
    corpus::Pack,
    planted::{SPACE, pod_of},
};

/// Calls of a tool that meet what was planted, and a word that shows that they did.
pub(super) fn calls(tool: &str, packs: &[Pack]) -> Vec<(Value, String)> {
    let once = |arguments: Value, shows: &str| vec![(arguments, shows.to_owned())];
    let of_each = |call: &dyn Fn(&str) -> Vec<(Value, &'static str)>| {
        let of_one = |pack: &Pack| {
            let calls = call(&pod_of(pack)).into_iter();
            let marked = |shows: &str| shows.replace("{}", &pack.marker);
            let calls = calls.map(|(arguments, shows)| (arguments, marked(shows)));
            calls.collect::<Vec<_>>()
        };
        packs.iter().flat_map(of_one).collect::<Vec<_>>()
    };
    let space = json!({"namespace": SPACE});
    match tool {
        "changes_list" => once(
            json!({"namespace": SPACE, "limit": 1000}),
            "Deployment/leaky",
        ),
        "configuration_contexts_list" => once(json!({}), "dev"),
        "events_list" => of_each(&|name| {
            let about = format!("pod/{name}");
            let kept = json!({"namespace": SPACE, "for": about, "since": "2d"});
            vec![
                (json!({"namespace": SPACE, "for": about}), "event-{}"),
                (kept, "event-{}"),
            ]
        }),
        "events_list_subscriptions" | "namespaces_list" => once(json!({}), SPACE),
        "events_poll" => once(json!({"namespace": SPACE, "limit": 500}), "event-met-00"),
        "events_subscribe" => once(space, "subscriptionId"),
        "events_unsubscribe" => once(json!({"subscriptionId": "sub-0"}), "not found"),
        // Each fault is read by `faults_are_clean`.
        "faults_get" => once(json!({"faultId": "none"}), "not found"),
        "faults_list" => [
            json!({"namespace": SPACE, "includeResolved": true}),
            json!({"namespace": SPACE, "since": "2d"}),
        ]
        .map(|arguments| (arguments, "leaky-met-".to_owned()))
        .into(),
        // With the cursor of another process, the answer has what is open.
        "faults_wait" => once(
            json!({"namespace": SPACE, "cursor": "w-00000000.1"}),
            "image-met-00",
        ),
        "pods_list" => once(space, "leaky-met-00"),
        "nodes_list" => once(json!({}), "node-1"),
        "nodes_top" | "pods_top" => once(json!({}), "metrics.k8s.io"),
        "pods_get" => of_each(&|name| {
            let pod = json!({"namespace": SPACE, "name": name});
            let yaml = json!({"namespace": SPACE, "name": name, "output": "yaml"});
            vec![(pod, "leaky-{}"), (yaml, "name: NOTE")]
        }),
        "pods_log" => of_each(&|name| {
            let log = |key: &str, value: Value| json!({"namespace": SPACE, "name": name, "tail": 1000, key: value});
            vec![
                (log("container", json!("app")), "log-{}"),
                (log("timestamps", json!(true)), "log-{}"),
                (log("previous", json!(true)), "previous-{}"),
                (log("include", json!(".")), "log-{}"),
                (log("container", json!("broken")), "failure-{}"),
                // Neither truncation nor a filter reveals what is redacted otherwise.
                (log("limitBytes", json!(700)), ""),
                (log("exclude", json!("(?i)begin|secret|password|:$")), ""),
            ]
        }),
        "resources_get" => of_each(&|name| {
            let object = |kind: &str, output: &str| json!({"kind": kind, "namespace": SPACE, "name": name, "output": output});
            vec![
                (object("pods", "yaml"), "name: NOTE"),
                (object("configmaps", "yaml"), "app.conf"),
                (object("leaks", "yaml"), "settings"),
                (object("leaks", "table"), "leaky-{}"),
                (object("deployments", "yaml"), "change-cause"),
            ]
        }),
        "resources_graph" => of_each(&|name| {
            let graph = |output: &str| json!({"kind": "pods", "namespace": SPACE, "name": name, "output": output});
            ["text", "json", "mermaid"]
                .map(|output| (graph(output), "leaky-{}"))
                .into()
        }),
        "resources_list" => ["pods", "events", "configmaps", "leaks", "deployments"]
            .into_iter()
            .flat_map(|kind| ["table", "yaml"].map(|output| (kind, output)))
            .map(|(kind, output)| {
                let asked =
                    json!({"kind": kind, "namespace": SPACE, "limit": 1000, "output": output});
                (asked, "leaky-met-".to_owned())
            })
            .collect(),
        other => panic!("send the corpus through the tool `{other}` here: what may it let out?"),
    }
}

/// The URIs of a template that meet what was planted, and a word that shows that they did.
pub(super) fn uris(template: &str, packs: &[Pack]) -> Vec<(String, String)> {
    let space = format!("k8s://dev/{SPACE}");
    let of_pod = |pack: &Pack| {
        let marker = &pack.marker;
        let name = pod_of(pack);
        let log = format!("{space}/pods/{name}/logs/app?tail=1000");
        [
            (log.clone(), format!("log-{marker}")),
            (format!("{log}&previous=true"), format!("previous-{marker}")),
            (
                format!("{space}/pods/{name}/logs/broken"),
                format!("failure-{marker}"),
            ),
        ]
    };
    let events = |pack: &Pack| {
        let uri = format!("{space}/events?for=pod/{}&limit=500", pod_of(pack));
        (uri, format!("event-{}", pack.marker))
    };
    match template.split_once("{?").map_or(template, |(path, _)| path) {
        "k8s://{context}/{namespace}/events" => packs.iter().map(events).collect(),
        "k8s://{context}/{namespace}/pods/{pod}/logs/{container}" => {
            packs.iter().flat_map(of_pod).collect()
        }
        "k8s://{context}/incidents" => {
            vec![(
                "k8s://dev/incidents".to_owned(),
                "\\\"incidents\\\"".to_owned(),
            )]
        }
        "k8s://{context}/{namespace}/incidents" => {
            vec![(format!("{space}/incidents"), "leaky-met-".to_owned())]
        }
        "k8s://{context}/{namespace}/graph" => {
            vec![(format!("{space}/graph"), "leaky-met-00".to_owned())]
        }
        // They are in the list as well, each with its id.
        "kubecrier://subscriptions/{subscriptionId}" => Vec::new(),
        other => panic!("send the corpus through the resources `{other}` here"),
    }
}

/// The arguments of a prompt, and a word that shows that it met something.
pub(super) fn prompts(name: &str, packs: &[Pack], faults: &[String]) -> Vec<(Value, &'static str)> {
    let of_pods = || {
        let pod = |pack| (json!({"namespace": SPACE, "name": pod_of(pack)}), "leaky-");
        packs.iter().map(pod).collect()
    };
    match name {
        "cluster_health_check" => vec![(json!({}), "messages")],
        "runbook_crash_loop"
        | "runbook_image_pull"
        | "runbook_no_endpoints"
        | "runbook_pending" => of_pods(),
        "triage_fault" => {
            let asked = faults.iter().map(|id| (json!({"faultId": id}), "leaky-"));
            asked.collect()
        }
        other => panic!("send the corpus through the prompt `{other}` here"),
    }
}

/// What a server says it can do; anything new is an exit to look at.
pub(super) fn knows_capabilities(capabilities: &Value) {
    for (name, about) in capabilities.as_object().unwrap() {
        let parts: Vec<_> = about.as_object().unwrap().keys().collect();
        let known: &[&str] = match name.as_str() {
            "completions" | "logging" => &[],
            "prompts" | "tools" => &["listChanged"],
            "resources" => &["listChanged", "subscribe"],
            // What they hold is about delivery, and has no text of workloads.
            "experimental" | "extensions" => continue,
            other => panic!("send the corpus through what the capability `{other}` is for"),
        };
        assert!(
            parts.iter().all(|part| known.contains(&part.as_str())),
            "{name}: {parts:?}"
        );
    }
}
