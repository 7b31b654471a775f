//! Notifications have one path to clients, and failures are handled only there.

use regex::Regex;

use crate::tree::{File, files_named};

/// Places in code, outside tests and fixtures, where this is done.
fn places(folder: &str, what: &str) -> Vec<String> {
    let what = Regex::new(what).unwrap();
    let is_product = |file: &File| {
        !file.path.ends_with("tests.rs")
            && !file.path.ends_with("testing.rs")
            && !file.path.contains("/fixtures")
    };
    let files = files_named(folder, ".rs").into_iter().filter(is_product);
    let mut found = Vec::new();
    for file in files {
        let tests = "#[cfg(test)]\nmod tests {";
        let code = file.text.split(tests).next().unwrap_or_default();
        let mut lines = code.lines().map(str::trim_start);
        if lines.any(|line| !line.starts_with("//") && what.is_match(line)) {
            found.push(file.path);
        }
    }
    found.sort();
    found
}

/// Retry, record and count are made in one place of the library, and an outbox counts
/// what it has to drop; no caller has a way to a client of its own.
#[test]
fn no_call_site_handles_what_fails_and_nothing_stands_in_between() {
    let library = "crates/mcp-notify/src";
    assert_eq!(
        places(library, r"\.abandoned\("),
        ["crates/mcp-notify/src/delivery.rs"]
    );
    assert_eq!(
        places(library, r"metrics\.failed\("),
        [
            "crates/mcp-notify/src/failure.rs",
            "crates/mcp-notify/src/outbox.rs"
        ]
    );
    // What rmcp takes notifications with is named where a sink is made of it.
    assert_eq!(
        places(library, r"\.send_notification\("),
        ["crates/mcp-notify/src/rmcp.rs"]
    );
    let around = r"\.send_notification\(|\.notify_(resource|tool|prompt|logging|progress)";
    for server in ["client", "core", "k8s", "server", "project", "kubecrier"] {
        let server = format!("crates/{server}/src");
        assert_eq!(places(&server, around), [""; 0]);
        assert_eq!(
            places(&server, r"\bFailureReport\b|\bRetryPolicy\b"),
            [""; 0]
        );
        // A sink of our own could become an interceptor.
        assert_eq!(
            places(&server, r"impl.* (NotificationSink|SessionChannel) for"),
            [""; 0]
        );
    }
    // Every change of a resource is told through the one registry of subscribers.
    assert_eq!(
        places("crates/server/src", r"ResourceUpdated::new\("),
        ["crates/server/src/resources.rs"]
    );
}
