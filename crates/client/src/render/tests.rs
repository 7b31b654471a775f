use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn renderer(width: Option<usize>) -> Renderer {
    Renderer {
        color: false,
        width,
        zone: TimeZone::UTC,
        show_context: false,
        log_lines: 4,
        whole: false,
    }
}

fn lines(renderer: &Renderer, data: &Value) -> String {
    renderer
        .lines(&Notification::parse(data).unwrap(), None)
        .join("\n")
}

fn event() -> Value {
    json!({"cluster": "dev", "event": {
        "namespace": "shop",
        "timestamp": "2026-11-15T10:00:00Z",
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off restarting failed container payment in pod payment-7d4f9c-x2k4v_shop(47a9dc67)",
        "count": 3,
        "involvedObject": {"kind": "Pod", "name": "payment-7d4f9c-x2k4v"},
    }})
}

fn fault() -> Value {
    let mut data = event();
    data["faultId"] = json!("f-1");
    data["logs"] = json!([
        {"container": "payment", "previous": true, "hasPanic": true,
         "signature": {"kind": "rust", "line": "thread 'main' panicked at src/main.rs:42:9:"},
         "sample": "listening on 8080\n\nthread 'main' panicked at src/main.rs:42:9:\nno PAYMENT_KEY\n"},
        {"container": "proxy", "previous": false, "hasPanic": false, "sample": "one\ntwo\nthree\nfour\nfive\n"},
        {"container": "audit", "previous": false, "hasPanic": false, "error": "forbidden"},
    ]);
    data["context"] = json!({
        "phase": "Running",
        "node": "node-b",
        "conditions": [],
        "containers": [{
            "name": "payment", "image": "shop/payment:1.9.1", "state": "CrashLoopBackOff",
            "restartCount": 2, "lastTermination": {"exitCode": 101, "reason": "Error"},
        }],
        "owners": [{"kind": "ReplicaSet", "name": "payment-7d4f9c"}, {"kind": "Deployment", "name": "payment"}],
    });
    data
}

fn incident(transition: &str, severity: &str) -> Value {
    json!({"cluster": "dev", "incident": {
        "id": "i-3f9ac52e1d", "transition": transition, "severity": severity,
        "headline": "shop/deployment/payment: all 3 pods crash at start: panic: no provider for eur, for 20 s",
        "at": "2026-11-15T10:00:20Z",
    }})
}

#[test]
fn an_incident_is_one_line_and_its_end_says_how_long_it_took() {
    let pipe = renderer(None);
    assert_eq!(
        lines(&pipe, &incident("opened", "critical")),
        "10:00:20 CRITICAL shop/deployment/payment: all 3 pods crash at start: panic: no provider \
         for eur, for 20 s [i-3f9ac52e1d]"
    );
    let changed = lines(&pipe, &incident("changed", "warning"));
    assert!(changed.starts_with("10:00:20 warning  shop/") && changed.contains("(changed)"));
    let mut over = incident("resolved", "critical");
    over["incident"]["durationSeconds"] = json!(252);
    let over = lines(&pipe, &over);
    assert!(over.starts_with("10:00:20 resolved shop/"), "{over}");
    assert!(over.contains("resolved after 4m12s"), "{over}");
    let narrow = lines(&renderer(Some(60)), &incident("opened", "critical"));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60));
    assert!(narrow.contains("[i-3f9ac52e1d]"), "{narrow}");
    let colored = Renderer {
        color: true,
        ..renderer(None)
    };
    let red = lines(&colored, &incident("opened", "critical"));
    let yellow = lines(&colored, &incident("opened", "warning"));
    assert!(red.contains("\u{1b}[31m") || red.contains("31m"), "{red:?}");
    assert!(
        yellow.contains("33m") && !yellow.contains("31m"),
        "{yellow:?}"
    );
}

/// An image that cannot be pulled, as the kubelet words it.
fn pull() -> Value {
    let mut data = fault();
    data["event"]["reason"] = json!("Failed");
    data["event"]["message"] = json!(
        "Failed to pull image \"registry.shop.example/cart:3.2.0\": rpc error: code = NotFound desc \
         = failed to pull and unpack image \"registry.shop.example/cart:3.2.0\": failed to resolve \
         reference \"registry.shop.example/cart:3.2.0\": registry.shop.example/cart:3.2.0: not found"
    );
    data
}

