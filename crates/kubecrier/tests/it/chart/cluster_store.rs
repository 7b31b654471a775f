//! Pods that work together over NATS.

use serde_json::json;

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
    assert_eq!(store.fleet, "tools-crier");
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
    ] {
        let Some(text) = refusal(&on_top_of(&least(), &wrong)) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
    }
}
