use std::sync::Arc;

use mcp_notify::Progress;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    caller::Caller,
    reporter::LogTarget,
    resources::Resources,
    server::WorkLimits,
    subscriptions::{Sources, SubscriptionSettings},
    viewers::Viewers,
};
use kubecrier_core::{
    faults::{CaptureLimits, FaultQueue},
    metrics::{Metrics, WaitMetrics},
    shares::CallerShare,
    subscriptions::Ledger,
};
use kubecrier_k8s::{
    ClusterEvidence, EventLists, Graphs, IncidentSettings, IncidentWatches, Watches,
};
use kubecrier_lifecycle::Lifecycle;

fn all(contexts: &[&str]) -> Vec<Tool> {
    let choice = ContextChoice {
        names: contexts.iter().map(ToString::to_string).collect(),
        default: contexts.first().map(ToString::to_string),
        hidden: false,
    };
    TOOLS
        .iter()
        .map(|entry| entry.definition(&choice))
        .collect()
}

#[test]
fn the_list_of_tools_stays_small() {
    let names: Vec<_> = (0..15)
        .map(|n| format!("arn:aws:eks:eu-west-1:123456789012:cluster/c-{n}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let bytes = serde_json::to_string(&all(&names)).unwrap().len();
    assert!(bytes / 4 < 8000, "tools/list costs {} tokens", bytes / 4);
    let usual = serde_json::to_string(&all(&["dev"])).unwrap().len();
    assert!(
        usual / 4 < 4000,
        "tools/list costs {} tokens with one context",
        usual / 4
    );
}

#[test]
fn every_tool_only_reads() {
    for tool in all(&["dev"]) {
        let hints = tool.annotations.unwrap();
        assert_eq!(hints.read_only_hint, Some(true), "{}", tool.name);
        assert_eq!(hints.destructive_hint, Some(false), "{}", tool.name);
    }
}

#[test]
fn every_argument_says_what_it_does() {
    for tool in all(&["dev", "prod"]) {
        assert_eq!(
            tool.input_schema["additionalProperties"],
            json!(false),
            "{}",
            tool.name
        );
        for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}.{name}", tool.name);
            assert!(
                property["type"].is_string(),
                "{}.{name}: {property}",
                tool.name
            );
        }
    }
}

#[test]
fn a_context_is_offered_only_where_there_is_a_choice() {
    let context = |contexts: &[&str]| {
        let tools = all(contexts);
        let pods = tools
            .into_iter()
            .find(|tool| tool.name == "pods_list")
            .unwrap();
        pods.input_schema["properties"].get("context").cloned()
    };
    assert_eq!(context(&["dev"]), None);
    let offered = context(&["dev", "prod"]).unwrap();
    assert_eq!(offered["enum"], json!(["dev", "prod"]));
    assert_eq!(offered["default"], json!("dev"));
    let many: Vec<_> = (0..16).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(context(&many).unwrap().get("enum"), None);
}

#[test]
fn what_a_model_sees_is_as_it_was() {
    insta::assert_json_snapshot!(all(&["dev", "prod"]));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[a-z0-9/=,.(\\[*+?|{}]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{0,5}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

pub(super) fn event_lists(contexts: &Arc<Contexts>) -> EventLists {
    EventLists::new(
        Arc::clone(contexts),
        Lifecycle::default(),
        Metrics::new().watch().clone(),
        SubscriptionSettings::default().watch_renewal,
    )
}

pub(super) fn graphs(contexts: &Arc<Contexts>) -> Graphs {
    let metrics = Metrics::new();
    Graphs::new(
        Arc::clone(contexts),
        Lifecycle::default(),
        metrics.watch().clone(),
        metrics.graph().clone(),
        SubscriptionSettings::default().watch_renewal,
        WorkLimits::default().graphs(),
    )
}

pub(super) fn incidents(contexts: &Arc<Contexts>) -> Incidents {
    let watches = IncidentWatches::new(
        Arc::clone(contexts),
        Lifecycle::default(),
        Metrics::new().watch().clone(),
        SubscriptionSettings::default().watch_renewal,
        WorkLimits::default().incidents(),
        IncidentSettings::default(),
    );
    Incidents::new(Arc::clone(contexts), watches)
}

pub(super) fn subscriptions(contexts: &Arc<Contexts>) -> Subscriptions {
    let settings = SubscriptionSettings::default();
    let watches = Watches::new(
        Arc::clone(contexts),
        Lifecycle::default(),
        Metrics::new().watch().clone(),
        settings.watch_renewal,
        WorkLimits::default().watches(),
    );
    let ledger = Ledger::new(settings.caps);
    let updates = Resources::new(Vec::new(), ToolFilter::default(), CallerShare::default())
        .updates()
        .clone();
    let faults = FaultQueue::new(
        Arc::new(ClusterEvidence::new(Arc::clone(contexts))),
        CaptureLimits::default(),
        Metrics::new().captures(),
        Lifecycle::default(),
    );
    let sources = Sources {
        watches,
        incidents: incidents(contexts),
        faults,
        history: None,
        caught_up: Arc::default(),
    };
    Subscriptions::new(settings, ledger, updates, sources, Viewers::Everything)
}

proptest! {
    #[test]
    fn fuzz_any_arguments_are_answered(
        tool in 0..TOOLS.len(),
        given in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..5),
        stray in "(x)?",
    ) {
        let entry = &TOOLS[tool];
        let schema = (entry.schema)();
        let known: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
        let mut arguments = JsonObject::new();
        for (at, value) in given {
            if !known.is_empty() {
                arguments.insert(at.get(&known).0.clone(), value);
            }
        }
        if !stray.is_empty() {
            arguments.insert(stray, Value::Null);
        }
        let contexts = Arc::new(Contexts::new(kubecrier_k8s::Config {
            kubeconfig: Some("/no/such/kubeconfig".into()),
            context: None,
            request_timeout: std::time::Duration::from_secs(1),
            redactor: Redactor::new(&[]).unwrap(),
            demo: None,
            denied: kubecrier_k8s::DeniedKinds::default(),
            allowed: kubecrier_k8s::Allowed::default(),
            identity: kubecrier_k8s::ClusterIdentity::default(),
        }));
        let subscriptions = subscriptions(&contexts);
        let (graphs, incidents) = (graphs(&contexts), incidents(&contexts));
        let waits = Waits::new(incidents.clone(), Viewers::Everything, WaitMetrics::default());
        let work = Work::new(&WorkLimits::default(), 1);
        let client = ToolClient {
            requester: Requester::stateless(Caller::current(), None),
            pushes: true,
            stream_open: false,
            info: None,
        };
        let draining = CancellationToken::new();
        let redactor = &Redactor::default();
        let context = ToolContext {
            contexts: &contexts,
            history: None,
            tool_filter: &ToolFilter::default(),
            limits: ToolLimits { output_bytes: 4096 },
            subscriptions: &subscriptions,
            event_lists: &event_lists(&contexts),
            graphs: &graphs,
            incidents: &incidents,
            waits: &waits,
            work: &work,
            client: &client,
            reporter: &RequestReporter::new(Progress::disabled(), LogTarget::Disabled),
            redactor,
            draining: &draining,
            task: None,
        };
        // There is no cluster, so most answers are errors, and every error has a text.
        match tokio_test::block_on((entry.call)(context, arguments)) {
            Ok(output) => prop_assert!(!output.text().is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
