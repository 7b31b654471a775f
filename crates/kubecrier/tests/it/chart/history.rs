//! The folder of the history: a claim, or a part of the node's disk.

use serde_json::{Value, json};

use super::{
    least, refusal,
    rendered::{Rendered, on_top_of},
};

fn with(history: &Value) -> Value {
    on_top_of(&least(), &json!({"history": history}))
}

fn volume(rendered: &Rendered) -> Value {
    let pod = &rendered.one("Deployment", "crier-kubecrier")["spec"]["template"]["spec"];
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == "history");
    assert_eq!(mount.unwrap()["mountPath"], "/var/lib/kubecrier");
    let volumes = pod["volumes"].as_array().unwrap();
    let mut history = volumes.iter().filter(|volume| volume["name"] == "history");
    history.next().unwrap().clone()
}

#[test]
fn a_history_has_a_claim_that_outlives_the_release() {
    let Some(rendered) = Rendered::of("tools", &with(&json!({"enabled": true}))) else {
        return;
    };
    let claim = rendered.one("PersistentVolumeClaim", "crier-kubecrier-history");
    assert_eq!(
        claim["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
    assert_eq!(claim["spec"].get("storageClassName"), None);
    let volume_of = |rendered| volume(rendered)["persistentVolumeClaim"]["claimName"].clone();
    assert_eq!(volume_of(&rendered), "crier-kubecrier-history");
    let deployment = rendered.one("Deployment", "crier-kubecrier");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    // The server takes the settings.
    let settings: kubecrier::cli::Settings = rendered.settings().try_into().unwrap();
    let config = kubecrier::config::Config::try_from(settings).unwrap();
    let history = config.history.unwrap();
    assert_eq!(history.folder.to_str(), Some("/var/lib/kubecrier/history"));
    assert_eq!(history.retention.bytes_max, 1 << 30);
    let own = json!({"enabled": true, "existingClaim": "mine", "maxAge": "30d", "maxBytes": 5_000_000_000_u64});
    let own = Rendered::of("tools", &with(&own)).unwrap();
    assert_eq!(volume_of(&own), "mine");
    assert!(
        own.objects
            .iter()
            .all(|one| one["kind"] != "PersistentVolumeClaim")
    );
    assert_eq!(own.settings()["history_max_age"].as_str(), Some("30d"));
    assert_eq!(
        own.settings()["history_max_bytes"].as_integer(),
        Some(5_000_000_000)
    );
    let lost = Rendered::of(
        "tools",
        &with(&json!({"enabled": true, "persistent": false})),
    );
    assert_eq!(volume(&lost.unwrap())["emptyDir"]["sizeLimit"], "2Gi");
}

#[test]
fn without_it_nothing_is_made_and_what_cannot_be_is_refused() {
    let Some(rendered) = Rendered::of("tools", &least()) else {
        return;
    };
    assert!(!rendered.settings().contains_key("history"));
    let text = format!("{:?}", rendered.objects);
    assert!(
        !text.contains("history") && !text.contains("Recreate"),
        "{text}"
    );
    for (wrong, words) in [
        (
            json!({"replicas": 2, "history": {"enabled": true}}),
            "replicas=1",
        ),
        (
            json!({"replicas": 2, "history": {"enabled": true, "persistent": false}}),
            "clusterStore",
        ),
        (
            json!({
                "replicas": 2, "history": {"enabled": true},
                "clusterStore": {"servers": ["nats://nats:4222"]},
            }),
            "history.persistent=false",
        ),
        (
            json!({"history": {"enabled": true, "persistent": false, "existingClaim": "mine"}}),
            "history.persistent=true",
        ),
        (json!({"history": {"maxBytes": 5}}), "maxBytes"),
        (json!({"history": {"maxAge": "a week"}}), "maxAge"),
        (json!({"settings": {"history": "/tmp"}}), "history"),
    ] {
        let text = refusal(&on_top_of(&least(), &wrong)).unwrap();
        assert!(text.contains(words), "no {words} in {text}");
    }
}

#[test]
fn replicas_with_a_store_have_a_folder_each() {
    let some = json!({
        "replicas": 3, "history": {"enabled": true, "persistent": false},
        "clusterStore": {"servers": ["nats://nats:4222"]},
    });
    let Some(rendered) = Rendered::of("tools", &on_top_of(&least(), &some)) else {
        return;
    };
    assert_eq!(volume(&rendered)["emptyDir"]["sizeLimit"], "2Gi");
    let deployment = rendered.one("Deployment", "crier-kubecrier");
    assert_eq!(deployment["spec"]["replicas"], 3);
    // No pod waits for the folder of another one.
    assert_eq!(deployment["spec"].get("strategy"), None);
}
