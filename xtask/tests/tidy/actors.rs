//! On whose behalf clusters are asked.

use crate::tree::files_named;

/// The places above `k8s` that ask a cluster for the server itself, and not for a caller: what
/// they get must reach no caller who may not read it.
const FOR_THE_SERVER: [&str; 4] = [
    // The namespaces of incidents that all callers share, closed to callers who act as themselves.
    "crates/server/src/incidents.rs",
    // What is kept of events, which is not offered to callers who act as themselves.
    "crates/server/src/history/recorder.rs",
    "crates/server/src/history/resume.rs",
    // A command for people, with their own kubeconfig.
    "crates/kubecrier/src/doctor.rs",
];

#[test]
fn callers_are_never_answered_with_the_rights_of_the_server() {
    let mut found: Vec<_> = files_named("", ".rs")
        .into_iter()
        .filter(|file| !file.path.starts_with("crates/k8s/") && !file.path.starts_with("xtask/"))
        .filter(|file| file.text.contains("Actor::Server"))
        .map(|file| file.path)
        .collect();
    found.sort();
    let mut expected = FOR_THE_SERVER.map(str::to_owned);
    expected.sort();
    assert_eq!(
        found, expected,
        "a request for a caller takes the caller's own actor"
    );
}
