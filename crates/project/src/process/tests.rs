//! Processes that behave, and those that do not.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;

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

    fn job(&self, script: &str, timeout: Duration) -> Job {
        let program = self.dir.path().join("tool");
        fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Job {
            program,
            folder: self.dir.path().to_owned(),
            arguments: vec!["first".into()],
            stdin: Bytes::from_static(b"{\"a\": 1}"),
            environment: Environment::inherited(&[])
                .with("KUBECRIER_ARG_A", "1")
                .into_vec(),
            timeout,
        }
    }

    async fn run(&self, script: &str) -> (Result<Ended, RunError>, Vec<Said>) {
        self.run_for(script, Duration::from_secs(20)).await
    }

    async fn run_for(&self, script: &str, time: Duration) -> (Result<Ended, RunError>, Vec<Said>) {
        let mut heard = Vec::new();
        let running = self.runner.start(self.job(script, time)).await.unwrap();
        let ended = running.finish(|said| heard.push(said)).await;
        (ended, heard)
    }
}

fn text(ended: &Ended) -> &str {
    std::str::from_utf8(&ended.stdout).unwrap()
}

/// Waits until no process has that id any more.
async fn gone(file: &Path) -> bool {
    let id = fs::read_to_string(file).unwrap();
    let gone = async {
        loop {
            let status = fs::read_to_string(format!("/proc/{}/status", id.trim()));
            // One that nobody waits for yet is dead all the same.
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
async fn a_tool_is_given_what_it_needs_and_nothing_else() {
    let bench = Bench::new(1);
    let (ended, heard) = bench
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
    assert_eq!(ended.complaints, ["oops"]);
    assert!(heard.contains(&Said::Line("oops".to_owned())));
    let half = Progress {
        progress: 1.0,
        total: Some(2.0),
        message: Some("half way".to_owned()),
    };
    assert!(heard.contains(&Said::Progress(half)), "{heard:?}");
    assert_eq!(bench.runner.running(), 0);
}

#[tokio::test]
async fn how_it_ended_is_told() {
    let bench = Bench::new(1);
    let (failed, _) = bench.run("echo partly; exit 7").await;
    let failed = failed.unwrap();
    assert_eq!(
        (text(&failed), describe(failed.status)),
        ("partly\n", "it ended with exit code 7".to_owned())
    );
    let (killed, _) = bench.run("kill -SEGV $$").await;
    assert_eq!(
        describe(killed.unwrap().status),
        "it was ended by signal 11"
    );
    let mut job = bench.job("", Duration::from_secs(5));
    job.program = bench.dir.path().join("nothing");
    let running = bench.runner.start(job).await.unwrap();
    assert!(matches!(
        running.finish(|_| {}).await,
        Err(RunError::Start(_))
    ));
}

#[tokio::test]
async fn one_that_takes_too_long_is_ended_even_if_it_does_not_listen() {
    let bench = Bench::new(1);
    let script =
        "trap '' TERM; echo $$ > me; sleep 1000 & echo $! > child; while true; do sleep 1; done";
    let (ended, _) = bench.run_for(script, Duration::from_millis(700)).await;
    assert!(matches!(ended, Err(RunError::Timeout(_))), "{ended:?}");
    assert!(gone(&bench.dir.path().join("me")).await);
    assert!(gone(&bench.dir.path().join("child")).await);
}

#[tokio::test]
async fn one_that_floods_is_ended() {
    let bench = Bench::new(1);
    let (ended, _) = bench.run("echo $$ > me; yes").await;
    assert!(
        matches!(ended, Err(RunError::Flood(OUTPUT_MAX))),
        "{ended:?}"
    );
    assert!(gone(&bench.dir.path().join("me")).await);
    let (ended, heard) = bench.run("yes | head -c 400000 >&2; echo done").await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(heard.len() <= LINES_MAX + 1, "{}", heard.len());
}

#[tokio::test]
async fn what_it_leaves_behind_neither_lives_on_nor_holds_up() {
    let bench = Bench::new(1);
    let began = Instant::now();
    let (ended, _) = bench
        .run("(trap '' TERM; sleep 1000) & echo $! > child; echo done")
        .await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(gone(&bench.dir.path().join("child")).await);
    // One that left its group cannot be found, but it holds up nobody.
    let (ended, _) = bench.run("setsid sleep 20 & echo done").await;
    assert_eq!(text(&ended.unwrap()), "done\n");
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn whoever_goes_takes_the_process_with_them() {
    let bench = Bench::new(1);
    let job = bench.job(
        "sleep 1000 & echo $! > child; echo $$ > me; echo up >&2; wait",
        Duration::from_mins(1),
    );
    let mut running = bench.runner.start(job).await.unwrap();
    assert_eq!(running.said.recv().await, Some(Said::Line("up".to_owned())));
    assert_eq!(bench.runner.running(), 1);
    drop(running);
    assert!(gone(&bench.dir.path().join("me")).await);
    assert!(gone(&bench.dir.path().join("child")).await);
    bench.runner.lifecycle.ended().await;
    assert_eq!(bench.runner.running(), 0, "its place is free again");
}

#[tokio::test]
async fn only_so_many_run_at_once() {
    let bench = Bench::new(1);
    let job = bench.job("echo up >&2; exec sleep 1000", Duration::from_mins(1));
    let mut first = bench.runner.start(job).await.unwrap();
    first.said.recv().await.unwrap();
    let second = bench.job("true", Duration::from_millis(50));
    let refused = bench.runner.start(second).await;
    assert!(matches!(refused, Err(RunError::Busy(1))));
    drop(first);
    assert!(bench.run("true").await.0.is_ok());
}

#[test]
fn what_is_too_long_for_an_environment_is_left_out() {
    let all = Environment::default()
        .with("LONG", "x".repeat(VARIABLE_MAX + 1))
        .with("NUL", "a\0b")
        .with("FINE", "x");
    assert_eq!(all.into_vec(), [("FINE".to_owned(), OsString::from("x"))]);
}
