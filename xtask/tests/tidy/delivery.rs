//! Notifications have one path to clients, and failures are handled only there.

use regex::Regex;

use crate::tree::{File, files_named};

/// The files with a line of code that matches a pattern, without tests and fixtures.
fn files_matching(folder: &str, pattern: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).unwrap();
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
        if lines.any(|line| !line.starts_with("//") && pattern.is_match(line)) {
            found.push(file.path);
        }
    }
    found.sort();
    found
}

/// One module of the library retries, records and counts failed sends, and an outbox counts
/// what it drops. No caller sends to a client by another path.
#[test]
fn no_call_site_handles_what_fails_and_nothing_stands_in_between() {
    let library = "crates/mcp-notify/src";
    assert_eq!(
        files_matching(library, r"\.abandoned\("),
        ["crates/mcp-notify/src/delivery.rs"]
    );
    assert_eq!(
        files_matching(library, r"metrics\.failed\("),
        [
            "crates/mcp-notify/src/failure.rs",
            "crates/mcp-notify/src/outbox.rs"
        ]
    );
    // Only the sink for rmcp's peer calls rmcp's own method.
    assert_eq!(
        files_matching(library, r"\.send_notification\("),
        ["crates/mcp-notify/src/rmcp.rs"]
    );
    let around = r"\.send_notification\(|\.notify_(resource|tool|prompt|logging|progress)";
    for server in ["client", "core", "k8s", "server", "project", "kubecrier"] {
        let server = format!("crates/{server}/src");
        assert_eq!(files_matching(&server, around), [""; 0]);
        assert_eq!(
            files_matching(&server, r"\bFailureReport\b|\bRetryPolicy\b"),
            [""; 0]
        );
        // A sink in the server could become an interceptor.
        assert_eq!(
            files_matching(&server, r"impl.* (NotificationSink|SessionChannel) for"),
            [""; 0]
        );
    }
    // Every update of a resource is published through the one registry of subscribers.
    assert_eq!(
        files_matching("crates/server/src", r"ResourceUpdated::new\("),
        ["crates/server/src/resources.rs"]
    );
}
