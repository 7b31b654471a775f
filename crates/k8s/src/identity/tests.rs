use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Names that look like tokens to rules for free text.
const NASTY: [&str; 6] = [
    "sk-learn-inference-7d9f8c6b5d-abcde",
    "pypi-server-deployment-7c9d8f6b5c-x2x9k",
    "xoxb-123456789012-123456789012-abcdefghijkl",
    "glpat-abcdefghij0123456789",
    "token-password-6b7f9d8c5-secret",
    "sk-0123456789abcdef0123456789abcdef0123456789abcdef",
];

/// Redacts what the rules for free text take for tokens, whatever those rules are.
fn strict() -> Redactor {
    Redactor::new(&["(?:sk|pypi|xoxb|glpat|token)-[a-z0-9-]+".to_owned()]).unwrap()
}

fn walked(mut document: Value) -> Value {
    json(&strict(), &mut document);
    document
}

#[test]
fn a_name_is_never_redacted_and_a_sentence_in_its_place_is() {
    let redactor = strict();
    for nasty in NASTY {
        assert_eq!(name(&redactor, nasty), nasty);
        assert_ne!(text(&redactor, nasty), nasty, "{nasty}");
        let with_kind = format!("pod/{nasty}");
        assert_eq!(reference(&redactor, &with_kind), with_kind);
        let image_name = format!("registry.example/{nasty}:1");
        assert_eq!(image(&redactor, &image_name), image_name);
        let path = format!("spec.containers{{{nasty}}}");
        assert_eq!(field_path(&redactor, &path), path);
    }
    for free in [
        "password=hunter2",
        "my password=hunter2",
        "Password=hunter2/x",
    ] {
        for convert in [name, word, reference, image, api_version, label_key] {
            assert!(!convert(&redactor, free).contains("hunter2"), "{free}");
        }
    }
    assert_eq!(word(&redactor, "BackOff"), "BackOff");
    assert_eq!(word(&redactor, "Init:0/1"), "Init:0/1");
    assert!(!word(&redactor, "Warn\u{1b}[31m").contains('\u{1b}'));
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let redactor = Redactor::default();
    assert_eq!(bounded(&redactor, "short", 8), "short");
    assert_eq!(bounded(&redactor, &"x".repeat(8), 8), "xxxxxxxx");
    let long = bounded(&redactor, &"x".repeat(1 << 20), 4096).into_owned();
    assert!(long.starts_with(&"x".repeat(4096)), "{}", long.len());
    assert!(
        long.ends_with("… [cut: 1044480 bytes]"),
        "{}",
        &long[4090..]
    );
    // Where the beginning is redacted away, the split end of the read part does not show.
    let secret = ["gh", "p_", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1B2C"].concat();
    for at in 0..secret.len() {
        let mut hidden = format!("password={} ", "p".repeat(2000));
        hidden.push_str(&"y ".repeat((8192 - hidden.len() - at) / 2));
        hidden.push_str(&secret);
        hidden.push_str(&"z".repeat(9000));
        let shown = bounded(&redactor, &hidden, 4096);
        assert!(!shown.contains(&secret[..4]), "{at}");
    }
}

#[test]
fn an_error_keeps_the_names_it_is_about() {
    let redactor = strict();
    for nasty in NASTY {
        let text = format!(
            "cannot get pods `{nasty}` of context `dev`: pods \"{nasty}\" not found, password=hunter2"
        );
        let shown = sentence(&redactor, &text);
        assert!(
            shown.contains(&format!("pods \"{nasty}\" not found")),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
        let uri = format!("no resource `k8s://dev/shop/pods/{nasty}/logs/app`; none");
        assert_eq!(sentence(&redactor, &uri), uri);
    }
    // Only what is quoted as a name is one.
    let shown = sentence(&redactor, "cannot get `web`: token-abc is bad");
    assert_eq!(shown, "cannot get `web`: [redacted custom] is bad");
    let shown = sentence(&redactor, "cannot get `password=hunter2`");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_document_keeps_its_names() {
    for nasty in NASTY {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": nasty, "namespace": nasty, "uid": nasty, "generateName": format!("{nasty}-"),
                "labels": {"app.kubernetes.io/name": nasty, "token_x": "none"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": nasty, "uid": "u"}],
            },
            "spec": {
                "nodeName": nasty, "serviceAccountName": nasty,
                "containers": [{"name": nasty, "image": format!("r.example/{nasty}:1"), "env": [
                    {"name": "DB", "valueFrom": {"secretKeyRef": {"name": nasty, "key": "k"}}},
                ]}],
                "volumes": [{"name": nasty, "secret": {"secretName": nasty}}],
            },
            "involvedObject": {"kind": "Pod", "name": nasty, "fieldPath": format!("spec.containers{{{nasty}}}")},
        });
        assert_eq!(walked(pod.clone()), pod);
        let graph = json!({"nodes": [{"id": format!("Pod:shop/{nasty}"), "name": nasty}],
            "edges": [{"from": format!("Pod:shop/{nasty}"), "to": "Node:a"}],
            "deleted": [format!("Pod:shop/{nasty}")]});
        assert_eq!(walked(graph.clone()), graph);
    }
}

#[test]
fn an_answer_keeps_the_names_in_its_own_sentences() {
    let note = format!("cannot list pods in namespace `{}`: forbidden", NASTY[0]);
    let mut data = json!({"notes": [note], "error": note, "message": note});
    answer(&strict(), &mut data);
    assert_eq!(
        (&data["notes"][0], &data["error"]),
        (&json!(note), &json!(note))
    );
    assert_ne!(data["message"], note, "a workload may have written it");
    assert_ne!(walked(json!({"notes": note}))["notes"], note);
}

#[test]
fn a_document_hides_what_other_fields_make_a_secret() {
    let github = ["gh", "p_", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1B2C"].concat();
    let document = walked(json!({
        "metadata": {
            "name": "password=swordfish-1",
            "labels": {"password": "swordfish-2", "app": github, "hash": "ok"},
            "annotations": {
                "note": "login with password=swordfish-3",
                "example.com/token": "swordfish-4",
                "kept": "{\"kind\":\"Secret\",\"stringData\":{\"x\":\"swordfish-5\"}}",
            },
        },
        "spec": {"env": [{"name": "DB_PASSWORD", "value": "swordfish-6"}, {"name": "LEVEL", "value": "debug"}]},
        "data": {"db.password": "swordfish-7", "plain": "kept"},
        "list": [{"kind": "Secret", "data": {"anything": "swordfish-8"}}],
        "reason": "password=swordfish-9",
        "status": {"message": github},
    }));
    let text = document.to_string();
    assert!(
        !text.contains("swordfish") && !text.contains(&github),
        "{text}"
    );
    for kept in [
        "\"hash\":\"ok\"",
        "\"value\":\"debug\"",
        "\"plain\":\"kept\"",
        "anything",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
}

/// Strings of every field, and whether one has this text.
#[test]
fn the_value_of_a_flag_in_a_list_of_arguments_is_hidden() {
    let shown = walked(json!({"args": [
        "--user", "admin", "--password", "Hunter-2", "--api-key", "--verbose", "serve", "--token", "-", "web",
    ]}));
    let args = shown["args"].as_array().unwrap();
    assert!(!has(&shown, "Hunter-2"), "{shown}");
    let stay = [0, 1, 2, 4, 5, 6, 7, 8];
    let stayed = stay.map(|at: usize| args[at].as_str().unwrap());
    assert_eq!(
        stayed,
        [
            "--user",
            "admin",
            "--password",
            "--api-key",
            "--verbose",
            "serve",
            "--token",
            "-"
        ]
    );
}

fn has(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text.contains(wanted),
        Value::Array(items) => items.iter().any(|item| has(item, wanted)),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| key.contains(wanted) || has(value, wanted)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn fuzz_no_field_lets_a_secret_out(
        path in prop::collection::vec("name|labels|kind|spec|reason|image|uri|object|selector|[a-zA-Z]{1,8}", 1..5),
        as_key: bool,
    ) {
        let secret = "password=swordfish";
        let mut document = if as_key { json!({secret: 1}) } else { json!(secret) };
        for key in path {
            document = json!({key: [document]});
        }
        json(&Redactor::default(), &mut document);
        prop_assert!(!has(&document, "swordfish"), "{document}");
    }

    #[test]
    fn fuzz_any_text_is_cut_within_its_limit(text in "\\PC{0,300}", bytes_max in 1..200_usize) {
        let shown = bounded(&Redactor::default(), &text, bytes_max);
        prop_assert!(shown.len() <= bytes_max + 40 || *shown == text);
        if text.len() > bytes_max * 2 {
            prop_assert!(shown.ends_with(" bytes]"), "{}", shown);
        }
    }

    #[test]
    fn fuzz_names_in_an_error_stay(
        name in "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", reason in "[a-z=\"`:. -]{0,60}",
    ) {
        let text = format!("cannot get pods `{name}`: {reason}");
        let shown = sentence(&Redactor::new(&["[a-z0-9-]{3,}".to_owned()]).unwrap(), &text);
        let quoted = format!("`{name}`");
        prop_assert!(shown.contains(&quoted), "{}", shown);
    }
}
