use std::sync::Arc;

use jiff::SignedDuration;
use kubecrier_incidents::Transition;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    a2a,
    alert::{Alert, Labels, fingerprint, is_label_name, labels, webhook},
    cloud_event::{ContentMode, cloud_event},
};
use crate::{notice::Notice, testing::incident};

fn notice(transition: Transition) -> Notice {
    Notice {
        context: "prod/eu 1".into(),
        at: "2026-11-15T10:04:20Z".parse().unwrap(),
        transition,
    }
}

fn opened() -> Notice {
    notice(Transition::Opened(incident("payment")))
}

fn resolved() -> Notice {
    notice(Transition::Resolved {
        incident: incident("payment"),
        after: SignedDuration::from_secs(252),
    })
}

#[test]
fn an_alert_has_the_labels_that_routes_and_groups_need() {
    let own = Labels::from([("team".to_owned(), "shop".to_owned())]);
    let incident = incident("payment");
    let labels = labels("prod", &incident, &own);
    let alert = Alert::new(labels, &incident, "2026-11-15T10:05:20Z".parse().unwrap());
    insta::assert_json_snapshot!(alert);
}

#[test]
fn no_alert_ends_before_it_starts() {
    let incident = incident("payment");
    let early = incident.since - SignedDuration::from_secs(9);
    let alert = Alert::new(Labels::new(), &incident, early);
    assert_eq!((alert.starts_at, alert.ends_at), (early, early));
}

#[test]
fn a_webhook_is_that_of_alertmanager() {
    insta::assert_json_snapshot!("webhook_firing", webhook(&opened(), "page", &Labels::new()));
    let over = webhook(&resolved(), "page", &Labels::new());
    assert_eq!(over["status"], "resolved");
    assert_eq!(over["alerts"][0]["endsAt"], "2026-11-15T10:04:12Z");
}

#[test]
fn a_message_of_a2a_keeps_the_context_of_its_incident() {
    insta::assert_json_snapshot!("a2a_opened", a2a::send_message(&opened()));
    let message = |notice: &Notice| a2a::send_message(notice)["params"]["message"].clone();
    let (first, last) = (message(&opened()), message(&resolved()));
    assert_eq!(first["contextId"], last["contextId"]);
    assert_ne!(first["messageId"], last["messageId"]);
    assert_eq!(a2a::error(br#"{"result": {}}"#), None);
    assert_eq!(a2a::error(b"<html>"), None);
    let error = a2a::error(br#"{"error": {"code": -32602, "message": "no"}}"#);
    assert_eq!(error.as_deref(), Some("error -32602 of the agent: no"));
}

#[test]
fn an_event_is_structured_or_binary() {
    let (headers, body) = cloud_event(&opened(), ContentMode::Structured);
    assert!(headers.keys().all(|name| name == "content-type"));
    let event: Value = serde_json::from_slice(&body).unwrap();
    insta::assert_json_snapshot!("cloud_event_structured", event);
    let (headers, body) = cloud_event(&resolved(), ContentMode::Binary);
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("ce-specversion"), "1.0");
    assert_eq!(header("ce-type"), "io.github.kubecrier.incident.resolved");
    assert_eq!(header("ce-source"), "/kubecrier/prod%252Feu%25201");
    assert_eq!(header("ce-subject"), "shop/deployment/payment");
    let data: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(data["incident"]["durationSeconds"], json!(252));
    assert_eq!(data["cluster"], "prod/eu 1");
}

#[test]
fn attempts_and_servers_agree_on_the_id_of_a_message() {
    let mut later = opened();
    later.at += SignedDuration::from_secs(5);
    assert_eq!(opened().message_id(), later.message_id());
    assert_eq!(opened().message_id(), "i-payment.opened.1794736800");
    assert_ne!(opened().message_id(), resolved().message_id());
}

proptest! {
    /// Whatever a workload writes, the messages are JSON and keep their form.
    #[test]
    fn fuzz_any_text_makes_a_message(text in any::<String>(), name in "[a-z]{1,20}") {
        let mut incident = incident(&name);
        incident.why.clone_from(&text);
        incident.headline = text;
        let opened = notice(Transition::Opened(incident));
        for mode in [ContentMode::Structured, ContentMode::Binary] {
            let (_, body) = cloud_event(&opened, mode);
            let _json: Value = serde_json::from_slice(&body).unwrap();
        }
        let alert = webhook(&opened, "x", &Labels::new());
        prop_assert_eq!(&alert["alerts"][0]["labels"]["name"], &json!(name));
        prop_assert!(a2a::send_message(&opened)["params"]["message"]["parts"][0]["text"].is_string());
    }

    /// The labels of an alert are all valid, and only they make its fingerprint.
    #[test]
    fn labels_are_valid_and_make_the_fingerprint(name in "[a-z]{1,20}", why in ".{0,20}") {
        let one = incident(&name);
        let mut other = one.clone();
        other.why = why;
        let of = |one| labels("dev", one, &Labels::new());
        prop_assert!(of(&one).keys().all(|name| is_label_name(name)));
        prop_assert!(of(&one).values().all(|value| !value.is_empty()));
        prop_assert_eq!(fingerprint(&of(&one)), fingerprint(&of(&other)));
        let another = incident("another.name");
        prop_assert_ne!(fingerprint(&of(&one)), fingerprint(&of(&another)));
    }

    #[test]
    fn fuzz_label_names(name in ".{0,20}") {
        let _checked = is_label_name(&name);
    }
}

#[test]
fn a_context_is_shared_and_never_copied() {
    let one = opened();
    assert!(Arc::ptr_eq(&one.context, &one.key().context));
}
