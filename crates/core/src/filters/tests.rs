use std::collections::BTreeMap;

use proptest::{option, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::event::tests::event;

fn filters(request: FilterRequest) -> Filters {
    Filters::try_from(request).unwrap()
}

#[test]
fn the_three_ways_to_name_namespaces_are_one() {
    let echoed = |request| serde_json::to_value(filters(request)).unwrap();
    let all = FilterRequest {
        namespace: Some("b".to_owned()),
        namespaces: vec!["a".to_owned(), "b".to_owned(), "prod-eu".to_owned()],
        namespace_selector: vec!["prod-*".to_owned(), "c".to_owned()],
        ..FilterRequest::default()
    };
    let expected = json!({"namespaces": ["a", "b", "c"], "namespaceSelector": ["prod-*"]});
    assert_eq!(echoed(all.clone()), expected);
    assert_eq!(filters(all).exact_namespaces(), None);
    let everything = FilterRequest {
        namespaces: vec!["a".to_owned()],
        namespace_selector: vec!["*".to_owned()],
        ..FilterRequest::default()
    };
    assert_eq!(echoed(everything), json!({}));
    let one = FilterRequest {
        namespace: Some("a".to_owned()),
        ..FilterRequest::default()
    };
    assert_eq!(filters(one).exact_namespaces(), Some(vec!["a"]));
}

#[test]
fn labels_that_are_not_known_are_not_taken_for_absent() {
    for (selector, absent, own) in [
        ("!app", true, false),
        ("app notin (db)", true, true),
        ("app!=db", true, true),
        ("app", false, true),
        ("app=web", false, true),
        ("", true, true),
    ] {
        let wanted = filters(FilterRequest {
            label_selector: Some(selector.to_owned()),
            ..FilterRequest::default()
        });
        assert_eq!(wanted.selects_labels(), !selector.is_empty());
        let mut one = event("shop", "Pod", "web-0");
        one.labels = BTreeMap::new().into();
        assert_eq!(wanted.admits_labels(&one), absent, "{selector}");
        for unknown in [LabelsOf::Gone, LabelsOf::Unreadable] {
            one.labels_of = unknown;
            one.labels = BTreeMap::new().into();
            assert_eq!(
                wanted.admits_labels(&one),
                selector.is_empty(),
                "{selector}"
            );
            // Those of the event object are better than none.
            one.labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]).into();
            assert_eq!(wanted.admits_labels(&one), own, "{selector}");
        }
    }
}

#[test]
fn faults_are_warnings_about_pods() {
    let faults = FilterRequest {
        mode: Mode::Faults,
        ..FilterRequest::default()
    };
    let wanted = filters(faults.clone());
    assert!(wanted.admits(&event("shop", "Pod", "web-0")));
    assert!(!wanted.admits(&event("shop", "Node", "node-1")));
    let mut normal = event("shop", "Pod", "web-0");
    normal.kind = "Normal".to_owned();
    assert!(!wanted.admits(&normal));
    for types in [
        vec![EventType::Normal],
        vec![EventType::Warning, EventType::Normal],
    ] {
        let request = FilterRequest {
            types,
            ..faults.clone()
        };
        let error = Filters::try_from(request).unwrap_err();
        assert_eq!(error, FilterError::NormalFaults);
    }
    let node = FilterRequest {
        involved_kind: Some("Node".to_owned()),
        ..faults
    };
    assert!(matches!(
        Filters::try_from(node),
        Err(FilterError::NotAPod { .. })
    ));
}

#[test]
fn what_could_never_match_is_refused() {
    let never = FilterRequest {
        namespace: Some("a".to_owned()),
        involved_namespace: Some("b".to_owned()),
        ..FilterRequest::default()
    };
    assert_eq!(
        Filters::try_from(never),
        Err(FilterError::Never("b".to_owned()))
    );
    for bad in ["A", "-a", "a_b", "a b", "ü", &"a".repeat(64)] {
        let request = FilterRequest {
            namespace: Some(bad.to_owned()),
            ..FilterRequest::default()
        };
        let error = Filters::try_from(request).unwrap_err().to_string();
        assert!(
            error.contains(bad) && error.contains("namespaces"),
            "{error}"
        );
    }
    for bad in ["a,b", "a=b", "x\ny", "a/b"] {
        let request = FilterRequest {
            involved_name: Some(bad.to_owned()),
            ..FilterRequest::default()
        };
        assert!(Filters::try_from(request).is_err(), "{bad}");
    }
    let many = FilterRequest {
        namespaces: vec!["a".to_owned(); 101],
        ..FilterRequest::default()
    };
    assert!(matches!(
        Filters::try_from(many),
        Err(FilterError::TooMany { count: 101, .. })
    ));
}

