//! The hosts that clients may name: those that the chart knows, as the server takes them.

use serde_json::{Value, json};

use super::{
    least, notes, refusal,
    rendered::{Rendered, on_top_of},
};

fn ingress(hosts: &[&str]) -> Value {
    json!({"ingress": {"enabled": true, "hosts": hosts}})
}

fn route(hostnames: &[&str]) -> Value {
    let route =
        json!({"enabled": true, "parentRefs": [{"name": "gateway"}], "hostnames": hostnames});
    json!({"httpRoute": route})
}

/// The hosts in the settings, which the server has taken.
fn hosts(values: &Value) -> Option<Vec<String>> {
    let rendered = Rendered::of("tools", values)?;
    let text = &rendered.settings()["allowed_hosts"];
    let hosts: Vec<String> = text.clone().try_into().unwrap();
    let settings: kubecrier::cli::Settings = rendered.settings().try_into().unwrap();
    kubecrier::config::Config::try_from(settings).unwrap();
    let service = "crier-kubecrier.tools.svc.cluster.local";
    let services = hosts.iter().position(|host| host == service).unwrap();
    Some(hosts[services + 1..].to_vec())
}

#[test]
fn a_pattern_of_hosts_is_left_to_the_ingress_and_the_gateway() {
    let outside = on_top_of(
        &ingress(&["*.apps.example", "crier.example"]),
        &route(&["*.gateway.example", "crier.gateway.example"]),
    );
    let named = json!({"allowedHosts": ["crier.apps.example"]});
    let values = on_top_of(&on_top_of(&least(), &outside), &named);
    let Some(hosts) = hosts(&values) else { return };
    assert_eq!(
        hosts,
        [
            "crier.example",
            "crier.gateway.example",
            "crier.apps.example"
        ]
    );
    let rendered = Rendered::of("tools", &values).unwrap();
    let rules = &rendered.one("Ingress", "crier-kubecrier")["spec"]["rules"];
    assert_eq!(rules[0]["host"], "*.apps.example");
    let route = &rendered.one("HTTPRoute", "crier-kubecrier")["spec"];
    assert_eq!(route["hostnames"][0], "*.gateway.example");
    let notes = notes(&values).unwrap();
    assert!(
        notes.contains("http://crier.example/mcp")
            && notes.contains("\n  crier.gateway.example/mcp"),
        "{notes}"
    );
    assert!(!notes.contains('*'), "{notes}");
}

/// The server would answer everyone from outside with 403.
#[test]
fn hosts_that_nobody_has_named_are_asked_for() {
    for (values, words) in [
        (ingress(&["crier.example", "*.example"]), "*.example stands"),
        (route(&["*.example"]), "*.example stands"),
        (route(&[]), "httpRoute.hostnames is empty"),
    ] {
        let values = on_top_of(&least(), &values);
        let Some(text) = refusal(&values) else { return };
        assert!(
            text.contains(words) && text.contains("allowedHosts"),
            "no {words} in {text}"
        );
        let named = on_top_of(&values, &json!({"allowedHosts": ["crier.example"]}));
        assert_eq!(hosts(&named).unwrap(), ["crier.example"]);
        // Clients come by the public URL, whose host the server knows.
        let oauth = json!({"auth": {"clusterIdentity": "shared", "oauth": {
            "issuers": ["https://id.example"], "publicUrl": "https://crier.example",
        }}});
        Rendered::of("tools", &on_top_of(&values, &oauth)).unwrap();
    }
}

#[test]
fn what_the_server_would_refuse_as_a_host_is_refused() {
    for wrong in ["*.example", "https://crier.example", "a@b", "a b", ""] {
        let values = on_top_of(&least(), &json!({"allowedHosts": [wrong]}));
        let Some(text) = refusal(&values) else { return };
        assert!(text.contains("allowedHosts"), "{wrong}: {text}");
    }
    let any = on_top_of(&least(), &json!({"allowedHosts": ["*"]}));
    assert_eq!(hosts(&any).unwrap(), ["*"]);
    let proxy = json!({"userHeader": "X-User", "trustedProxies": ["10.0.0.0/8"]});
    let proxied = on_top_of(&any, &json!({"auth": {"proxy": proxy}}));
    let text = refusal(&proxied).unwrap();
    assert!(text.contains("only without auth.proxy"), "{text}");
}
