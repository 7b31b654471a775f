//! Types, kinds and levels: what they let through, and what not.

use std::collections::BTreeMap;

use serde_json::json;
use testbed::{User, event};

use super::{space, until_last_seq, warn};
use crate::harness::{Http, Subscriber, kubeconfig, one_context};

/// S3-2, S3-3, S3-6: document 3's own filters, and one more.
#[tokio::test]
async fn a_type_and_a_kind_are_echoed_and_keep_out_the_rest() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let warnings = json!({"cluster": "dev", "namespace": "kube-system", "type": "Warning"});
    let mut of_pods = warnings.clone();
    of_pods["involvedKind"] = json!("Pod");
    let mut ids = Vec::new();
    for (arguments, filters) in [
        (
            warnings,
            json!({"namespaces": ["kube-system"], "types": ["Warning"]}),
        ),
        (
            of_pods,
            json!({"namespaces": ["kube-system"], "types": ["Warning"], "involvedKind": "Pod"}),
        ),
    ] {
        let made = http.call("events_subscribe", arguments).await.ok().data;
        assert_eq!(made["filters"], filters);
        assert_eq!(
            (&made["mode"], &made["cluster"], &made["status"]),
            (&json!("events"), &json!("dev"), &json!("active"))
        );
        ids.push(made["subscriptionId"].as_str().unwrap().to_owned());
    }
    assert_ne!(ids[0], ids[1], "each has an id of its own");
    for (kind, object, reason) in [
        ("Normal", "Pod/dns-0", "Pulled"),
        ("Warning", "ConfigMap/dns", "Ignored"),
        ("Warning", "Pod/dns-0", "BackOff"),
        ("Warning", "Pod/dns-0", "Marker"),
    ] {
        let one = event("kube-system", object, kind, reason, "x");
        bed.dev().create(&one).await.unwrap();
    }
    let mut received: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..5 {
        let message = client.message().await;
        assert_eq!(message["level"], "info", "of warnings too");
        let data = &message["data"];
        assert_eq!(data["event"]["type"], "Warning", "{data}");
        let id = data["subscriptionId"].as_str().unwrap().to_owned();
        let reason = data["event"]["reason"].as_str().unwrap().to_owned();
        received.entry(id).or_default().push(reason);
    }
    assert_eq!(received[&ids[0]], ["Ignored", "BackOff", "Marker"]);
    assert_eq!(received[&ids[1]], ["BackOff", "Marker"], "of pods only");
}

/// S2-31: one session hears what the other has silenced, and the other way round.
#[tokio::test]
async fn each_session_has_a_level_of_its_own() {
    let Some(bed) = testbed::shared() else { return };
    space(bed.dev(), "sub-levels").await;
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let second = http.another("2025-11-25").await;
    let mut one = Subscriber::at(&http, Some("info")).await;
    let mut two = Subscriber::at(&second, Some("error")).await;
    let filters = json!({"namespace": "sub-levels"});
    let (first_id, second_id) = (
        one.subscribe(filters.clone()).await,
        two.subscribe(filters).await,
    );
    let level = async |session: &crate::harness::HttpSession, level: &str| {
        session
            .rpc("logging/setLevel", json!({"level": level}))
            .await;
    };
    let reason = |data: serde_json::Value| data["event"]["reason"].clone();
    warn(bed.dev(), "sub-levels", "Pod/web-0", "First").await;
    assert_eq!(reason(one.event(&first_id).await), "First");
    until_last_seq(&second, 1).await;
    level(&second, "info").await;
    level(&http, "error").await;
    warn(bed.dev(), "sub-levels", "Pod/web-0", "Second").await;
    assert_eq!(
        reason(two.event(&second_id).await),
        "Second",
        "not the first"
    );
    until_last_seq(&http, 2).await;
    level(&http, "info").await;
    warn(bed.dev(), "sub-levels", "Pod/web-0", "Third").await;
    assert_eq!(
        reason(one.event(&first_id).await),
        "Third",
        "not the second"
    );
}

/// S3-60: both at once, with the same filters: each has its own events, all and in order.
#[tokio::test]
async fn two_clusters_at_once_stay_apart() {
    let Some(bed) = testbed::shared() else { return };
    for cluster in [bed.dev(), bed.prod()] {
        space(cluster, "sub-twins").await;
    }
    let file = kubeconfig(|file| {
        file.context("dev", bed.dev(), User::Reader)
            .context("prod", bed.prod(), User::Reader)
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let mut client = Subscriber::new(&http).await;
    let all = |cluster: &str| json!({"cluster": cluster, "namespace": "sub-twins"});
    let (in_dev, in_prod) = (
        client.subscribe(all("dev")).await,
        client.subscribe(all("prod")).await,
    );
    let many = async |cluster, name: &str| {
        for nth in 0..10 {
            warn(cluster, "sub-twins", "Pod/web-0", &format!("{name}{nth}")).await;
        }
    };
    tokio::join!(many(bed.dev(), "dev"), many(bed.prod(), "prod"));
    let mut received = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        let data = client.message().await["data"].clone();
        let (at, id, name) = match data["cluster"].as_str().unwrap() {
            "dev" => (0, &in_dev, "dev"),
            _ => (1, &in_prod, "prod"),
        };
        assert_eq!(data["subscriptionId"], **id, "{data}");
        let reason = data["event"]["reason"].as_str().unwrap();
        received[at].push(reason.strip_prefix(name).unwrap().to_owned());
    }
    let expected: Vec<_> = (0..10).map(|nth| nth.to_string()).collect();
    assert_eq!(received, [expected.clone(), expected]);
}