const NAMES: [&str; 3] = ["a", "b", "prod-eu"];
const KINDS: [&str; 2] = ["Pod", "Node"];
const REASONS: [&str; 3] = ["Failed", "FailedMount", "BackOff"];

fn requests() -> impl Strategy<Value = FilterRequest> {
    let name = || option::of(select(NAMES.to_vec()).prop_map(str::to_owned));
    (
        prop::bool::ANY,
        name(),
        prop::collection::vec(
            select(vec!["a", "prod-*", "?", "b"]).prop_map(str::to_owned),
            0..3,
        ),
        option::of(select(KINDS.to_vec()).prop_map(str::to_owned)),
        name(),
        prop::collection::vec(select(vec![EventType::Normal, EventType::Warning]), 0..2),
        option::of(select(vec!["Fail", "FailedM", "B"]).prop_map(str::to_owned)),
        prop::collection::vec(select(REASONS.to_vec()).prop_map(str::to_owned), 0..2),
        option::of(select(vec!["x=1", "x!=1", "!x"]).prop_map(str::to_owned)),
    )
        .prop_map(
            |(faults, namespace, patterns, kind, name, types, reason, not, labels)| FilterRequest {
                mode: if faults { Mode::Faults } else { Mode::Events },
                namespace,
                namespace_selector: patterns,
                involved_kind: kind,
                involved_name: name,
                types,
                reason,
                exclude_reasons: not,
                label_selector: labels,
                ..FilterRequest::default()
            },
        )
}

