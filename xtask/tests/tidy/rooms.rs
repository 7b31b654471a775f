//! Rooms that may not see each other's vendor.

use regex::Regex;

use crate::tree::{File, files, files_named};

/// Lines of code that match; comments may name what they like.
fn offenders(file: &File, banned: &Regex) -> Vec<String> {
    file.text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//") && banned.is_match(line))
        .map(|(index, line)| format!("{}:{}: {}", file.path, index + 1, line.trim()))
        .collect()
}

#[track_caller]
fn only_in(room: &str, banned: &str) {
    let banned = Regex::new(banned).unwrap();
    let inside = |path: &str| {
        path.strip_prefix("crates/kubecrier/src/")
            .is_some_and(|rest| {
                rest == format!("{room}.rs") || rest.starts_with(&format!("{room}/"))
            })
    };
    let (room_files, others): (Vec<_>, Vec<_>) = files_named("crates/kubecrier/src", ".rs")
        .into_iter()
        .partition(|f| inside(&f.path));
    assert!(
        room_files
            .iter()
            .any(|file| !offenders(file, &banned).is_empty()),
        "`{room}` does not name it either: is the rule still about something?"
    );
    let found: Vec<_> = others
        .iter()
        .flat_map(|file| offenders(file, &banned))
        .collect();
    assert!(
        found.is_empty(),
        "only `{room}` may name this:\n{}",
        found.join("\n")
    );
}

#[test]
fn only_the_cluster_room_names_kube() {
    only_in("cluster", r"\bkube::|\bk8s_openapi\b");
}

#[test]
fn only_the_mcp_room_names_rmcp() {
    only_in("mcp", r"\brmcp\b");
}

/// What people are shown has been over the wire: the view knows of the server what any
/// client knows.
#[test]
fn only_the_watch_room_is_a_client() {
    only_in("watch", r"\bhyper_rustls\b|\bsse_stream\b|client::legacy");
    let inside =
        Regex::new(r"crate::(cluster|subscriptions::Subscription|faults|lifecycle)\b").unwrap();
    let found: Vec<_> = files_named("crates/kubecrier/src/watch", ".rs")
        .iter()
        .flat_map(|file| offenders(file, &inside))
        .collect();
    assert!(
        found.is_empty(),
        "the view takes a shortcut into the server:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_library_knows_nothing_of_kubernetes() {
    let banned = Regex::new(r"(?i)kube|\bk8s\b|\bpods?\b").unwrap();
    let ours = Regex::new(r"(?i)kubecrier").unwrap();
    let mut found = Vec::new();
    for file in files("crates/mcp-notify") {
        for (index, line) in file.text.lines().enumerate() {
            if banned.is_match(&ours.replace_all(line, "")) {
                found.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "mcp-notify is for any server:\n{}",
        found.join("\n")
    );
}
