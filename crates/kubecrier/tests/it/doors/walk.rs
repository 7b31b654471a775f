//! A walk through every exit of a running server. What the server lists and this does not
//! know is an exit that nobody has thought about: the walk panics there.

use serde_json::{Value, json};
use testbed::Cluster;

use super::planted::{CONTEXT, Ids, OTHER_CONTEXT, OTHER_POD, OTHER_SPACE, POD, SERVICE, SPACE};
use crate::harness::{Http, initialize};

/// Every tool, also those that a server does not list.
pub(super) const TOOLS: [&str; 20] = [
    "changes_list",
    "configuration_contexts_list",
    "events_list",
    "events_list_subscriptions",
    "events_poll",
    "events_subscribe",
    "events_unsubscribe",
    "faults_get",
    "faults_list",
    "faults_wait",
    "namespaces_list",
    "nodes_list",
    "nodes_top",
    "pods_get",
    "pods_list",
    "pods_log",
    "pods_top",
    "resources_get",
    "resources_graph",
    "resources_list",
];

pub(super) const PROMPTS: [&str; 6] = [
    "cluster_health_check",
    "runbook_crash_loop",
    "runbook_image_pull",
    "runbook_no_endpoints",
    "runbook_pending",
    "triage_fault",
];

pub(super) const TEMPLATES: [(&str, &str); 6] = [
    (
        "events",
        "k8s://{context}/{namespace}/events{?for,types,reason,since,limit}",
    ),
    ("graph", "k8s://{context}/{namespace}/graph{?kinds}"),
    ("incidents", "k8s://{context}/incidents"),
    (
        "incidents-of-namespace",
        "k8s://{context}/{namespace}/incidents",
    ),
    (
        "podlogs",
        "k8s://{context}/{namespace}/pods/{pod}/logs/{container}{?previous,tail,since}",
    ),
    ("subscription", "kubecrier://subscriptions/{subscriptionId}"),
];

const CAPABILITIES: [&str; 5] = ["completions", "logging", "prompts", "resources", "tools"];
const RESOURCES: [&str; 4] = ["events", "graph", "incidents", "warnings"];
const ARGUMENTS: [&str; 4] = ["context", "faultId", "name", "namespace"];
const MODES: [&str; 3] = ["events", "faults", "incidents"];

/// What was asked, and what came back.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pub(super) entries: Vec<(String, String)>,
    pub(super) tools: Vec<String>,
    pub(super) prompts: Vec<String>,
    pub(super) templates: Vec<String>,
}

/// A server, and what was planted in its cluster.
pub(super) struct Walk<'a> {
    pub(super) http: &'a Http,
    pub(super) cluster: &'a Cluster,
    pub(super) ids: &'a Ids,
    /// A word of its own, for what is made while it walks.
    pub(super) own: &'a str,
    pub(super) transcript: Transcript,
}

// === impl Transcript ===

impl Transcript {
    /// The exits that let a word out. A request that has the word gives nothing away by
    /// repeating it.
    pub(super) fn shows(&self, word: &str) -> Vec<&str> {
        let shown = |(request, answer): &&(String, String)| {
            answer.contains(word) && !request.contains(word)
        };
        let shown = self.entries.iter().filter(shown);
        shown.map(|(request, _)| request.as_str()).collect()
    }

    /// The answers to what begins so.
    pub(super) fn answers(&self, request: &str) -> Vec<&str> {
        let asked = |(one, _): &&(String, String)| one.starts_with(request);
        let asked = self.entries.iter().filter(asked);
        asked.map(|(_, answer)| answer.as_str()).collect()
    }
}

// === impl Walk ===