fn events() -> impl Strategy<Value = Event> {
    let pick = |from: &[&'static str]| select(from.to_vec());
    (
        pick(&NAMES),
        pick(&KINDS),
        pick(&NAMES),
        pick(&["Normal", "Warning"]),
        pick(&REASONS),
        option::of(pick(&["1", "2"])),
    )
        .prop_map(|(namespace, kind, name, type_, reason, x)| {
            let mut event = event(namespace, kind, name);
            event.kind = type_.to_owned();
            event.reason = reason.to_owned();
            let labels: BTreeMap<_, _> = x
                .map(|x| ("x".to_owned(), x.to_owned()))
                .into_iter()
                .collect();
            event.labels = labels.into();
            event
        })
}

/// The request read literally, one condition at a time.
fn oracle(request: &FilterRequest, event: &Event) -> bool {
    let mut namespaces: Vec<&str> = request.namespace.iter().map(String::as_str).collect();
    namespaces.extend(request.namespace_selector.iter().map(String::as_str));
    let namespace = namespaces.is_empty()
        || namespaces.iter().any(|pattern| match *pattern {
            "prod-*" => event.namespace.starts_with("prod-"),
            "?" => event.namespace.len() == 1,
            exact => exact == event.namespace,
        });
    let labels = match request.label_selector.as_deref() {
        None => true,
        Some("x=1") => event.labels.get("x") == Some("1"),
        Some("x!=1") => event.labels.get("x") != Some("1"),
        Some(_) => event.labels.get("x").is_none(),
    };
    let fault = event.kind == "Warning" && event.involved.kind == "Pod";
    let types: Vec<_> = request.types.iter().map(|one| one.as_str()).collect();
    namespace
        && labels
        && (request.mode == Mode::Events || fault)
        && (types.is_empty() || types.contains(&event.kind.as_str()))
        && request
            .involved_kind
            .as_ref()
            .is_none_or(|kind| *kind == event.involved.kind)
        && request
            .involved_name
            .as_ref()
            .is_none_or(|name| *name == event.involved.name)
        && request
            .reason
            .as_ref()
            .is_none_or(|reason| event.reason.starts_with(reason))
        && !request.exclude_reasons.contains(&event.reason)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_filter_that_was_accepted_is_enforced(request in requests(), event in events()) {
        let Ok(filters) = Filters::try_from(request.clone()) else {
            prop_assert!(request.mode == Mode::Faults, "only faults are narrower than asked");
            return Ok(());
        };
        let matches = filters.admits(&event) && filters.admits_labels(&event);
        prop_assert_eq!(matches, oracle(&request, &event));
        if let Some(only) = filters.exact_namespaces() && matches {
            prop_assert!(only.contains(&event.namespace.as_str()));
        }
    }
}

fn of_incidents() -> FilterRequest {
    FilterRequest {
        mode: Mode::Incidents,
        ..FilterRequest::default()
    }
}

#[test]
fn an_incident_matches_by_its_object_or_by_what_it_hurts() {
    let node = ObjectRef::new("Node", "", "worker-1");
    let web = ObjectRef::new("Deployment", "shop", "web");
    let api = ObjectRef::new("Deployment", "pay", "api");
    let check = |request: FilterRequest, objects: &[&ObjectRef], matches: bool| {
        let shown = format!("{request:?} {objects:?}");
        let is = filters(request).admits_incident(objects.iter().copied());
        assert_eq!(is, matches, "{shown}");
    };
    check(of_incidents(), &[&node], true);
    let shop = || FilterRequest {
        namespace: Some("shop".to_owned()),
        ..of_incidents()
    };
    check(shop(), &[&web], true);
    check(shop(), &[&api], false);
    check(shop(), &[&node, &api], false);
    check(shop(), &[&node, &api, &web], true);
    let named = |kind: Option<&str>, name: &str| FilterRequest {
        involved_kind: kind.map(str::to_owned),
        involved_name: Some(name.to_owned()),
        ..of_incidents()
    };
    check(named(None, "web"), &[&node, &web], true);
    check(named(Some("Deployment"), "web"), &[&web], true);
    check(named(Some("StatefulSet"), "web"), &[&web], false);
    // One object has to match all of it.
    check(named(Some("Node"), "web"), &[&node, &web], false);
    check(FilterRequest::default(), &[&web], false);
}

#[test]
fn filters_that_only_events_have_something_for_are_refused_for_incidents() {
    for (argument, request) in [
        (
            "labelSelector",
            FilterRequest {
                label_selector: Some("app=web".to_owned()),
                ..of_incidents()
            },
        ),
        (
            "types",
            FilterRequest {
                types: vec![EventType::Warning],
                ..of_incidents()
            },
        ),
        (
            "reason",
            FilterRequest {
                reason: Some("Fail".to_owned()),
                ..of_incidents()
            },
        ),
        (
            "excludeReasons",
            FilterRequest {
                exclude_reasons: vec!["Pulled".to_owned()],
                ..of_incidents()
            },
        ),
    ] {
        let error = Filters::try_from(request).unwrap_err();
        assert_eq!(error, FilterError::OfEvents { argument });
        assert!(error.to_string().contains("mode `events`"), "{error}");
    }
}

/// A subscription is kept by its filters, as they are echoed.
#[test]
fn filters_that_were_written_are_read_again_as_the_same() {
    let text = |text: &str| Some(text.to_owned());
    for request in [
        FilterRequest::default(),
        FilterRequest {
            mode: Mode::Faults,
            namespaces: vec!["shop".to_owned(), "prod-*".to_owned()],
            label_selector: text("app=web,tier in (a,b),!old"),
            involved_name: text("web-0"),
            ..FilterRequest::default()
        },
        FilterRequest {
            types: vec![EventType::Warning, EventType::Normal],
            reason: text("Fail"),
            exclude_reasons: vec!["Pulled".to_owned()],
            involved_kind: text("Pod"),
            involved_namespace: text("shop"),
            ..FilterRequest::default()
        },
        FilterRequest {
            namespace: text("shop"),
            ..of_incidents()
        },
    ] {
        let filters = Filters::try_from(request).unwrap();
        let written = serde_json::to_value(&filters).unwrap();
        let mut read: FilterRequest = serde_json::from_value(written).unwrap();
        read.mode = filters.mode();
        assert_eq!(Filters::try_from(read).unwrap(), filters);
    }
}
