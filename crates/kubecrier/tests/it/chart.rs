//! The Helm chart, rendered by helm: what it refuses, and what it makes.

mod acting;
mod applied;
mod cluster_store;
mod first_screen;
mod history;
mod hosts;
mod monitoring;
mod oauth;
mod objects;
pub(crate) mod rendered;

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use serde_json::{Value, json};

use self::rendered::{Rendered, chart_folder, helm, on_top_of};

/// Every object that the chart can make.
pub(crate) fn everything() -> Value {
    json!({
        "image": {"repository": "registry.example/kubecrier"},
        "auth": {"tokens": {"values": {"ann": "0123456789abcdef"}},
                 "proxy": {"userHeader": "X-Forwarded-User", "trustedProxies": ["10.0.0.0/8"]}},
        "rbac": {"extraRules": [
            {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list"]},
        ]},
        "serviceAccount": {"annotations": {"example.com/owner": "platform"}},
        "settings": {"denied_kinds": ["Secret"], "drain_timeout_seconds": 20},
        "allowedHosts": ["crier.example"],
        "tls": {"secretName": "crier-tls"},
        "ingress": {"enabled": true, "className": "nginx", "hosts": ["crier.ingress.example"],
                    "tls": [{"hosts": ["crier.ingress.example"], "secretName": "crier-ingress"}]},
        "httpRoute": {"enabled": true, "parentRefs": [{"name": "gateway"}],
                      "hostnames": ["crier.gateway.example"]},
        "metrics": {"port": 9090, "serviceMonitor": {"enabled": true},
                    "prometheusRule": {"enabled": true}, "dashboard": {"enabled": true}},
        "networkPolicy": {"enabled": true,
                          "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]},
        "podDisruptionBudget": {"enabled": true},
        "history": {"enabled": true, "storageClassName": "fast"},
        "clusterStore": {"servers": ["nats://nats.nats.svc:4222"], "ca": {"configMap": "nats-ca"},
                         "credentials": {"existingSecret": "nats"}},
        "podAnnotations": {"example.com/note": "x"},
        "podLabels": {"example.com/part": "x"},
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "node", "operator": "Exists"}],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    })
}

/// The least that renders.
pub(crate) fn least() -> Value {
    json!({
        "image": {"repository": "registry.example/kubecrier"},
        "auth": {"tokens": {"existingSecret": "crier-tokens"}},
    })
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    for values in [least(), everything()] {
        let Some(mut lint) = helm() else { return };
        let file = rendered::values_file(&values);
        let lint = lint
            .args(["lint", "--strict", "--values"])
            .arg(file.path())
            .arg(chart_folder());
        let done = lint.output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{text}");
        assert!(
            text.contains("1 chart(s) linted, 0 chart(s) failed"),
            "{text}"
        );
    }
}

#[test]
fn only_what_was_asked_for_is_made() {
    let Some(least) = Rendered::of("tools", &least()) else {
        return;
    };
    let kinds = |rendered: &Rendered| -> BTreeSet<String> {
        let kind = |object: &Value| object["kind"].as_str().unwrap().to_owned();
        rendered.objects.iter().map(kind).collect()
    };
    let expected = [
        "ConfigMap",
        "Deployment",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds(&least), expected.map(str::to_owned).into());
    let all = Rendered::of("tools", &everything()).unwrap();
    let more = [
        "HTTPRoute",
        "Ingress",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "PrometheusRule",
        "Secret",
        "ServiceMonitor",
    ];
    let both = expected.into_iter().chain(more).map(str::to_owned);
    assert_eq!(kinds(&all), both.collect());
    for rendered in [&least, &all] {
        for object in &rendered.objects {
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/instance"], "crier", "{object}");
        }
    }
}

/// What helm says when it refuses these values.
fn refusal(values: &Value) -> Option<String> {
    let refused = Rendered::attempt("tools", values)?.err();
    Some(refused.unwrap_or_else(|| panic!("rendered: {values}")))
}

#[test]
fn a_reachable_server_without_authentication_does_not_render() {
    let nobody = json!({"image": {"repository": "registry.example/kubecrier"}});
    let Some(text) = refusal(&nobody) else { return };
    assert!(
        text.contains("nobody would have to say who they are"),
        "{text}"
    );
    let base = least();
    for (wrong, words) in [
        // Each way around it.
        (
            json!({"settings": {"allow_unauthenticated": true}}),
            "allow_unauthenticated",
        ),
        (
            json!({"settings": {"auth_token_file": "/dev/null"}}),
            "auth_token_file",
        ),
        (
            json!({"settings": {"admin_address": "0.0.0.0:1"}}),
            "admin_address",
        ),
        (
            json!({"extraEnv": [{"name": "KUBECRIER_ALLOW_UNAUTHENTICATED", "value": "true"}]}),
            "extraEnv",
        ),
        (
            json!({"metrics": {"port": 9090}}),
            "set networkPolicy.enabled",
        ),
        (
            json!({"auth": {"proxy": {"userHeader": "X-User"}}}),
            "trustedProxies",
        ),
    ] {
        let text = refusal(&on_top_of(&base, &wrong)).unwrap();
        assert!(text.contains(words), "no {words} in {text}");
    }
    let proxy = json!({"userHeader": "X-User", "trustedProxies": ["10.0.0.0/8"]});
    let proxied = on_top_of(&nobody, &json!({"auth": {"proxy": proxy}}));
    let rendered = Rendered::of("tools", &proxied).unwrap();
    assert!(rendered.settings().contains_key("trusted_proxies"));
    assert!(!rendered.settings().contains_key("auth_token_file"));
}

