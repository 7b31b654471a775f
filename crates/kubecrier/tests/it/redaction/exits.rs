//! The corpus of secrets on its way through every exit of a server with a cluster.

use std::path::Path;

use kubecrier_history::{
    History, HistoryConfig, Log as _, Position, Record, Registry as _, Retention, Store, Stream,
};
use serde_json::json;
use testbed::{Cluster, LogScript, User, event, namespace, pod};
use tokio::time::timeout;

use super::{
    corpus::Secrets,
    known::{calls, knows_capabilities, prompts, uris},
    planted::{SPACE, define_kind, marked, plant, plant_incident, pod_of},
};
use crate::{
    harness::{Http, Subscriber, TIMEOUT, Watch, command, initialize, message, one_context},
    resources::{UpdateStream, read_modern, subscribe},
};

/// Events and faults as they are pushed; plants the events.
async fn pushes_are_clean(http: &Http, cluster: &Cluster, secrets: &Secrets) {
    let mut client = Subscriber::new(http).await;
    let subscription = client.subscribe(json!({"namespace": SPACE})).await;
    let faults = json!({"mode": "faults", "namespace": SPACE});
    client.subscribe(faults).await;
    let incidents = json!({"mode": "incidents", "namespace": SPACE});
    let answer = http.call("events_subscribe", incidents).await.ok();
    assert!(answer.text.contains("leaky-met-"), "{}", answer.text);
    secrets.are_not_in("what is open", &answer.text);
    http.call("events_poll", json!({"namespace": SPACE}))
        .await
        .ok();
    let mut awaited = Vec::new();
    for pack in &secrets.packs {
        let pod = format!("Pod/{}", pod_of(pack));
        let warning = event(SPACE, &pod, "Warning", "Failed", &marked("event", pack));
        cluster.create(&warning).await.unwrap();
        let object = format!("Deployment/{}", pod_of(pack));
        let text = marked("scaled", pack);
        let normal = event(SPACE, &object, "Normal", "ScalingReplicaSet", &text);
        cluster.create(&normal).await.unwrap();
        plant_incident(cluster, pack).await;
        awaited.push(format!("tardy-{}", pack.marker));
        awaited.extend(["event", "scaled", "log"].map(|place| format!("{place}-{}", pack.marker)));
    }
    while !awaited.is_empty() {
        let message = client.message().await;
        secrets.are_not_in_message("a push", &message);
        let text = message.to_string();
        // The log belongs to a fault, and that is pushed after its event.
        awaited.retain(|marker| !text.contains(marker));
    }
    let uri = format!("kubecrier://subscriptions/{subscription}");
    let read = http.rpc("resources/read", json!({"uri": uri})).await;
    assert!(read.to_string().contains("met-00"), "{read}");
    secrets.are_not_in_message("a subscription", &read);
}

async fn tools_are_clean(http: &Http, secrets: &Secrets) {
    let listed = http.rpc("tools/list", json!({})).await;
    secrets.are_not_in_message("tools/list", &listed);
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        for (arguments, shows) in calls(name, &secrets.packs) {
            let request = json!({"name": name, "arguments": arguments});
            let answer = http.rpc("tools/call", request).await;
            let text = answer.to_string();
            assert!(
                text.contains(&shows),
                "{name} {arguments} met no `{shows}`: {text}"
            );
            secrets.are_not_in_message(&format!("{name} {arguments}"), &answer);
        }
    }
}

