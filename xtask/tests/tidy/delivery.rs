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
        [
            "crates/mcp-notify/src/delivery.rs",
            // For a stream of one's own that cannot write a notification.
            "crates/mcp-notify/src/outbox/reader.rs",
        ]
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
        [
            "crates/server/src/resources.rs",
            "crates/server/src/resources/updates.rs"
        ]
    );
    // Every changed list is broadcast by the library's registry of observers.
    let lists = ["crates/server/src/list_changes.rs"];
    for pattern in [
        r"Notification::list_changed\(",
        r"\.broadcast",
        r"ObserverRegistry::",
    ] {
        assert_eq!(files_matching("crates/server/src", pattern), lists);
    }
}

/// S2-36: broadcasts and loops collect what failed, and remove it in two places: after a
/// broadcast of any kind, and after a notification of a session's own loop.
#[test]
fn sessions_that_failed_are_removed_in_one_place_for_each_way_to_send() {
    assert_eq!(
        files_matching("crates/mcp-notify/src", r"\bsession\.prune\(\)"),
        [
            "crates/mcp-notify/src/delivery.rs",
            "crates/mcp-notify/src/fan_out.rs"
        ]
    );
    for registry in ["observers", "logging", "resources"] {
        let file = format!("crates/mcp-notify/src/{registry}.rs");
        assert!(
            files_matching("crates/mcp-notify/src", r"\bfan_out(_if)?\(").contains(&file),
            "{file}"
        );
    }
    assert_eq!(files_matching("crates/server/src", r"\.prune\(\)"), [""; 0]);
}

/// S2-45: progress and log messages are made by their helpers.
#[test]
fn progress_and_log_messages_are_never_made_by_hand() {
    for server in ["core", "k8s", "server", "project", "kubecrier"] {
        let made = r"Method::(PROGRESS|MESSAGE)\b|Notification::progress\(";
        assert_eq!(
            files_matching(&format!("crates/{server}/src"), made),
            [""; 0]
        );
        let named = r#"Method::new\(""#;
        assert_eq!(
            files_matching(&format!("crates/{server}/src"), named),
            [""; 0]
        );
    }
}

/// S2-24: the client has roots, the server has none to tell of.
#[test]
fn changed_roots_are_never_sent() {
    let name = "roots/list_changed|ROOTS_LIST_CHANGED|RootsListChanged";
    for server in [
        "core",
        "k8s",
        "server",
        "project",
        "kubecrier",
        "mcp-notify",
    ] {
        assert_eq!(
            files_matching(&format!("crates/{server}/src"), name),
            [""; 0]
        );
    }
}

/// S1-9, S1-33: the library keeps nothing on the disk and takes nothing from the environment.
#[test]
fn the_library_reads_no_file_and_no_environment() {
    let outside = r"\b(std::|tokio::)?(fs|env|process)::|\bFile::|\benv!|\boption_env!|OpenOptions";
    assert_eq!(files_matching("crates/mcp-notify/src", outside), [""; 0]);
    for feeds in ["subscriptions", "faults"] {
        let feeds = format!("crates/core/src/{feeds}");
        assert_eq!(files_matching(&feeds, outside), [""; 0]);
    }
}
