use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use jiff::SignedDuration;
use kubecrier_incidents::Transition;
use serde_json::Value;

use super::*;
use crate::testing::incident;

fn notice() -> Notice {
    let mut incident = incident("web");
    incident.headline.push_str(" $(touch pwned); `id`\0");
    Notice {
        context: "dev".into(),
        at: incident.since,
        transition: Transition::Resolved {
            incident,
            after: SignedDuration::from_secs(252),
        },
    }
}

/// A program of these lines in a folder, with an argument.
fn program(folder: &tempfile::TempDir, lines: &str, timeout: Duration) -> Program {
    let path = folder.path().join("program");
    fs::write(&path, format!("#!/bin/sh\ncd \"$1\"\n{lines}\n")).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let target = ExecTarget {
        program: path,
        arguments: vec![folder.path().display().to_string()],
        passed: vec!["CARGO_MANIFEST_DIR".to_owned()],
    };
    Program::new(target, timeout, Redactor::default())
}

const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_program_gets_the_incident_on_stdin_and_its_essentials_in_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "cat > stdin; env > env";
    program(&folder, lines, LONG).run(&notice()).await.unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let stdin: Value = serde_json::from_str(&read("stdin")).unwrap();
    assert_eq!(stdin["incident"]["id"], "i-web");
    assert_eq!(stdin["incident"]["transition"], "resolved");
    let env = read("env");
    for expected in [
        "KUBECRIER_INCIDENT_STATE=resolved",
        "KUBECRIER_INCIDENT_CONTEXT=dev",
        "KUBECRIER_INCIDENT_OBJECT=shop/deployment/web",
        "KUBECRIER_INCIDENT_DURATION_SECONDS=252",
        "$(touch pwned); `id`",
        "CARGO_MANIFEST_DIR=",
        "PATH=",
    ] {
        assert!(env.contains(expected), "{expected} in {env}");
    }
    assert!(
        !env.contains("CARGO_PKG_NAME"),
        "only what is passed: {env}"
    );
    assert!(!folder.path().join("pwned").exists(), "there is no shell");
}

#[tokio::test]
async fn the_exit_code_says_whether_it_is_tried_again_and_output_is_redacted_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "echo password=hunter2-verysecret; yes | head -c 100000; exit 3";
    let failed = program(&folder, lines, LONG).run(&notice()).await;
    let Err(DeliveryError::Rejected { reason }) = failed else {
        panic!("{failed:?}")
    };
    assert!(reason.contains("exit status: 3: password="), "{reason}");
    assert!(!reason.contains("hunter2"), "{reason}");
    assert!(reason.len() < 500, "{}", reason.len());
    let failed = program(&folder, "exit 75", LONG).run(&notice()).await;
    assert!(matches!(failed, Err(DeliveryError::Unavailable { .. })));
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "sleep 300 & echo $! > child; wait";
    let short = Duration::from_millis(500);
    let failed = program(&folder, lines, short).run(&notice()).await;
    let Err(DeliveryError::Refused { reason }) = failed else {
        panic!("{failed:?}")
    };
    assert!(reason.contains("did not end within 0.5 s"), "{reason}");
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    let proc = PathBuf::from(format!("/proc/{}/stat", child.trim()));
    // A zombie has no more to run, and waits for its new parent.
    let is_gone = || !fs::read_to_string(&proc).is_ok_and(|stat| !stat.contains(") Z "));
    while !is_gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_child_that_stays_behind_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(&folder, "sleep 300 &\nexit 0", LONG);
    program.run(&notice()).await.unwrap();
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let target = ExecTarget {
        program: "/nonexistent/page".into(),
        arguments: Vec::new(),
        passed: Vec::new(),
    };
    let program = Program::new(target, LONG, Redactor::default());
    let error = program.run(&notice()).await.unwrap_err().to_string();
    assert!(
        error.contains("cannot start `/nonexistent/page`"),
        "{error}"
    );
}
