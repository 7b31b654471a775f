//! Rules on the words that a crate may use, which cargo cannot enforce.

use regex::Regex;

use crate::tree::files;

#[test]
fn the_library_knows_nothing_of_kubernetes() {
    let banned = Regex::new(r"(?i)kube|\bk8s\b|\bpods?\b|pod_?logs").unwrap();
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