impl Walk<'_> {
    pub(super) async fn all(mut self) -> Transcript {
        self.greet().await;
        self.lists().await;
        self.tools().await;
        self.templates().await;
        self.prompts().await;
        self.pushes().await;
        self.updates().await;
        self.transcript
    }

    pub(super) fn note(&mut self, request: String, answer: &Value) {
        self.transcript.entries.push((request, answer.to_string()));
    }

    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let label = params["name"].as_str().or(params["uri"].as_str());
        let label = format!("{method} {} {params}", label.unwrap_or_default());
        let answer = self.http.rpc(method, params).await;
        self.note(label, &answer);
        answer
    }

    async fn greet(&mut self) {
        let answer = self.http.fresh(&initialize("2025-11-25")).await;
        let answer = crate::harness::message(&answer.text().await.unwrap());
        let offered = answer["result"]["capabilities"].as_object().unwrap();
        for capability in offered.keys() {
            assert!(
                CAPABILITIES.contains(&capability.as_str()),
                "walk through `{capability}` here"
            );
        }
        self.note("initialize".to_owned(), &answer);
    }

    async fn lists(&mut self) {
        let names = |answer: &Value, list: &str| -> Vec<String> {
            let items = answer["result"][list].as_array().unwrap();
            let names = items.iter().map(|item| item["name"].as_str().unwrap());
            names.map(str::to_owned).collect()
        };
        let tools = self.ask("tools/list", json!({})).await;
        for tool in tools["result"]["tools"].as_array().unwrap() {
            let mode = &tool["inputSchema"]["properties"]["mode"]["enum"];
            assert!(
                mode.is_null() || *mode == json!(MODES),
                "subscribe to it here: {mode}"
            );
        }
        self.transcript.tools = names(&tools, "tools");
        let prompts = self.ask("prompts/list", json!({})).await;
        for prompt in prompts["result"]["prompts"].as_array().unwrap() {
            for argument in prompt["arguments"].as_array().unwrap() {
                let name = argument["name"].as_str().unwrap();
                assert!(
                    ARGUMENTS.contains(&name),
                    "fill in and complete `{name}` here"
                );
            }
        }
        self.transcript.prompts = names(&prompts, "prompts");
        let templates = self.ask("resources/templates/list", json!({})).await;
        for template in templates["result"]["resourceTemplates"].as_array().unwrap() {
            let known = TEMPLATES.iter().find(|(name, _)| template["name"] == *name);
            let uri = known.map(|(_, uri)| *uri);
            assert_eq!(
                template["uriTemplate"].as_str(),
                uri,
                "walk through it here"
            );
        }
        self.transcript.templates = names(&templates, "resourceTemplates");
        let resources = self.ask("resources/list", json!({})).await;
        for resource in resources["result"]["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            assert!(RESOURCES.contains(&name), "walk through `{name}` here");
            self.ask("resources/read", json!({"uri": resource["uri"]}))
                .await;
        }
        for tool in &self.transcript.tools {
            assert!(TOOLS.contains(&tool.as_str()), "call `{tool}` here");
        }
        for prompt in &self.transcript.prompts {
            assert!(
                PROMPTS.contains(&prompt.as_str()),
                "ask for `{prompt}` here"
            );
        }
    }

    async fn tools(&mut self) {
        for tool in TOOLS {
            for arguments in self.calls(tool) {
                let call = json!({"name": tool, "arguments": arguments});
                self.ask("tools/call", call).await;
            }
        }
    }

    /// Calls that meet everything that was planted.
    fn calls(&self, tool: &str) -> Vec<Value> {
        let places = || {
            vec![
                json!({}),
                json!({"namespace": SPACE}),
                json!({"namespace": OTHER_SPACE}),
                json!({"namespace": SPACE, "context": OTHER_CONTEXT}),
            ]
        };
        let with = |more: Value, each: Vec<Value>| -> Vec<Value> {
            let both = |mut one: Value| {
                let fields = one.as_object_mut().unwrap();
                fields.extend(more.as_object().unwrap().clone());
                one
            };
            each.into_iter().map(both).collect()
        };
        let pods = || {
            vec![
                json!({"namespace": SPACE, "name": POD}),
                json!({"namespace": OTHER_SPACE, "name": OTHER_POD}),
                json!({"namespace": SPACE, "name": POD, "context": OTHER_CONTEXT}),
            ]
        };
        let yaml = json!({"output": "yaml"});
        match tool {
            "configuration_contexts_list" | "events_list_subscriptions" => vec![json!({})],
            "namespaces_list" | "nodes_list" | "nodes_top" => {
                vec![json!({}), json!({"context": OTHER_CONTEXT})]
            }
            "changes_list" | "pods_list" | "pods_top" => places(),
            // With what is kept.
            "events_list" | "faults_list" => {
                [places(), with(json!({"since": "2d"}), places())].concat()
            }
            "events_poll" => MODES
                .iter()
                .flat_map(|mode| with(json!({"mode": mode}), places()))
                .collect(),
            // With the cursor of another process, the answer has what is open.
            "faults_wait" => with(json!({"cursor": "w-00000000.1"}), places()),
            // The subscriptions of `pushes`.
            "events_subscribe" => Vec::new(),
            "events_unsubscribe" => vec![json!({"subscriptionId": "none"})],
            "faults_get" => self
                .ids
                .all()
                .into_iter()
                .flat_map(|id| with(json!({"faultId": id}), places()))
                .collect(),
            "pods_get" => [pods(), with(yaml, pods())].concat(),
            "pods_log" => [pods(), with(json!({"previous": true}), pods())].concat(),
            "resources_get" => {
                let events = self.ids.events.iter();
                let events = events.map(
                    |(space, name)| json!({"kind": "events", "namespace": space, "name": name}),
                );
                let objects = [
                    with(json!({"kind": "Pod"}), pods()),
                    vec![
                        json!({"kind": "deploy", "namespace": SPACE, "name": "deployment-marker"}),
                        json!({"kind": "replicasets", "namespace": SPACE, "name": "revision-1"}),
                        json!({"kind": "no", "name": "node-1"}),
                        json!({"kind": "ns", "name": SPACE}),
                        json!({"kind": "ns", "name": OTHER_SPACE}),
                    ],
                    events.collect(),
                ]
                .concat();
                [objects.clone(), with(yaml, objects)].concat()
            }
            "resources_graph" => ["text", "json", "mermaid"]
                .into_iter()
                .flat_map(|form| {
                    let objects = vec![
                        json!({"kind": "pods", "namespace": SPACE, "name": POD}),
                        json!({"kind": "pods", "namespace": OTHER_SPACE, "name": OTHER_POD}),
                        json!({"kind": "rs", "namespace": SPACE, "name": "revision-1"}),
                        json!({"kind": "ns", "name": SPACE}),
                        json!({"kind": "ns", "name": OTHER_SPACE}),
                        json!({"kind": "no", "name": "node-1"}),
                    ];
                    with(json!({"output": form}), objects)
                })
                .collect(),
            "resources_list" => {
                let kinds = [
                    "pods",
                    "deployments.apps",
                    "rs",
                    "ev",
                    "events.events.k8s.io",
                    "nodes",
                    "namespaces",
                ];
                let each = kinds.iter();
                let each = each.flat_map(|kind| with(json!({"kind": kind}), places()));
                let each: Vec<_> = each.collect();
                [each.clone(), with(yaml, each)].concat()
            }
            other => panic!("call the tool `{other}` here"),
        }
    }

    /// The URIs of every template.
    pub(super) fn uris() -> Vec<String> {
        let mut uris = Vec::new();
        for (context, space, pod) in [
            (CONTEXT, SPACE, POD),
            (CONTEXT, OTHER_SPACE, OTHER_POD),
            (OTHER_CONTEXT, SPACE, POD),
        ] {
            for below in [
                "events",
                "graph",
                "incidents",
                &format!("pods/{pod}/logs/app"),
            ] {
                uris.push(format!("k8s://{context}/{space}/{below}"));
            }
        }
        for below in ["events", "graph"] {
            uris.push(format!("k8s://{CONTEXT}/-/{below}"));
        }
        uris.push(format!("k8s://{CONTEXT}/incidents"));
        uris
    }

    async fn templates(&mut self) {
        for uri in Self::uris() {
            self.ask("resources/read", json!({"uri": uri})).await;
            if uri.contains("/logs/") {
                let previous = format!("{uri}?previous=true");
                self.ask("resources/read", json!({"uri": previous})).await;
            }
        }
        for (_, template) in TEMPLATES {
            for variable in variables(template) {
                let from = json!({"type": "ref/resource", "uri": template});
                self.complete(from, &variable).await;
            }
        }
    }

    async fn complete(&mut self, from: Value, argument: &str) {
        let chosen = [
            json!({}),
            json!({"context": OTHER_CONTEXT, "namespace": SPACE}),
            json!({"namespace": SPACE}),
            json!({"namespace": OTHER_SPACE}),
            json!({"namespace": SPACE, "pod": POD}),
        ];
        for chosen in chosen {
            let asked = json!({
                "ref": from,
                "argument": {"name": argument, "value": ""},
                "context": {"arguments": chosen},
            });
            self.ask("completion/complete", asked).await;
        }
    }

    async fn prompts(&mut self) {
        for prompt in PROMPTS {
            let mut names = vec!["context"];
            let subjects: Vec<Value> = match prompt {
                "cluster_health_check" => vec![json!({})],
                "triage_fault" => {
                    names.push("faultId");
                    let ids = self.ids.all().into_iter();
                    ids.map(|id| json!({"faultId": id})).collect()
                }
                _ => {
                    names.extend(["namespace", "name"]);
                    vec![
                        json!({"namespace": SPACE, "name": POD}),
                        json!({"namespace": SPACE, "name": SERVICE}),
                        json!({"namespace": OTHER_SPACE, "name": OTHER_POD}),
                        json!({"namespace": SPACE, "name": POD, "context": OTHER_CONTEXT}),
                    ]
                }
            };
            for arguments in subjects {
                let asked = json!({"name": prompt, "arguments": arguments});
                self.ask("prompts/get", asked).await;
            }
            for argument in names {
                let from = json!({"type": "ref/prompt", "name": prompt});
                self.complete(from, argument).await;
            }
        }
    }
}

/// The variables of a URI template.
fn variables(template: &str) -> Vec<String> {
    let parts = template.split('{').skip(1);
    let inside = parts.map(|part| part.split('}').next().unwrap().trim_start_matches('?'));
    inside
        .flat_map(|names| names.split(','))
        .map(str::to_owned)
        .collect()
}

pub(super) fn modes() -> [&'static str; 3] {
    MODES
}