#[test]
fn everything_is_shown_when_it_is_asked_for() {
    let whole = Renderer {
        whole: true,
        log_lines: usize::MAX,
        ..renderer(Some(80))
    };
    let text = lines(&whole, &pull());
    assert!(!text.contains('…'), "{text}");
    let text: String = text.split_whitespace().collect();
    let message: String = pull()["event"]["message"]
        .as_str()
        .unwrap()
        .split(' ')
        .collect();
    assert!(text.contains(&message), "{text}");
    for line in ["listeningon8080", "one", "five"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn at_80_columns_the_cause_is_read_and_no_repeat() {
    let text = lines(&renderer(Some(80)), &pull());
    assert!(text.contains("cart:3.2.0\": not found"), "{text}");
    let text = lines(&renderer(Some(80)), &event());
    assert!(
        text.ends_with("Back-off restarting failed container payment"),
        "{text}"
    );
    // A pipe is for programs, too.
    assert!(lines(&renderer(None), &pull()).contains("rpc error: code = NotFound"));
}

#[test]
fn a_fault_that_was_shown_before_is_a_line_with_a_count() {
    let repeat = Repeat {
        count: 3,
        first: "2026-11-15T09:58:00Z".parse().unwrap(),
        is_crash: true,
    };
    let notification = Notification::parse(&fault()).unwrap();
    let text = renderer(Some(120))
        .lines(&notification, Some(repeat))
        .join("\n");
    assert_eq!(
        text,
        "10:00:00 FAULT   BackOff          shop pod/payment-7d4f9c-x2k4v (x3)  the same crash as at \
         09:58:00, 3 times now"
    );
}

#[test]
fn a_fault_has_its_logs_folded_under_it() {
    insta::assert_snapshot!(lines(&renderer(None), &fault()));
}

#[test]
fn a_terminal_gets_no_line_that_is_wider() {
    insta::assert_snapshot!("wide", lines(&renderer(Some(100)), &fault()));
    insta::assert_snapshot!("eighty", lines(&renderer(Some(80)), &pull()));
    insta::assert_snapshot!("narrow", lines(&renderer(Some(40)), &fault()));
}

#[test]
fn colours_are_around_words() {
    let renderer = Renderer {
        color: true,
        show_context: true,
        ..renderer(Some(100))
    };
    let text = lines(&renderer, &fault());
    insta::assert_snapshot!(text.replace('\u{1b}', "ESC"));
}

#[test]
fn the_state_of_a_watch_is_shown() {
    let text_of = |data: Value| {
        let text = lines(&renderer(None), &data);
        text.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(
        text_of(json!({"cluster": "dev", "degraded": true, "error": "forbidden"})),
        "the watch of `dev` does not work: forbidden"
    );
    assert_eq!(
        text_of(json!({"cluster": "dev", "degraded": false})),
        "the watch of `dev` works again"
    );
    let gap =
        json!({"cluster": "dev", "gap": {"since": "2026-11-15T10:00:00Z", "detail": "too old"}});
    assert_eq!(text_of(gap), "events of `dev` may be missing: too old");
    let unlabelled =
        json!({"cluster": "dev", "unlabelled": {"kind": "Secret", "detail": "never read"}});
    assert_eq!(
        text_of(unlabelled),
        "events of `dev` may be missing: never read"
    );
    assert!(Notification::parse(&json!({"hello": "world"})).is_none());
    assert!(Notification::parse(&json!("a stranger's text")).is_none());
}

#[test]
fn no_log_lines_are_no_lines() {
    let renderer = Renderer {
        log_lines: 0,
        ..renderer(None)
    };
    let text = lines(&renderer, &fault());
    assert!(
        !text.contains("panicked") && text.contains("rust crash"),
        "{text}"
    );
}

proptest! {
    /// Whatever a workload writes: no line is wider than the terminal or has a control
    /// character.
    #[test]
    fn fuzz_lines_stay_in_their_terminal(
        whole: bool,
        words in "\\PC{0,60}|[\\x00-\\x1f\\u{80}-\\u{9f}a]{0,30}",
        width in 1_usize..120,
        count in 0_usize..6,
    ) {
        let mut data = fault();
        for place in ["/event/message", "/event/reason", "/event/involvedObject/name", "/logs/1/sample",
                      "/logs/0/signature/line", "/logs/2/error", "/context/node"] {
            *data.pointer_mut(place).unwrap() = json!(words);
        }
        let renderer = Renderer { log_lines: count, whole, ..renderer(Some(width)) };
        let notification = Notification::parse(&data).unwrap();
        for line in renderer.lines(&notification, None) {
            prop_assert!(line.chars().count() <= width, "{line:?}");
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
