//! Behaviour on a machine without a control plane.

use std::{
    env,
    process::{Command, Output},
};

/// Runs a command in an environment without a control plane.
fn without_a_control_plane(command: &mut Command) -> Output {
    let empty = tempfile::tempdir().unwrap();
    command
        .env("KUBEBUILDER_ASSETS", empty.path())
        .output()
        .unwrap()
}

/// Runs one test of this binary that needs the testbed.
fn one_test() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", "rights::rbac_decides"])
        .env_remove("TESTBED_REQUIRED");
    command
}

fn combined_output(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn a_test_without_a_testbed_is_skipped_and_says_so_unless_it_is_required() {
    let reason = "which has no etcd and kube-apiserver";
    let plain = without_a_control_plane(&mut one_test());
    let text = combined_output(&plain);
    assert!(plain.status.success(), "{text}");
    assert!(
        text.contains("skipped: ") && text.contains(reason),
        "{text}"
    );
    assert!(text.contains("1 passed"), "{text}");
    // The variable `CI` has no effect.
    for ci in ["true", "false", ""] {
        let mut required = one_test();
        required.env("TESTBED_REQUIRED", "1").env("CI", ci);
        let required = without_a_control_plane(&mut required);
        let text = combined_output(&required);
        assert!(!required.status.success(), "{text}");
        assert!(text.contains(reason) && text.contains("1 failed"), "{text}");
    }
}

#[test]
fn preparing_and_conformance_fail_where_something_is_missing() {
    for arguments in [&["prepare"][..], &["conformance", "server"]] {
        let mut testbed = Command::new(env!("CARGO_BIN_EXE_testbed"));
        let output = without_a_control_plane(testbed.args(arguments).env("CI", "false"));
        let text = combined_output(&output);
        assert!(!output.status.success(), "{arguments:?}: {text}");
        assert!(text.contains("kube-apiserver"), "{arguments:?}: {text}");
    }
}
