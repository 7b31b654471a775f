//! What is switched off is off at every door: for each setting that excludes something, a walk
//! through every exit of a server meets what was planted nowhere, and the same walk without
//! the setting does. All have a history in which everything is that was planted.

mod notified;
mod planted;
mod walk;

use std::{fs, path::Path};

use futures_util::{StreamExt, stream};
use serde_json::json;
use testbed::{Cluster, Options, User, namespace, pod};

use self::{
    planted::{
        CONTEXT, DEPLOYMENT, DEPLOYMENT_EVENT, EVENT, GRAPH_NODE, IMAGE, Ids, LOG, NODE_NOTE,
        OTHER_CONTEXT, OTHER_EVENT, OTHER_IMAGE, OTHER_LOG, OTHER_POD, OTHER_SPACE, POD, SPACE,
        SPACE_NOTE,
    },
    walk::{PROMPTS, TEMPLATES, TOOLS, Transcript, Walk},
};
use crate::harness::{Http, one_context};

/// The file of a history.
const STORE: &str = "history.redb";

/// Servers that are walked through at the same time.
const CONCURRENT: usize = 3;

/// A setting, and what it excludes.
struct Exclusion {
    arguments: Vec<&'static str>,
    /// Words that no exit lets out.
    words: Vec<String>,
    /// Tools, prompts and templates that are not offered.
    gone: Vec<&'static str>,
}

fn exclusion(arguments: &[&'static str], words: &[&str], gone: &[&'static str]) -> Exclusion {
    Exclusion {
        arguments: arguments.to_vec(),
        words: words.iter().map(ToString::to_string).collect(),
        gone: gone.to_vec(),
    }
}

fn exclusions(ids: &Ids) -> Vec<Exclusion> {
    let events = ["events_list", "events_poll", "events_subscribe"];
    let faults = ["faults_get", "faults_list", "faults_wait"];
    let incident = ids.incident.as_str();
    let incidents = ["incidents", "incidents-of-namespace"];
    let mut all = vec![
        exclusion(
            &["--disabled-tools", "pods_log"],
            &[LOG, OTHER_LOG],
            &["pods_log", "podlogs"],
        ),
        exclusion(
            &["--toolsets", "config,events,faults"],
            &[LOG, GRAPH_NODE, NODE_NOTE],
            &[
                "pods_log",
                "podlogs",
                "resources_graph",
                "graph",
                "runbook_pending",
            ],
        ),
        exclusion(
            &[
                "--disabled-tools",
                "events_list,events_poll,events_subscribe",
            ],
            &[EVENT],
            &[events.as_slice(), &["events", "subscription"]].concat(),
        ),
        exclusion(
            &["--toolsets", "config,core"],
            &[EVENT, incident],
            &[
                events.as_slice(),
                &faults,
                &incidents,
                &["events", "triage_fault", "cluster_health_check"],
            ]
            .concat(),
        ),
        exclusion(
            &["--toolsets", "config,core,events"],
            &[incident],
            &[faults.as_slice(), &incidents, &["triage_fault"]].concat(),
        ),
        exclusion(
            &["--disabled-tools", "faults_list"],
            &[incident],
            &[
                ["faults_list", "faults_wait", "cluster_health_check"].as_slice(),
                &incidents,
            ]
            .concat(),
        ),
        exclusion(
            &["--disabled-tools", "resources_graph"],
            &[GRAPH_NODE],
            &["resources_graph", "graph"],
        ),
        exclusion(
            &["--disabled-tools", "configuration_contexts_list"],
            &[OTHER_CONTEXT],
            &["configuration_contexts_list"],
        ),
        exclusion(
            &["--disabled-tools", "namespaces_list"],
            &[SPACE_NOTE],
            &["namespaces_list"],
        ),
        exclusion(
            &["--disabled-tools", "nodes_list"],
            &[NODE_NOTE],
            &["nodes_list"],
        ),
        exclusion(
            &["--denied-kinds", "po"],
            &[POD, IMAGE, LOG, EVENT, incident],
            &[
                "incidents",
                "pods_get",
                "pods_list",
                "pods_log",
                "podlogs",
                "faults_get",
                "triage_fault",
            ],
        ),
        exclusion(
            &["--denied-kinds", "Event"],
            &[EVENT, DEPLOYMENT_EVENT, incident],
            &[events.as_slice(), &faults, &["events", "triage_fault"]].concat(),
        ),
        exclusion(
            &["--denied-kinds", "ns"],
            &[SPACE_NOTE],
            &["namespaces_list"],
        ),
        exclusion(
            &["--denied-kinds", "nodes"],
            &[NODE_NOTE, "Node:node-1"],
            &["nodes_list", "nodes_top"],
        ),
        exclusion(&["--allowed-contexts", "d*v,none"], &[OTHER_CONTEXT], &[]),
    ];
    for spelling in ["deploy", "deployments.v1.apps"] {
        let words = [DEPLOYMENT, DEPLOYMENT_EVENT];
        all.push(exclusion(&["--denied-kinds", spelling], &words, &[]));
    }
    for allowed in [SPACE, "no-such-space,d?ors*"] {
        let words = [
            OTHER_SPACE,
            OTHER_POD,
            OTHER_IMAGE,
            OTHER_LOG,
            OTHER_EVENT,
            &ids.other_incident,
            NODE_NOTE,
            "Node:node-1",
        ];
        let gone = ["nodes_list", "nodes_top"];
        all.push(exclusion(&["--allowed-namespaces", allowed], &words, &gone));
    }
    all
}