#[test]
fn sinks_are_settings_that_the_server_takes() {
    let sinks = json!({"settings": {
        "sink_allow": ["alertmanager-operated.monitoring.svc"],
        "sink": [
            {"kind": "alertmanager", "url": "http://alertmanager-operated.monitoring.svc:9093",
             "labels": {"cluster": "prod-eu"}},
            {"kind": "cloudevents", "url": "https://events.example/hook",
             "signing_secret_env": "HOOK_SECRETS", "severity": "critical", "queue_max": 2000},
        ],
    }});
    let Some(rendered) = Rendered::of("tools", &on_top_of(&least(), &sinks)) else {
        return;
    };
    let settings: kubecrier::cli::Settings = rendered.settings().try_into().unwrap();
    let config = kubecrier::config::Config::try_from(settings).unwrap();
    let names: Vec<_> = config.sinks.iter().map(|sink| &*sink.name).collect();
    assert_eq!(names, ["alertmanager-1", "cloudevents-2"]);
}

#[test]
fn a_value_that_makes_no_sense_is_refused_by_name() {
    let base = least();
    for (wrong, words) in [
        (
            json!({"image": {"repository": ""}}),
            "image.repository is empty",
        ),
        (json!({"relicas": 2}), "relicas"),
        (json!({"rbac": {"scope": "all"}}), "scope"),
        (
            json!({"rbac": {"scope": "namespaces"}}),
            "rbac.namespaces is empty",
        ),
        (
            json!({"rbac": {"namespaces": ["a"]}}),
            "rbac.scope=namespaces",
        ),
        (
            json!({"rbac": {"extraRules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]}}),
            "verbs",
        ),
        (
            json!({"auth": {"tokens": {"values": {"ann": "short"}}}}),
            "ann",
        ),
        (
            json!({"auth": {"tokens": {"values": {"ann": "0123456789abcdef"}}}}),
            "exclude each other",
        ),
        (
            json!({"metrics": {"serviceMonitor": {"enabled": true}}}),
            "needs a token",
        ),
        (
            json!({"ingress": {"enabled": true}}),
            "ingress.hosts is empty",
        ),
        (
            json!({"httpRoute": {"enabled": true}}),
            "httpRoute.parentRefs is empty",
        ),
        (
            json!({"settings": {"denied-kinds": ["Secret"]}}),
            "denied-kinds",
        ),
    ] {
        let Some(text) = refusal(&on_top_of(&base, &wrong)) else {
            return;
        };
        assert!(text.contains(words), "no {words} in {text}");
    }
}

/// What helm says after an installation.
fn notes(values: &Value) -> Option<String> {
    let mut install = helm()?;
    let file = rendered::values_file(values);
    // A client-side dry run prints the notes.
    install
        .args([
            "install",
            "crier",
            "--dry-run=client",
            "--namespace",
            "tools",
            "--values",
        ])
        .arg(file.path())
        .arg(chart_folder());
    let done = install.env("KUBECONFIG", "/nonexistent").output().unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{error}");
    let text = String::from_utf8(done.stdout).unwrap();
    Some(text.split("NOTES:").nth(1).unwrap().to_owned())
}

#[test]
fn the_notes_say_how_to_connect_and_show_no_token() {
    let Some(notes) = notes(&everything()) else {
        return;
    };
    for part in [
        "https://crier-kubecrier.tools.svc:8080/mcp",
        "https://crier.ingress.example/mcp",
        "crier.gateway.example/mcp",
        "get secret crier-kubecrier-tokens",
        "{{ index .data \"tokens\" | base64decode }}",
        "claude mcp add",
        "exec deployment/crier-kubecrier -- kubecrier --config /etc/kubecrier/kubecrier.toml doctor",
    ] {
        assert!(notes.contains(part), "no {part} in {notes}");
    }
    assert!(!notes.contains("0123456789abcdef"), "{notes}");
}

/// A value without a schema, or a word of the schema without a value, is a mistake.
#[test]
fn the_schema_has_exactly_the_values_that_there_are() {
    fn compare(at: &str, values: &Value, schema: &Value) {
        let (Some(values), Some(known)) = (values.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        if at == ".settings" {
            return; // Its keys are those of the server.
        }
        let keys = |map: &serde_json::Map<String, Value>| -> BTreeSet<String> {
            map.keys().filter(|key| *key != "global").cloned().collect()
        };
        assert_eq!(keys(values), keys(known), "below {at}");
        assert_eq!(schema["additionalProperties"], false, "below {at}");
        for (key, value) in values {
            compare(&format!("{at}.{key}"), value, &known[key]);
        }
    }
    let read = |file: &str| fs::read_to_string(chart_folder().join(file)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    compare("", &values, &schema);
    // What the chart sets itself are settings of the server.
    let known = crate::harness::command().arg("schema").output().unwrap();
    let known: Value = serde_json::from_slice(&known.stdout).unwrap();
    let own = &schema["properties"]["settings"]["properties"];
    for (key, allowed) in own.as_object().unwrap() {
        assert_eq!(allowed, false, "{key}");
        assert!(
            known["properties"].get(key).is_some(),
            "no setting is called {key}"
        );
    }
}

/// The versions of the chart and of the server are one.
#[test]
fn the_chart_is_of_the_version_of_the_server() {
    let chart = fs::read_to_string(chart_folder().join("Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

/// The repository, which holds the chart.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A program of the testbed, or none where it is missing.
pub(crate) fn tool(tool: testbed::GoTool) -> Option<Command> {
    tool.command().inspect_err(testbed::skip).ok()
}