/// The ids of all faults and incidents; their evidence is read as well.
async fn faults_are_clean(http: &Http, secrets: &Secrets) -> Vec<String> {
    let mut ids = http.notified_faults().await;
    assert!(ids.len() >= secrets.packs.len(), "{ids:?}");
    for id in &ids {
        let asked = json!({"name": "faults_get", "arguments": {"faultId": id}});
        let evidence = http.rpc("tools/call", asked).await;
        assert!(evidence.to_string().contains("log-met-"), "{evidence}");
        secrets.are_not_in_message("faults_get", &evidence);
    }
    let listed = http
        .call("faults_list", json!({"namespace": SPACE, "limit": 200}))
        .await
        .ok();
    let incidents = listed.data["incidents"].as_array().unwrap();
    assert!(incidents.len() >= secrets.packs.len(), "{}", listed.text);
    for incident in incidents {
        let asked = json!({"faultId": incident["id"], "namespace": SPACE});
        let asked = json!({"name": "faults_get", "arguments": asked});
        let story = http.rpc("tools/call", asked).await;
        assert!(story.to_string().contains("-met-"), "{story}");
        secrets.are_not_in_message("faults_get", &story);
        if incident["object"].as_str().unwrap().contains("leaky-") {
            ids.push(incident["id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

async fn resources_are_clean(http: &Http, secrets: &Secrets) {
    let listed = http.rpc("resources/list", json!({})).await;
    secrets.are_not_in_message("resources/list", &listed);
    let mut read: Vec<(String, String)> = Vec::new();
    for resource in listed["result"]["resources"].as_array().unwrap() {
        let uri = resource["uri"].as_str().unwrap();
        let known = uri.starts_with("k8s://dev/-/events")
            || uri == "k8s://dev/default/graph"
            || uri == "k8s://dev/incidents"
            || uri.starts_with("kubecrier://subscriptions/");
        assert!(known, "send the corpus through the resource `{uri}` here");
        read.push((uri.to_owned(), uri.to_owned()));
    }
    let templates = http.rpc("resources/templates/list", json!({})).await;
    secrets.are_not_in_message("resources/templates/list", &templates);
    for template in templates["result"]["resourceTemplates"].as_array().unwrap() {
        let template = template["uriTemplate"].as_str().unwrap();
        read.extend(uris(template, &secrets.packs));
        for variable in ["context", "namespace", "pod", "container"] {
            let asked = json!({
                "ref": {"type": "ref/resource", "uri": template},
                "argument": {"name": variable, "value": ""},
                "context": {"arguments": {"context": "dev", "namespace": SPACE, "pod": "leaky-met-00"}},
            });
            let completed = http.rpc("completion/complete", asked).await;
            secrets.are_not_in_message("a completion", &completed);
        }
    }
    for (uri, shows) in read {
        for answer in [
            http.rpc("resources/read", json!({"uri": uri})).await,
            read_modern(http, &uri).await,
        ] {
            assert!(
                answer.to_string().contains(&shows),
                "{uri} met no `{shows}`: {answer}"
            );
            secrets.are_not_in_message(&uri, &answer);
        }
    }
}

async fn prompts_are_clean(http: &Http, secrets: &Secrets, faults: &[String]) {
    let listed = http.rpc("prompts/list", json!({})).await;
    secrets.are_not_in_message("prompts/list", &listed);
    for prompt in listed["result"]["prompts"].as_array().unwrap() {
        let name = prompt["name"].as_str().unwrap();
        for (arguments, shows) in prompts(name, &secrets.packs, faults) {
            let asked = json!({"name": name, "arguments": arguments});
            let filled = http.rpc("prompts/get", asked).await;
            assert!(
                filled.to_string().contains(shows),
                "{name} met nothing: {filled}"
            );
            secrets.are_not_in_message(name, &filled);
        }
        for argument in prompt["arguments"].as_array().into_iter().flatten() {
            let asked = json!({
                "ref": {"type": "ref/prompt", "name": name},
                "argument": {"name": argument["name"], "value": ""},
                "context": {"arguments": {"namespace": SPACE}},
            });
            let completed = http.rpc("completion/complete", asked).await;
            secrets.are_not_in_message("a completion", &completed);
        }
    }
}

/// Followed logs, events and the graph, in a session and in a listen of the newest protocol.
async fn updates_are_clean(http: &Http, cluster: &Cluster, secrets: &Secrets) {
    // Two packs for each log: a caller follows a share of them at most. Their pods run.
    let mut followed = Vec::new();
    for number in 0..secrets.packs.len().div_ceil(2) {
        let name = format!("followed-{number}");
        cluster.create(&pod(SPACE, &name, &["app"])).await.unwrap();
        let log = LogScript::lines(["listening"]);
        cluster.node().set_log(&format!("{SPACE}/{name}/app"), log);
        followed.push(name);
    }
    let uri = |name: &String| format!("k8s://dev/{SPACE}/pods/{name}/logs/app");
    let mut starting: Vec<_> = followed.iter().map(uri).collect();
    let mut uris = starting.clone();
    uris.extend(["events", "graph"].map(|what| format!("k8s://dev/{SPACE}/{what}")));
    let session = http.another("2025-11-25").await;
    let mut updates = UpdateStream::of(&session).await;
    for uri in &uris {
        subscribe(&session, uri).await;
    }
    while !starting.is_empty() {
        let (uri, _) = updates.update().await;
        starting.retain(|one| *one != uri);
    }
    let borrowed: Vec<_> = uris.iter().map(String::as_str).collect();
    let mut listen = UpdateStream::listen(http, &borrowed).await;
    let mut awaited = Vec::new();
    for (number, pack) in secrets.packs.iter().enumerate() {
        let name = &followed[number / 2];
        let end = format!("that was all of {}", pack.marker);
        for line in pack.text.lines().chain([end.as_str()]) {
            cluster.node().append(&format!("{SPACE}/{name}/app"), line);
        }
        let object = format!("Pod/{}", pod_of(pack));
        let again = event(SPACE, &object, "Warning", "Again", &marked("again", pack));
        cluster.create(&again).await.unwrap();
        let path = format!("/api/v1/namespaces/{SPACE}/pods/{}", pod_of(pack));
        let labels = json!({"metadata": {"labels": {"seen": &pack.marker}}});
        cluster.send("PATCH", &path, &labels).await.unwrap();
        // The end of the second pack shows that the first was sent.
        if number % 2 == 1 || number + 1 == secrets.packs.len() {
            awaited.push(end);
        }
    }
    for (what, stream) in [
        ("an update", &mut updates),
        ("an update of a listen", &mut listen),
    ] {
        let mut awaited = awaited.clone();
        while !awaited.is_empty() {
            let next = timeout(TIMEOUT / 2, stream.update()).await;
            let (uri, update) = next.unwrap_or_else(|_| panic!("no {what} with {awaited:?}"));
            secrets.are_not_in_message(&format!("{what} of {uri}"), &update);
            let text = update.to_string();
            awaited.retain(|end| !text.contains(end));
        }
    }
    for uri in uris {
        session
            .rpc("resources/unsubscribe", json!({"uri": uri}))
            .await;
    }
}

/// `kubecrier watch`, as text and as JSON, of events, of faults and of incidents.
async fn watches_are_clean(kubeconfig: &Path, cluster: &Cluster, secrets: &Secrets) {
    for (number, (output, faults)) in [
        ("text", None),
        ("json", None),
        ("text", Some("--faults")),
        ("json", Some("--faults")),
    ]
    .into_iter()
    .enumerate()
    {
        let mut watch = command();
        watch.arg("watch").arg("--kubeconfig").arg(kubeconfig);
        watch.args(["-n", SPACE, "--since", "1h", "--log-lines", "100"]);
        watch.args(["-o", output]).args(faults);
        let mut watch = Watch::start(&mut watch);
        let mut awaited = Vec::new();
        for pack in &secrets.packs {
            let (name, reason) = (pod_of(pack), format!("Watched{number}"));
            let (object, text) = (format!("Pod/{name}"), marked("watched", pack));
            let one = event(SPACE, &object, "Warning", &reason, &text);
            cluster.create(&one).await.unwrap();
            awaited.push((name, reason));
        }
        while !awaited.is_empty() {
            let line = watch.line();
            secrets.are_not_in(&format!("watch -o {output}"), &line);
            awaited.retain(|(name, reason)| !(line.contains(name) && line.contains(reason)));
        }
        secrets.are_not_in("the log of watch", &watch.server.log());
    }
    for output in ["text", "json"] {
        let mut watch = command();
        watch.arg("watch").arg("--kubeconfig").arg(kubeconfig);
        watch.args(["-n", SPACE, "--incidents", "-o", output]);
        let mut watch = Watch::start(&mut watch);
        for _ in &secrets.packs {
            let line = watch.line();
            assert!(line.contains("-met-"), "{line}");
            secrets.are_not_in(&format!("watch --incidents -o {output}"), &line);
        }
    }
}

#[tokio::test]
async fn no_exit_lets_a_secret_of_the_corpus_out() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.dev();
    let secrets = Secrets::choose(160);
    cluster
        .create_cluster_wide(&namespace(SPACE))
        .await
        .unwrap();
    define_kind(cluster).await;
    for pack in &secrets.packs {
        plant(cluster, pack, &secrets.alone).await;
    }
    let file = one_context(cluster, User::Admin);
    let held = tempfile::tempdir().unwrap();
    let history = held.path().join("history");
    let arguments = [
        "--log-level",
        "debug",
        "--history",
        history.to_str().unwrap(),
    ];
    let http = Http::start(&file.path, &arguments).await;
    pushes_are_clean(&http, cluster, &secrets).await;
    tools_are_clean(&http, &secrets).await;
    let faults = faults_are_clean(&http, &secrets).await;
    resources_are_clean(&http, &secrets).await;
    prompts_are_clean(&http, &secrets, &faults).await;
    updates_are_clean(&http, cluster, &secrets).await;
    watches_are_clean(&file.path, cluster, &secrets).await;
    for path in ["/stats", "/metrics"] {
        let page = http.get(path).await.text().await.unwrap();
        secrets.are_not_in(path, &page);
    }
    secrets.are_not_in("the log", &http.server.log());
    // Stopped, so that all of it is on the disk.
    let Http { mut server, .. } = http;
    server.signal(rustix::process::Signal::TERM);
    assert!(server.exit().await.success());
    let http = Http::start(&file.path, &arguments).await;
    what_was_kept_is_clean(&http, &secrets, &faults).await;
    let Http { mut server, .. } = http;
    server.signal(rustix::process::Signal::TERM);
    assert!(server.exit().await.success());
    the_disk_is_clean(&history, &secrets).await;
}

/// Records as they are on the disk: what is shown of them is redacted once more.
async fn the_disk_is_clean(folder: &Path, secrets: &Secrets) {
    let store = Store::open(folder).unwrap();
    let mut met = 0;
    for cluster in store.clusters().unwrap() {
        for stream in Stream::ALL {
            let page = store.read_from(&cluster, stream, Position::default(), usize::MAX);
            for (_, record) in page.unwrap().records {
                let Record {
                    id,
                    namespace,
                    reason,
                    object_name,
                    value,
                    ..
                } = &record;
                let value = str::from_utf8(value).unwrap();
                met += usize::from(value.contains("-met-"));
                let words = [id, namespace, reason, object_name].map(String::as_str);
                let text = format!("{} {value}", words.join(" "));
                secrets.are_not_in(&format!("a record of {stream:?}"), &text);
            }
        }
    }
    assert!(met > 3 * secrets.packs.len(), "{met}");
    drop(store);
    let config = HistoryConfig {
        folder: folder.to_owned(),
        retention: Retention::default(),
    };
    let (history, _writer) = History::open(config).unwrap();
    let sessions = history.registry().list("").await.unwrap();
    assert!(!sessions.is_empty());
    for (key, entry) in sessions {
        let text = String::from_utf8_lossy(&entry.value);
        secrets.are_not_in("a record of a session", &format!("{key} {text}"));
    }
}

/// What the process before has kept: events, incidents, and the evidence of faults.
async fn what_was_kept_is_clean(http: &Http, secrets: &Secrets, faults: &[String]) {
    for (tool, shows) in [("events_list", "-met-"), ("faults_list", "leaky-met-")] {
        let arguments = json!({"namespace": SPACE, "since": "2d", "limit": 200});
        let asked = json!({"name": tool, "arguments": arguments});
        let kept = http.rpc("tools/call", asked).await;
        assert!(kept.to_string().contains(shows), "{kept}");
        secrets.are_not_in_message(tool, &kept);
    }
    for id in faults {
        let asked = json!({"faultId": id, "namespace": SPACE});
        let asked = json!({"name": "faults_get", "arguments": asked});
        let evidence = http.rpc("tools/call", asked).await;
        assert!(evidence.to_string().contains("-met-"), "{evidence}");
        secrets.are_not_in_message("faults_get of what was kept", &evidence);
    }
    let url = format!("{}/mcp", http.base);
    for output in ["text", "json"] {
        let mut watch = command();
        watch.args(["watch", "--url", &url, "-n", SPACE]);
        watch.args(["--incidents", "--since", "2d", "-o", output]);
        let mut watch = Watch::start(&mut watch);
        for _ in &secrets.packs {
            let line = watch.line();
            secrets.are_not_in(&format!("watch --incidents --since -o {output}"), &line);
        }
    }
}

#[tokio::test]
async fn every_capability_has_its_exits_in_these_tests() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let greeting = http.fresh(&initialize(version)).await;
        let greeting = message(&greeting.text().await.unwrap());
        knows_capabilities(&greeting["result"]["capabilities"]);
    }
    let discovered = http.modern("server/discover", None, json!({})).await;
    let discovered = message(&discovered.text().await.unwrap());
    knows_capabilities(&discovered["result"]["capabilities"]);
}
