use std::{fs, path::Path, time::Duration};

use super::*;

fn job(id: &str, input: &str) -> Job {
    Job {
        key: Key {
            cluster: "dev".to_owned(),
            id: id.to_owned(),
        },
        input: input.to_owned(),
        environment: vec![("KUBECRIER_INCIDENT_ID", id.to_owned())],
    }
}

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).to_vec()
}

const NO_NOTES: [&str; 0] = [];

/// Waits for what another process does.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to that");
}

fn is_running(pid: &str) -> bool {
    // A process that nobody has waited for yet is dead all the same.
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    status.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn each_gets_its_input_and_its_variables_and_no_shell_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out");
    let script = format!(
        "echo \"$KUBECRIER_INCIDENT_ID $1\" >> '{0}'; cat >> '{0}'",
        file.display()
    );
    let mut words = shell(&script);
    words.extend(["name", "$(a) 'word'"].map(OsString::from));
    let mut runner = Runner::new(words, 1);
    for id in ["i-1", "i-2"] {
        let input = format!("{{\"id\":\"{id}\"}}");
        assert_eq!(runner.enqueue(job(id, &input)), None);
    }
    assert_eq!(runner.finish().await, NO_NOTES);
    let text = fs::read_to_string(file).unwrap();
    let one = |id: &str| format!("{id} $(a) 'word'\n{{\"id\":\"{id}\"}}\n");
    assert_eq!(text, format!("{}{}", one("i-1"), one("i-2")));
    assert!(!runner.has_failed());
}

/// Each program adds a file, counts the files, and removes its own.
#[tokio::test]
async fn no_more_run_at_once_than_allowed_and_never_two_of_an_incident() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().display();
    let script = format!(
        "cd '{here}'; mkdir $KUBECRIER_INCIDENT_ID || exit 3; test $(ls | wc -l) -le 2 || exit 4; \
         sleep 0.05; rmdir $KUBECRIER_INCIDENT_ID"
    );
    let mut runner = Runner::new(shell(&script), 2);
    for id in ["i-1", "i-1", "i-2", "i-3", "i-2", "i-4"] {
        assert_eq!(runner.enqueue(job(id, "")), None);
    }
    assert_eq!(runner.finish().await, NO_NOTES);
}

#[tokio::test]
async fn what_waits_stands_once_in_the_queue_as_it_is_by_then() {
    let dir = tempfile::tempdir().unwrap();
    let (file, go) = (dir.path().join("out"), dir.path().join("go"));
    let script = format!(
        "cat >> '{}'; while ! test -e '{}'; do sleep 0.01; done",
        file.display(),
        go.display()
    );
    let mut runner = Runner::new(shell(&script), 1);
    for (id, input) in [("i-1", "one"), ("i-2", "two"), ("i-3", "three")] {
        assert_eq!(runner.enqueue(job(id, input)), None);
    }
    assert!(runner.update(&job("i-2", "two, worse")));
    assert!(!runner.update(&job("i-1", "it runs")), "it has begun");
    assert!(runner.forget(&job("i-3", "").key));
    assert!(!runner.forget(&job("i-3", "").key));
    fs::write(go, "").unwrap();
    assert_eq!(runner.finish().await, NO_NOTES);
    assert_eq!(fs::read_to_string(file).unwrap(), "one\ntwo, worse\n");
}

#[tokio::test]
async fn a_failure_is_told_with_its_code_and_a_full_queue_too() {
    let mut runner = Runner::new(shell("exit 7"), 1);
    assert_eq!(runner.enqueue(job("i-1", "{}")), None);
    let note = runner.next_failure().await;
    assert_eq!(note, "i-1: `sh` ended with exit status: 7");
    assert!(runner.has_failed());
    let mut runner = Runner::new(vec!["cat > file".into()], 1);
    runner.enqueue(job("i-1", "{}"));
    let note = runner.next_failure().await;
    assert!(note.contains("--exec sh -c"), "{note}");
    let mut runner = Runner::new(shell("sleep 60"), 1);
    for number in 0..=QUEUE_MAX {
        assert_eq!(runner.enqueue(job(&format!("i-{number}"), "")), None);
    }
    let note = runner.enqueue(job("i-last", "")).unwrap();
    assert!(
        note.contains("i-last") && note.contains("--exec-at-once"),
        "{note}"
    );
    assert_eq!(
        runner.enqueue(job("i-100", "changed")),
        None,
        "it waits already"
    );
    runner.end().await;
}

#[tokio::test]
async fn the_end_takes_what_a_program_has_started_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    // The shell ignores what it is asked; its child is of the same group.
    let script = format!(
        "trap '' TERM; sleep 600 & echo $$ $! > '{0}.part'; mv '{0}.part' '{0}'; wait; wait",
        file.display()
    );
    let mut runner = Runner::new(shell(&script), 1);
    runner.enqueue(job("i-1", ""));
    runner.enqueue(job("i-2", ""));
    until(|| file.exists()).await;
    let pids = fs::read_to_string(&file).unwrap();
    let pids: Vec<_> = pids.split_whitespace().collect();
    assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    fs::remove_file(&file).unwrap();
    runner.end().await;
    until(|| !pids.iter().any(|pid| is_running(pid))).await;
    assert!(!file.exists(), "what waited was never started");
}
