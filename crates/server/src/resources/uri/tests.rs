use proptest::prelude::*;

use super::*;
use crate::resources::provider::ResourceError;

fn normal(uri: &str) -> String {
    uri.parse::<ClusterUri>()
        .unwrap_or_else(|error| panic!("{uri}: {error}"))
        .to_string()
}

fn error(uri: &str) -> String {
    uri.parse::<ClusterUri>().expect_err(uri).to_string()
}

#[test]
fn what_a_template_expands_to_is_an_address() {
    for uri in [
        "k8s://dev/shop/events",
        "k8s://dev/-/events?types=Warning",
        "k8s://dev/shop/events?for=Deployment%2Fweb&types=Normal,Warning&reason=Fail&since=15m&limit=5",
        "k8s://dev/shop/events?since=v12345",
        "k8s://dev/shop/pods/web-0/logs/app",
        "k8s://dev/shop/pods/web-0.example/logs/app?previous=true&tail=7&since=2h",
        "k8s://dev/shop/graph",
        "k8s://dev/-/graph?kinds=Pod,Service",
        "k8s://dev/incidents",
        "k8s://dev/shop/incidents",
        "k8s://dev/incidents/incidents",
        "k8s://dev/incidents/events",
        "k8s://arn%3Aaws%3Aeks%3Aeu-1%3A123%3Acluster%2Fprod/shop/graph",
    ] {
        assert_eq!(normal(uri), uri);
    }
}

#[test]
fn two_spellings_of_the_same_are_one_address() {
    for (spelled, expected) in [
        (
            "k8s://%64ev/shop/events?limit=50&types=",
            "k8s://dev/shop/events",
        ),
        (
            "k8s://a:b/shop/events?types=warning%2CNormal,warning&for=deploy/web",
            "k8s://a%3Ab/shop/events?for=Deployment%2Fweb&types=Normal,Warning",
        ),
        (
            "k8s://a%3ab/shop/events?since=3600s",
            "k8s://a%3Ab/shop/events?since=1h",
        ),
        (
            "k8s://dev/shop/pods/web-0/logs/app?tail=100&previous=false",
            "k8s://dev/shop/pods/web-0/logs/app",
        ),
        (
            "k8s://dev/shop/graph?kinds=svc,pods,Pod",
            "k8s://dev/shop/graph?kinds=Pod,Service",
        ),
        ("k8s://%64ev/-/incidents?", "k8s://dev/incidents"),
    ] {
        assert_eq!(normal(spelled), expected, "{spelled}");
    }
}

#[test]
fn there_is_no_address_of_anything_else() {
    for uri in [
        "",
        "k8s://",
        "k8s://dev",
        "k8s://dev/shop",
        "k8s://dev/shop/",
        "k8s://dev/shop/events/",
        "k8s://dev/shop/secrets/token",
        "k8s://dev/shop/pods/web-0",
        "k8s://dev/shop/pods/web-0/logs",
        "k8s://dev/shop/Events",
        "k8s://incidents",
        "k8s://dev/incidents/",
        "k8s://dev/shop/incidents/i-1",
        "file:///etc/passwd",
    ] {
        assert_eq!(uri.parse::<ClusterUri>(), Err(InvalidUri::Form), "{uri}");
        let Err(ResourceError::NotFound { hint, .. }) = ClusterUri::read(uri) else {
            panic!("{uri} was read");
        };
        assert!(hint.contains(EVENTS) && hint.contains(LOGS), "{hint}");
    }
}

#[test]
fn a_part_that_makes_no_sense_is_named() {
    for (uri, says) in [
        ("k8s:///shop/events", "context is missing"),
        ("k8s://dev/Shop/events", "`Shop`"),
        ("k8s://dev/a%2Fb/events", "`a/b`"),
        ("k8s://dev/-/pods/web-0/logs/app", "one namespace"),
        ("k8s://dev/shop/pods/..%2Fx/logs/app", "name of a pod"),
        ("k8s://dev/shop/pods/web-0/logs/A", "name of a container"),
        ("k8s://dev/shop/events?tail=5", "`tail`; there are: for,"),
        ("k8s://dev/shop/events?limit=0", "from 1 to 500"),
        ("k8s://dev/shop/events?limit=5&limit=5", "stands twice"),
        ("k8s://dev/shop/events?types=Odd", "Normal or Warning"),
        ("k8s://dev/shop/events?for=web", "kind/name"),
        ("k8s://dev/shop/events?reason=a%2Cb", "one word"),
        ("k8s://dev/shop/events?since=soon", "15m"),
        (
            "k8s://dev/shop/events?since=v99999999999999999999",
            "cursor",
        ),
        ("k8s://dev/shop/pods/a/logs/b?previous=1", "true or false"),
        ("k8s://dev/shop/pods/a/logs/b?tail=10001", "10000"),
        ("k8s://dev/shop/pods/a/logs/b?since=v1", "15m"),
        ("k8s://dev/shop/graph?kinds=a/b", "`a/b`"),
        ("k8s://dev/incidents?limit=5", "`limit`"),
        ("k8s:///incidents", "context is missing"),
        ("k8s://dev/shop/graph#x", "%23"),
        ("k8s://%ff/shop/graph", "UTF-8"),
        ("k8s://100%/shop/graph", "%25"),
    ] {
        let text = error(uri);
        assert!(text.contains(says), "{uri}: {text}");
        assert!(matches!(
            ClusterUri::read(uri),
            Err(ResourceError::Invalid(_))
        ));
    }
    let long = format!("k8s://{}/shop/graph", "x".repeat(BYTES_MAX));
    assert!(error(&long).contains("2048"));
    // It is longer once it is written as clients are given it.
    let odd = format!("k8s://{}/shop/graph", "ä".repeat(BYTES_MAX / 4));
    assert!(error(&odd).contains("percent-encoded"));
}

