//! Processes within their limits, and beyond them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::{item::Program, safety::PathChecker};

const OUTPUT_MAX: usize = 64 * 1024;

struct Bench {
    dir: tempfile::TempDir,
    runner: Runner,
}

impl Bench {
    fn new(max: usize) -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            runner: Runner::new(Lifecycle::default(), max, OUTPUT_MAX),
        }
    }

    fn spec(&self, script: &str, timeout: Duration) -> ProcessSpec {
        let path = self.dir.path().join("tool");
        fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let checker = PathChecker::new(self.dir.path()).unwrap();
        let program = Program {
            root: self.dir.path().to_owned(),
            path,
            folder: self.dir.path().to_owned(),
            file: "tool".to_owned(),
            digest: String::new(),
        };
        ProcessSpec {
            program: checker.open_program(&program).unwrap(),
            arguments: vec!["first".into()],
            stdin: Bytes::from_static(b"{\"a\": 1}"),
            environment: Environment::inherited(&[]).with("KUBECRIER_ARG_A", "1"),
            timeout,
        }
    }

    async fn run(&self, script: &str) -> (Result<ProcessOutput, RunError>, Vec<ProcessEvent>) {
        self.run_for(script, Duration::from_secs(20)).await
    }

    async fn run_for(
        &self,
        script: &str,
        time: Duration,
    ) -> (Result<ProcessOutput, RunError>, Vec<ProcessEvent>) {
        let mut events = Vec::new();
        let running = self.runner.start(self.spec(script, time)).await.unwrap();
        let ended = running.wait_with(|event| events.push(event)).await;
        (ended, events)
    }
}

fn text(ended: &ProcessOutput) -> &str {
    std::str::from_utf8(&ended.stdout).unwrap()
}

