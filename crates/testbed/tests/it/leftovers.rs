//! Nothing is left running, however the owner ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::time::{sleep, timeout};

/// Processes that mention the folder on their command line.
fn processes_about(folder: &Path) -> Vec<String> {
    let needle = folder.to_str().unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| line.replace('\0', " "))
        .filter(|line| line.contains(needle))
        .collect()
}

#[tokio::test]
async fn a_killed_owner_leaves_nothing_behind() {
    if testbed::shared().is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut owner = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["up", "--kubeconfig"])
        .arg(scratch.path().join("kubeconfig"))
        .env("TMPDIR", scratch.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log_lines = BufReader::new(owner.stderr.take().unwrap()).lines();
    let mut log_lines = log_lines.map_while(Result::ok);
    let ready = log_lines.find(|line| line.contains("ready after"));
    assert!(ready.is_some(), "the clusters did not start");
    let data = || {
        let names = fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_str().unwrap().starts_with("kubecrier-testbed-"))
            .count()
    };
    assert_eq!(data(), 2, "two clusters keep their data there");
    assert!(
        processes_about(scratch.path()).len() >= 4,
        "two etcds and two API servers"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    let gone = async {
        while data() > 0 || !processes_about(scratch.path()).is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), gone)
        .await
        .unwrap_or_else(|_| {
            panic!(
                "still there: {} folders, {:?}",
                data(),
                processes_about(scratch.path())
            )
        });
}
