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
    }
}

fn lines(renderer: &Renderer, data: &Value) -> String {
    renderer
        .lines(&Notification::parse(data).unwrap())
        .join("\n")
}

fn event() -> Value {
    json!({"cluster": "dev", "event": {
        "namespace": "shop",
        "timestamp": "2026-11-15T10:00:00Z",
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off restarting failed container payment in pod payment-7d4f9c-x2k4v_shop",
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

#[test]
fn a_fault_has_its_logs_folded_under_it() {
    insta::assert_snapshot!(lines(&renderer(None), &fault()));
}

#[test]
fn a_terminal_gets_no_line_that_is_wider() {
    insta::assert_snapshot!("wide", lines(&renderer(Some(100)), &fault()));
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
        words in "\\PC{0,60}|[\\x00-\\x1f\\u{80}-\\u{9f}a]{0,30}",
        width in 1_usize..120,
        count in 0_usize..6,
    ) {
        let mut data = fault();
        for place in ["/event/message", "/event/reason", "/event/involvedObject/name", "/logs/1/sample",
                      "/logs/0/signature/line", "/logs/2/error", "/context/node"] {
            *data.pointer_mut(place).unwrap() = json!(words);
        }
        let renderer = Renderer { log_lines: count, ..renderer(Some(width)) };
        for line in renderer.lines(&Notification::parse(&data).unwrap()) {
            prop_assert!(line.chars().count() <= width, "{line:?}");
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