fn any_name() -> impl Strategy<Value = Name> {
    "[a-z]([-a-z0-9]{0,9}[a-z0-9])?".prop_map(|text| Name::label("name", &text).unwrap())
}

fn any_time() -> impl Strategy<Value = Duration> {
    (0..10_000_000_u64).prop_map(Duration::from_secs)
}

fn any_what() -> impl Strategy<Value = UriTarget> {
    let types = prop::collection::btree_set(
        prop_oneof![Just(EventType::Normal), Just(EventType::Warning)],
        0..3,
    );
    let about = prop::option::of(
        ("[a-zA-Z]{1,9}", "[a-z0-9._:-]{1,12}")
            .prop_map(|(kind, name)| ObjectName::parse(&format!("{kind}/{name}")).unwrap()),
    );
    let since = prop::option::of(prop_oneof![
        any_time().prop_map(Since::Ago),
        any::<u64>().prop_map(Since::Cursor),
    ]);
    let reason = prop::option::of("[A-Za-z]{1,12}");
    let events = (about, types, reason, since, 1..=EVENTS_MAX).prop_map(
        |(about, types, reason, since, limit)| {
            UriTarget::Events(EventsParams {
                about,
                types,
                reason,
                since,
                limit,
            })
        },
    );
    let logs = (
        any_name(),
        any_name(),
        any::<bool>(),
        1..=TAIL_MAX,
        prop::option::of(any_time()),
    )
        .prop_map(|(pod, container, previous, tail, since)| {
            UriTarget::Logs(LogParams {
                pod,
                container,
                previous,
                tail,
                since,
            })
        });
    let kinds = prop::collection::btree_set(
        prop_oneof![Just("Pod"), Just("Service"), Just("MyThing")].prop_map(str::to_owned),
        0..3,
    );
    let graph = kinds.prop_map(|kinds| UriTarget::Graph(GraphParams { kinds }));
    prop_oneof![events, logs, graph, Just(UriTarget::Incidents)]
}

proptest! {
    #[test]
    fn an_address_is_read_as_it_was_written_whatever_the_context_is_called(
        context in prop_oneof![".{1,40}", "arn:aws:eks:[a-z]{1,9}:[0-9]{12}:cluster/[a-z]{1,9}", "[-/:?#%@. ]{1,9}"],
        namespace in any_name(),
        everywhere in any::<bool>(),
        target in any_what(),
    ) {
        let one_place = matches!(target, UriTarget::Logs(_)) || !everywhere;
        let address = ClusterUri { context, namespace: one_place.then_some(namespace), target };
        let uri = address.to_string();
        prop_assert!(uri.is_ascii() && !uri.contains(char::is_whitespace) && !uri.contains('#'));
        let read: ClusterUri = uri.parse().map_err(|error| TestCaseError::fail(format!("{uri}: {error}")))?;
        prop_assert_eq!(&read, &address);
        prop_assert_eq!(read.to_string(), uri);
    }

    #[test]
    fn fuzz_any_text_is_an_address_with_one_normal_form_or_named(
        text in prop_oneof![
            any::<String>(),
            "k8s://[a-z%/:?&=,.-]{0,60}",
            "k8s://[a-z%0-9A-F]{0,9}/[a-z-]{0,5}/(events|graph|incidents|pods/[a-z]{0,3}/logs/[a-z]{0,3})[?](for|types|reason|since|limit|tail|previous|kinds)=[a-zA-Z0-9,/%!\\x7f]{0,9}",
        ],
    ) {
        match text.parse::<ClusterUri>() {
            Ok(address) => {
                let normal = address.to_string();
                prop_assert_eq!(normal.parse::<ClusterUri>().unwrap(), address);
            }
            Err(error) => {
                let shown = error.to_string();
                prop_assert!(shown.len() < 1000 && !shown.contains(char::is_control));
            }
        }
    }
}
