//! Pods that work together over NATS.

use std::collections::BTreeSet;

use clap::CommandFactory;
use serde_json::{Value, json};

use super::{
    least, refusal,
    rendered::{Rendered, on_top_of},
};

#[test]
fn pods_that_share_a_store_need_no_affinity() {
    let servers = json!(["nats://nats.nats.svc:4222"]);
    let values = json!({"replicas": 3, "clusterStore": {
        "servers": servers, "credentials": {"existingSecret": "nats"}, "ca": {"configMap": "ca"},
    }});
    let Some(rendered) = Rendered::of("tools", &on_top_of(&least(), &values)) else {
        return;
    };
    let service = rendered.one("Service", "crier-kubecrier");
    assert_eq!(service["spec"].get("sessionAffinity"), None);
    let alone = Rendered::of("tools", &on_top_of(&least(), &json!({"replicas": 3})));
    let alone = alone.unwrap();
    let service = alone.one("Service", "crier-kubecrier");
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP");
    assert!(!alone.settings().contains_key("cluster_store"));
    let pod = &rendered.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"];
    let sources = pod["volumes"][0]["projected"]["sources"].to_string();
    assert!(
        sources.contains("nats/nats.creds") && sources.contains("nats/ca.crt"),
        "{sources}"
    );
    // The server takes the settings.
    let settings: kubecrier::cli::Settings = rendered.settings().try_into().unwrap();
    let store = kubecrier::config::Config::try_from(settings).unwrap();
    let store = store.cluster_store.unwrap();
    assert_eq!(json!(store.servers), servers);
    assert!(store.fleet.starts_with("tools-crier-"), "{}", store.fleet);
    let folder = std::path::Path::new("/etc/kubecrier/nats");
    assert_eq!(store.credentials_file, Some(folder.join("nats.creds")));
    assert_eq!(store.ca_file, Some(folder.join("ca.crt")));
}

#[test]
fn a_store_that_cannot_be_is_refused() {
    for (wrong, words) in [
        (
            json!({"clusterStore": {"fleet": "x"}}),
            "clusterStore.servers",
        ),
        (
            json!({"clusterStore": {"servers": ["http://x"]}}),
            "servers",
        ),
        (
            json!({"settings": {"cluster_store": ["nats://x"]}}),
            "cluster_store",
        ),
        (
            json!({"clusterStore": {"servers": ["nats://x"], "serversSecret": {"name": "nats"}}}),
            "exclude each other",
        ),
        // A session is in one pod, and these send each request to any.
        (
            json!({"replicas": 2, "ingress": {"enabled": true, "hosts": ["crier.example"]}}),
            "clusterStore.servers, so that any pod",
        ),
        (
            json!({"replicas": 2, "httpRoute": {"enabled": true, "parentRefs": [{"name": "gateway"}]}}),
            "clusterStore.servers, so that any pod",
        ),
    ] {
        let Some(text) = refusal(&on_top_of(&least(), &wrong)) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
    }
}

/// The settings are in a ConfigMap, which is read by more people than a Secret.
#[test]
fn no_password_gets_into_the_config_map() {
    let servers = |url: &str| json!({"clusterStore": {"servers": ["nats://nats:4222", url]}});
    let sink = |url: &str| json!({"settings": {"sink": [{"kind": "cloudevents", "url": url}]}});
    for (wrong, words) in [
        (
            servers("nats://ann:hidden-word@nats:4222"),
            "clusterStore.serversSecret",
        ),
        (
            servers("tls://hidden-word@nats:4222"),
            "clusterStore.serversSecret",
        ),
        (
            sink("https://ann:hidden-word@events.example/hook"),
            "ConfigMap",
        ),
        (sink("https://ann:hidden,word@events.example"), "ConfigMap"),
    ] {
        let Some(text) = refusal(&on_top_of(&least(), &wrong)) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
        assert!(!text.contains("hidden"), "{text}");
    }
    // Neither is one.
    let harmless = sink("https://events.example/@ann?to=ann@events.example");
    Rendered::of("tools", &on_top_of(&least(), &harmless)).unwrap();
}

