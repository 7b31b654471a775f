//! What the optional objects say: who may come in, what is scraped, how many pods may be away.

use serde_json::{Value, json};

use super::{
    everything, least,
    rendered::{Rendered, on_top_of},
};

const NAME: &str = "crier-kubecrier";

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "kubecrier", "app.kubernetes.io/instance": "crier"})
}

/// Whether an object with these labels is selected.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    wanted.iter().all(|(key, value)| labels[key] == *value)
}

#[test]
fn the_network_policy_lets_in_who_is_named_and_nobody_else_to_the_metrics() {
    let Some(all) = Rendered::of("tools", &everything()) else {
        return;
    };
    let ops = json!({"namespaceSelector": {"matchLabels": {"team": "ops"}}});
    let clients = json!({"ports": [{"port": 8080}], "from": [{"namespaceSelector": {}}]});
    let metrics = json!({"ports": [{"port": 9090}], "from": [ops]});
    let expected = |ingress: Value| {
        let pods = json!({"matchLabels": labels()});
        json!({"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress})
    };
    let policy = |rendered: &Rendered| rendered.one("NetworkPolicy", NAME)["spec"].clone();
    assert_eq!(policy(&all), expected(json!([clients, metrics])));
    // Its ports are those of the container, and its pods those of the Deployment.
    let ports = json!([
        {"name": "https", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090},
    ]);
    assert_eq!(all.container()["ports"], ports);
    let deployment = &all.one("Deployment", NAME)["spec"];
    assert_eq!(deployment["selector"]["matchLabels"], labels());
    assert!(selects(
        &labels(),
        &deployment["template"]["metadata"]["labels"]
    ));
    // Nobody is named for the metrics; somebody is for the rest.
    let few = json!({"networkPolicy": {"from": [{"podSelector": {}}], "metricsFrom": []}});
    let few = Rendered::of("tools", &on_top_of(&everything(), &few)).unwrap();
    let clients = json!({"ports": [{"port": 8080}], "from": [{"podSelector": {}}]});
    assert_eq!(policy(&few), expected(json!([clients])));
    // Without a port of their own there is nothing for who reads the metrics.
    let beside = json!({"metrics": {"port": 0, "serviceMonitor": {"enabled": false}}});
    let beside = Rendered::of("tools", &on_top_of(&everything(), &beside)).unwrap();
    let clients = json!({"ports": [{"port": 8080}], "from": [{"namespaceSelector": {}}]});
    assert_eq!(policy(&beside), expected(json!([clients])));
}

#[test]
fn the_disruption_budget_is_for_the_pods_of_the_release() {
    let Some(all) = Rendered::of("tools", &everything()) else {
        return;
    };
    let budget = &all.one("PodDisruptionBudget", NAME)["spec"];
    let expected = json!({"maxUnavailable": 1, "selector": {"matchLabels": labels()}});
    assert_eq!(*budget, expected);
}

/// The endpoint of the ServiceMonitor, which finds exactly one Service with its port.
fn endpoint(values: &Value) -> Option<Value> {
    let rendered = Rendered::of("tools", values)?;
    let monitor = &rendered.one("ServiceMonitor", NAME)["spec"];
    let selector = &monitor["selector"]["matchLabels"];
    assert!(selects(&labels(), selector), "of this release: {selector}");
    let services = rendered.objects.iter();
    let found: Vec<_> = services
        .filter(|object| object["kind"] == "Service")
        .filter(|service| selects(selector, &service["metadata"]["labels"]))
        .collect();
    let endpoints = monitor["endpoints"].as_array().unwrap();
    let [service] = found[..] else {
        panic!("{} Services: {selector}", found.len())
    };
    assert_eq!(endpoints.len(), 1);
    assert_eq!(service["spec"]["ports"][0]["name"], endpoints[0]["port"]);
    assert_eq!(service["spec"]["selector"], labels());
    Some(endpoints[0].clone())
}

#[test]
fn prometheus_scrapes_with_a_token_or_at_the_port_of_the_metrics() {
    let monitor = json!({"enabled": true, "interval": "1m", "tokenSecret": {"name": "scraper"}});
    let beside = on_top_of(&least(), &json!({"metrics": {"serviceMonitor": monitor}}));
    let Some(plain) = endpoint(&beside) else {
        return;
    };
    let token = json!({"credentials": {"name": "scraper", "key": "token"}});
    let expected = json!({
        "port": "http", "path": "/metrics", "interval": "1m", "scheme": "http", "authorization": token,
    });
    assert_eq!(plain, expected);
    let tls = json!({
        "serverName": "crier-kubecrier.tools.svc", "ca": {"secret": {"name": "crier-tls", "key": "ca.crt"}},
    });
    let secured = on_top_of(&beside, &json!({"tls": {"secretName": "crier-tls"}}));
    let expected = json!({
        "port": "https", "path": "/metrics", "interval": "1m", "scheme": "https", "tlsConfig": tls,
        "authorization": token,
    });
    assert_eq!(endpoint(&secured).unwrap(), expected);
    // Nobody needs a token at the port that only the NetworkPolicy opens.
    let expected = json!({
        "port": "metrics", "path": "/metrics", "interval": "30s", "scheme": "https", "tlsConfig": tls,
    });
    assert_eq!(endpoint(&everything()).unwrap(), expected);
}

#[test]
fn the_kubelet_probes_as_the_server_speaks() {
    let check = |values: &Value, name: &str, scheme: &str| -> Option<()> {
        let rendered = Rendered::of("tools", values)?;
        let container = rendered.container();
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let expected = json!({"path": path, "port": name, "scheme": scheme});
            assert_eq!(container[probe]["httpGet"], expected);
        }
        assert_eq!(container["ports"][0]["name"], name);
        let port = &rendered.one("Service", NAME)["spec"]["ports"][0];
        assert_eq!(
            *port,
            json!({"name": name, "port": 8080, "targetPort": name})
        );
        let has_certificate = rendered.settings().contains_key("tls_cert");
        assert_eq!(has_certificate, scheme == "HTTPS");
        Some(())
    };
    if check(&least(), "http", "HTTP").is_none() {
        return;
    }
    check(&everything(), "https", "HTTPS").unwrap();
}

#[test]
fn the_image_is_of_the_version_of_the_chart_or_the_one_that_is_named() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let version = env!("CARGO_PKG_VERSION");
    for (image, expected) in [
        (json!({}), format!("registry.example/kubecrier:{version}")),
        (
            json!({"tag": "edge"}),
            "registry.example/kubecrier:edge".to_owned(),
        ),
        (
            json!({"tag": "edge", "digest": digest}),
            format!("registry.example/kubecrier@{digest}"),
        ),
    ] {
        let values = on_top_of(&least(), &json!({"image": image}));
        let Some(rendered) = Rendered::of("tools", &values) else {
            return;
        };
        assert_eq!(rendered.container()["image"], expected);
    }
}