async fn walked(
    cluster: &Cluster,
    ids: &Ids,
    user: User,
    arguments: &[&str],
    own: &str,
    history: &Path,
) -> Transcript {
    let file = planted::contexts(cluster, user);
    let arguments = [arguments, &["--history", history.to_str().unwrap()]].concat();
    let http = Http::start(&file.path, &arguments).await;
    let walk = Walk {
        http: &http,
        cluster,
        ids,
        own,
        transcript: Transcript::default(),
    };
    walk.all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_setting_excludes_leaves_by_no_exit() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("doors", Options::default());
    let ids = planted::plant(&cluster).await;
    let held = tempfile::tempdir().unwrap();
    let history = held.path().join("plain");
    // What the first server keeps, the second one shows.
    walked(&cluster, &ids, User::Admin, &[], "first", &history).await;
    let plain = walked(&cluster, &ids, User::Admin, &[], "plain", &history).await;
    everything_is_met(&plain, &ids);
    let walks = exclusions(&ids)
        .into_iter()
        .enumerate()
        .map(|(at, exclusion)| {
            let (cluster, ids, plain) = (&cluster, &ids, &plain);
            let own = format!("walk{at}");
            let folder = held.path().join(&own);
            fs::create_dir(&folder).unwrap();
            fs::copy(history.join(STORE), folder.join(STORE)).unwrap();
            async move {
                // What it asks of the API server is looked at below.
                let user = match exclusion.arguments[0] {
                    "--allowed-namespaces" => User::Audited,
                    _ => User::Admin,
                };
                let arguments = exclusion.arguments.as_slice();
                let seen = walked(cluster, ids, user, arguments, &own, &folder).await;
                let mut wrong = offers_what_it_answers(&exclusion, &seen);
                for word in &exclusion.words {
                    assert!(!plain.shows(word).is_empty(), "{word} is met nowhere");
                    let shown = seen.shows(word);
                    if !shown.is_empty() {
                        wrong.push(format!("`{word}` leaves by {shown:#?}"));
                    }
                }
                (!wrong.is_empty()).then(|| format!("{arguments:?}:\n{}", wrong.join("\n")))
            }
        });
    let wrong: Vec<_> = stream::iter(walks)
        .buffer_unordered(CONCURRENT)
        .collect()
        .await;
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    only_allowed_namespaces_are_asked_for(&cluster);
}

/// The walk meets each word by the exits that matter most.
fn everything_is_met(plain: &Transcript, ids: &Ids) {
    for (word, exits) in [
        (
            LOG,
            &[
                "tools/call pods_log",
                "tools/call pods_get",
                "tools/call faults_get",
                "resources/read",
                "prompts/get runbook_crash_loop",
                "prompts/get triage_fault",
                "push faults",
                "resources/read subscription",
                "update of",
            ][..],
        ),
        (
            EVENT,
            &[
                "tools/call events_list",
                "tools/call resources_list",
                "tools/call resources_get",
                "resources/read",
                "prompts/get runbook_pending",
                "push events",
                "update of",
            ],
        ),
        (
            &ids.incident,
            &[
                "tools/call faults_list",
                "tools/call events_subscribe",
                "completion/complete",
                "resources/read",
                "prompts/get cluster_health_check",
            ],
        ),
        (
            GRAPH_NODE,
            &["tools/call resources_graph", "resources/read"],
        ),
        (
            DEPLOYMENT,
            &[
                "tools/call changes_list",
                "tools/call resources_list",
                "tools/call resources_get",
                "tools/call faults_get",
                "tools/call events_list",
                "resources/read",
                "push events",
                "update of",
            ],
        ),
        (
            OTHER_CONTEXT,
            &[
                "tools/list",
                "tools/call configuration_contexts_list",
                "completion/complete",
            ],
        ),
        (OTHER_POD, &["tools/call pods_list", "completion/complete"]),
        (
            OTHER_SPACE,
            &["tools/call namespaces_list", "completion/complete"],
        ),
    ] {
        let shown = plain.shows(word);
        for exit in exits {
            assert!(
                shown.iter().any(|one| one.starts_with(exit)),
                "{exit} does not meet `{word}`, only {shown:#?}"
            );
        }
    }
    assert_eq!(plain.tools, TOOLS);
    assert_eq!(plain.prompts, PROMPTS);
    assert_eq!(plain.templates.len(), TEMPLATES.len());
}