#[test]
fn urls_with_credentials_come_from_a_secret() {
    let store = json!({"replicas": 3, "clusterStore": {"serversSecret": {"name": "nats"}},
                       "extraEnv": [{"name": "TZ", "value": "UTC"}],
                       "ingress": {"enabled": true, "hosts": ["crier.example"]}});
    let Some(rendered) = Rendered::of("tools", &on_top_of(&least(), &store)) else {
        return;
    };
    let container =
        &rendered.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"]["containers"][0];
    let expected = json!([
        {"name": "TZ", "value": "UTC"},
        {"name": "KUBECRIER_CLUSTER_STORE",
         "valueFrom": {"secretKeyRef": {"name": "nats", "key": "servers"}}},
    ]);
    assert_eq!(container["env"], expected);
    let settings = rendered.settings();
    assert!(!settings.contains_key("cluster_store"));
    // The file and the setting of that variable together are what the server takes.
    let cli = kubecrier::cli::Args::command();
    let mut arguments = cli.get_arguments();
    let setting = arguments.find(|one| one.get_long() == Some("cluster-store"));
    assert_eq!(
        setting.unwrap().get_env(),
        Some("KUBECRIER_CLUSTER_STORE".as_ref())
    );
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), settings.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let urls = "nats://a:b@one:4222,nats://a:b@two:4222";
    let arguments = ["kubecrier", "--config", path, "--cluster-store", urls];
    let config = kubecrier::config::Config::load(arguments.map(Into::into), []).unwrap();
    let store = config.cluster_store.unwrap();
    assert_eq!(store.servers.len(), 2);
    assert!(store.fleet.starts_with("tools-crier-"), "{}", store.fleet);
}

/// Servers of one fleet share their sessions: no two releases may have one by chance.
#[test]
fn every_release_has_a_fleet_of_its_own() {
    let store = json!({"clusterStore": {"servers": ["nats://nats:4222"]}});
    let values = on_top_of(&least(), &store);
    let long = "n".repeat(62);
    let releases = [
        ("c", "a-b"),
        ("b-c", "a"),
        ("crier", &format!("{long}a")),
        ("crier", &format!("{long}b")),
        ("crier.eu", "tools"),
        ("crier-eu", "tools"),
    ];
    let mut fleets = BTreeSet::new();
    for (name, namespace) in releases {
        let Some(rendered) = Rendered::release(name, namespace, &values) else {
            return;
        };
        let settings: kubecrier::cli::Settings = rendered.settings().try_into().unwrap();
        let config = kubecrier::config::Config::try_from(settings).unwrap();
        let fleet = config.cluster_store.unwrap().fleet;
        assert!(fleets.insert(fleet.clone()), "{fleet} twice");
    }
    let named = on_top_of(&values, &json!({"clusterStore": {"fleet": "eu"}}));
    let named = Rendered::of("tools", &named).unwrap();
    assert_eq!(named.settings()["cluster_store_fleet"].as_str(), Some("eu"));
}

/// Roles outside the release's namespace, which others may share.
#[test]
fn every_release_has_roles_of_its_own() {
    let acting = json!({"auth": {"clusterIdentity": "impersonate"}});
    let long = "n".repeat(62);
    let (long_a, long_b) = (format!("{long}a"), format!("{long}b"));
    let mut seen = BTreeSet::new();
    for rbac in [
        json!({"scope": "namespaces", "namespaces": ["shared"]}),
        json!({"scope": "cluster"}),
    ] {
        let values = on_top_of(&on_top_of(&least(), &acting), &json!({"rbac": rbac}));
        for (name, namespace) in [
            ("kubecrier", "a-b"),
            ("b-kubecrier", "a"),
            ("crier", &long_a),
            ("crier", &long_b),
        ] {
            let Some(rendered) = Rendered::release(name, namespace, &values) else {
                return;
            };
            let is_role = |object: &&Value| object["kind"].as_str().unwrap().contains("Role");
            for role in rendered.objects.iter().filter(is_role) {
                // A release has one scope at a time, and its callers' role in both.
                let about = format!("{rbac} {} {}", role["kind"], role["metadata"]);
                let name = role["metadata"]["name"].as_str().unwrap();
                assert!(name.len() <= 253, "{name}");
                let key = (
                    rbac.to_string(),
                    role["kind"].to_string(),
                    role["metadata"]["namespace"].to_string(),
                    name.to_owned(),
                );
                assert!(seen.insert(key), "twice: {about}");
            }
        }
    }
    assert_eq!(seen.len(), 2 * 4 * 4);
}