/// Waits until no process has that id any more.
async fn gone(file: &Path) -> bool {
    let id = fs::read_to_string(file).unwrap();
    let gone = async {
        loop {
            let status = fs::read_to_string(format!("/proc/{}/status", id.trim()));
            // A zombie is dead, whether or not it was waited for.
            if status.map_or(true, |status| status.contains("State:\tZ")) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .is_ok()
}

#[tokio::test]
async fn a_process_gets_its_input_and_environment_and_nothing_else() {
    let bench = Bench::new(1);
    let (ended, events) = bench
        .run(
            "cat; echo; echo $1 $KUBECRIER_ARG_A; pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; \
              echo oops >&2; echo '1/2 half way' >&$KUBECRIER_PROGRESS",
        )
        .await;
    let ended = ended.unwrap();
    assert!(ended.status.success());
    let folder = bench.dir.path().canonicalize().unwrap();
    assert_eq!(
        text(&ended),
        format!(
            "{{\"a\": 1}}\nfirst 1\n{}\nKUBECRIER_ARG_A KUBECRIER_PROGRESS PATH PWD SHLVL _ ",
            folder.display()
        )
    );
    assert_eq!(ended.stderr_tail, ["oops"]);
    assert!(events.contains(&ProcessEvent::Log("oops".to_owned())));
    let half = Progress {
        progress: 1.0,
        total: Some(2.0),
        message: Some("half way".to_owned()),
    };
    assert!(events.contains(&ProcessEvent::Progress(half)), "{events:?}");
    assert_eq!(bench.runner.running(), 0);
}

#[tokio::test]
async fn the_exit_status_is_described() {
    let bench = Bench::new(1);
    let (failed, _) = bench.run("echo partly; exit 7").await;
    let failed = failed.unwrap();
    assert_eq!(
        (text(&failed), describe_exit(failed.status)),
        ("partly\n", "it ended with exit code 7".to_owned())
    );
    let (killed, _) = bench.run("kill -SEGV $$").await;
    assert_eq!(
        describe_exit(killed.unwrap().status),
        "it was ended by signal 11"
    );
    let spec = bench.spec("", Duration::from_secs(5));
    fs::remove_file(bench.dir.path().join("tool")).unwrap();
    let running = bench.runner.start(spec).await.unwrap();
    assert!(matches!(
        running.wait_with(|_| {}).await,
        Err(RunError::Start(_))
    ));
}

#[tokio::test]
async fn a_timeout_kills_a_process_that_ignores_sigterm() {
    let bench = Bench::new(1);
    let script =
        "trap '' TERM; echo $$ > me; sleep 1000 & echo $! > child; while true; do sleep 1; done";
    let (ended, _) = bench.run_for(script, Duration::from_millis(700)).await;
    assert!(matches!(ended, Err(RunError::Timeout(_))), "{ended:?}");
    assert!(gone(&bench.dir.path().join("me")).await);
    assert!(gone(&bench.dir.path().join("child")).await);
}

#[tokio::test]
async fn too_much_output_stops_the_process() {
    let bench = Bench::new(1);
    let (ended, _) = bench.run("echo $$ > me; yes").await;
    assert!(
        matches!(ended, Err(RunError::OutputTooLarge(OUTPUT_MAX))),
        "{ended:?}"
    );
    assert!(gone(&bench.dir.path().join("me")).await);
    let (ended, events) = bench.run("yes | head -c 400000 >&2; echo done").await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(events.len() <= LINES_MAX + 1, "{}", events.len());
}

#[tokio::test]
async fn children_left_behind_are_ended_and_delay_nothing() {
    let bench = Bench::new(1);
    let began = Instant::now();
    let (ended, _) = bench
        .run("(trap '' TERM; sleep 1000) & echo $! > child; echo done")
        .await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(gone(&bench.dir.path().join("child")).await);
    // A child that left the group cannot be found, but it does not delay the result.
    let (ended, _) = bench.run("setsid sleep 20 & echo done").await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn dropping_the_handle_ends_the_process() {
    let bench = Bench::new(1);
    let spec = bench.spec(
        "sleep 1000 & echo $! > child; echo $$ > me; echo up >&2; wait",
        Duration::from_mins(1),
    );
    let mut running = bench.runner.start(spec).await.unwrap();
    assert_eq!(
        running.next_event().await,
        Some(ProcessEvent::Log("up".to_owned()))
    );
    assert_eq!(bench.runner.running(), 1);
    drop(running);
    assert!(gone(&bench.dir.path().join("me")).await);
    assert!(gone(&bench.dir.path().join("child")).await);
    bench.runner.lifecycle.join_tasks().await;
    assert_eq!(bench.runner.running(), 0, "its permit is free again");
}

#[tokio::test]
async fn the_number_of_processes_is_limited() {
    let bench = Bench::new(1);
    let spec = bench.spec("echo up >&2; exec sleep 1000", Duration::from_mins(1));
    let mut first = bench.runner.start(spec).await.unwrap();
    first.next_event().await.unwrap();
    let second = bench.spec("true", Duration::from_millis(50));
    let refused = bench.runner.start(second).await;
    assert!(matches!(refused, Err(RunError::TooManyProcesses(1))));
    drop(first);
    assert!(bench.run("true").await.0.is_ok());
}

#[tokio::test]
async fn an_environment_that_is_too_large_is_named() {
    let bench = Bench::new(1);
    let mut spec = bench.spec("true", Duration::from_secs(5));
    for number in 0..60 {
        let name = format!("KUBECRIER_ARG_{number}");
        spec.environment = spec.environment.with(name, "x".repeat(VARIABLE_MAX));
    }
    // The limit follows the size of the stack, which a machine may set to any value.
    match bench.runner.start(spec).await.unwrap().wait().await {
        Ok(output) => assert!(output.status.success()),
        Err(error) => assert!(error.to_string().contains("--tool-env"), "{error}"),
    }
}

#[test]
fn variables_that_cannot_be_passed_are_left_out() {
    let all = Environment::default()
        .with("LONG", "x".repeat(VARIABLE_MAX + 1))
        .with("NUL", "a\0b")
        .with("FINE", "x");
    assert_eq!(all.0, [("FINE".to_owned(), OsString::from("x"))]);
}