/// What is listed is served, and what is not listed says which setting excludes it. Returns
/// where it is otherwise.
fn offers_what_it_answers(exclusion: &Exclusion, seen: &Transcript) -> Vec<String> {
    let flag = exclusion.arguments[0];
    let mut wrong = Vec::new();
    let offered = |name: &str| {
        let lists = [&seen.tools, &seen.prompts, &seen.templates];
        lists.into_iter().flatten().any(|one| one == name)
    };
    for name in exclusion.gone.iter().filter(|name| offered(name)) {
        wrong.push(format!("offers `{name}`"));
    }
    let names = TOOLS.iter().map(|tool| ("tools/call", "tool", *tool));
    let prompts = PROMPTS.iter();
    let names = names.chain(prompts.map(|prompt| ("prompts/get", "prompt", *prompt)));
    for (method, what, name) in names {
        let refusal = format!("{what} `{name}` is switched off");
        for answer in seen.answers(&format!("{method} {name} ")) {
            let refused = answer.contains(&refusal) && answer.contains(flag);
            if refused == offered(name) {
                wrong.push(format!("{name}: {answer}"));
            }
        }
    }
    for (template, below) in [
        ("events", "events".to_owned()),
        ("graph", "graph".to_owned()),
        ("podlogs", format!("pods/{POD}/logs/app")),
    ] {
        for request in ["resources/read", "resources/subscribe"] {
            let asked = format!("{request} k8s://{CONTEXT}/{SPACE}/{below}");
            for answer in seen.answers(&asked) {
                let refused = answer.contains("switched off") && answer.contains(flag);
                if refused == offered(template) {
                    wrong.push(format!("{asked}: {answer}"));
                }
            }
        }
    }
    let greeting = seen.answers("initialize").concat();
    for tool in TOOLS.iter().filter(|tool| !offered(tool)) {
        if greeting.contains(tool) {
            wrong.push(format!("{tool}: {greeting}"));
        }
    }
    wrong
}

/// The user of the confined servers may read everything, and asked for nothing else.
fn only_allowed_namespaces_are_asked_for(cluster: &Cluster) {
    let audit = cluster.audit().unwrap();
    let mut namespaced = 0;
    for request in &audit {
        let object = &request["objectRef"];
        let (resource, name) = (&object["resource"], &object["name"]);
        let is_allowed = match object["namespace"].as_str() {
            Some(SPACE | "no-such-space") => true,
            Some(_) => false,
            // Discovery, reviews, and the names of namespaces to compare with patterns.
            None => {
                resource.is_null()
                    || resource == "namespaces"
                    || resource == "selfsubjectaccessreviews"
            }
        };
        assert!(is_allowed, "{request}");
        assert!(name != OTHER_SPACE, "{request}");
        namespaced += usize::from(object["namespace"] == SPACE);
    }
    assert!(
        namespaced > 50,
        "the audit log is not complete: {namespaced}"
    );
}

/// A user who may read one namespace reads "all" of them.
#[tokio::test]
async fn a_confined_server_needs_no_rights_beyond_its_namespaces() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let name = "confined-pod";
    cluster
        .create(&pod("team-a", name, &["app"]))
        .await
        .unwrap();
    cluster
        .create_cluster_wide(&namespace("not-team-a"))
        .await
        .unwrap();
    let file = one_context(cluster, User::TeamA);
    let plain = Http::start(&file.path, &[]).await;
    plain
        .call("pods_list", json!({}))
        .await
        .refused("forbidden", &["pods"]);
    let http = Http::start(&file.path, &["--allowed-namespaces", "team-a"]).await;
    for (tool, arguments) in [
        ("pods_list", json!({})),
        ("resources_list", json!({"kind": "pods"})),
        ("resources_list", json!({"kind": "pods", "output": "yaml"})),
        ("pods_get", json!({"name": name})),
    ] {
        let found = http.call(tool, arguments).await.ok();
        assert!(found.text.contains(name), "{tool}: {}", found.text);
    }
    for tool in ["events_list", "faults_list", "events_poll"] {
        http.call(tool, json!({})).await.ok();
    }
    let refused = http
        .call("pods_list", json!({"namespace": "not-team-a"}))
        .await;
    let words = ["not-team-a", "--allowed-namespaces"];
    refused.refused("forbidden", &words);
    let refused = http
        .call("resources_list", json!({"kind": "clusterroles"}))
        .await;
    refused.refused("forbidden", &["clusterroles", "--allowed-namespaces"]);
}
