//! The harness validates every response and every message of a stream against the
//! published schema of its version; this shows that the validation finds errors.

use serde_json::{Value, json};

use crate::harness::{Validation, validate};

const VERSIONS: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];

fn updated(uri: Value) -> Value {
    let meta = json!({"kubecrier/update": {"seq": 1, "count": 1, "summary": "x"}});
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": uri, "_meta": meta}})
}

#[test]
fn a_frame_that_the_protocol_does_not_have_is_noticed() {
    for version in VERSIONS {
        let good = validate(version, None, &updated(json!("k8s://dev/shop/events")));
        if good == Validation::Unchecked {
            return;
        }
        assert_eq!(good, Validation::Valid, "{version}");
        for bad in [
            updated(json!(5)),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/changed"}),
            json!({"method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "none"}}),
        ] {
            let verdict = validate(version, None, &bad);
            assert!(
                matches!(verdict, Validation::Invalid(_)),
                "{version}: {bad}"
            );
        }
        // One notification of our own is exempt, and no other.
        let own = |name: &str| {
            let method = format!("notifications/stream/{name}");
            json!({"jsonrpc": "2.0", "method": method, "params": {"missing": 1}})
        };
        assert_eq!(validate(version, None, &own("gap")), Validation::Valid);
        let other = validate(version, None, &own("other"));
        assert!(matches!(other, Validation::Invalid(_)), "{version}");
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"contents": [{"uri": 1}]}});
        let verdict = validate(version, Some("resources/read"), &answer);
        assert!(matches!(verdict, Validation::Invalid(_)), "{version}");
    }
    let unknown = validate("1999-12-31", None, &updated(json!("k8s://dev/shop/events")));
    assert!(
        matches!(unknown, Validation::Invalid(_)),
        "no frame is valid for want of a schema"
    );
}
