//! Frames are what the published schema of each version says they are. The harness
//! judges every answer and every message of a stream that any test here reads; this
//! shows that the judge is one.

use serde_json::{Value, json};

use crate::harness::{Verdict, judge};

const VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

fn updated(uri: Value) -> Value {
    let meta = json!({"kubecrier/update": {"seq": 1, "count": 1, "summary": "x"}});
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": uri, "_meta": meta}})
}

#[test]
fn a_frame_that_the_protocol_does_not_have_is_noticed() {
    for version in VERSIONS {
        let good = judge(version, None, &updated(json!("k8s://dev/shop/events")));
        if good == Verdict::Unjudged {
            return;
        }
        assert_eq!(good, Verdict::Fits, "{version}");
        for bad in [
            updated(json!(5)),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/changed"}),
            json!({"method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "none"}}),
        ] {
            let verdict = judge(version, None, &bad);
            assert!(matches!(verdict, Verdict::Wrong(_)), "{version}: {bad}");
        }
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"contents": [{"uri": 1}]}});
        let verdict = judge(version, Some("resources/read"), &answer);
        assert!(matches!(verdict, Verdict::Wrong(_)), "{version}");
    }
}
