//! `kubecrier watch --incidents` as what starts an agent: lines, programs, the first one.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Cluster, User, namespace, pod};

use crate::{
    harness::{Demo, Server, Watch, command, one_context},
    incident_watch::{break_pod, mend_pod},
};

/// A namespace with pods, the first of which is broken from the beginning.
async fn pods(cluster: &Cluster, space: &str, names: &[&str]) {
    let space_object = namespace(space);
    cluster.create_cluster_wide(&space_object).await.unwrap();
    for name in names {
        cluster.create(&pod(space, name, &["app"])).await.unwrap();
    }
    break_pod(cluster, space, names[0]).await;
}

/// `watch --incidents` in a namespace, for more flags.
fn incidents(kubeconfig: &Path, space: &str) -> Command {
    let mut watch = command();
    watch
        .args(["watch", "--incidents", "-n", space, "--kubeconfig"])
        .arg(kubeconfig)
        .env("PATH", std::env::var_os("PATH").unwrap());
    watch
}

async fn until(what: impl Fn() -> bool, why: impl Fn() -> String) {
    for _ in 0..3_000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{}", why());
}

#[tokio::test]
async fn an_incident_is_one_short_line_each_time_it_is_opened() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "bridge-lines");
    pods(cluster, space, &["before", "web"]).await;
    let file = one_context(cluster, User::Admin);
    let start = |flags: &[&str]| {
        let mut watch = incidents(&file.path, space);
        Watch::start(watch.args(["-o", "brief"]).args(flags))
    };
    let (mut opened, mut both) = (start(&[]), start(&["--resolved"]));
    for _ in 0..2 {
        break_pod(cluster, space, "web").await;
        let (line, also) = (opened.line(), both.line());
        let object = format!(" {space}/pod/web: ");
        assert!(
            line.contains(&object) && also.contains(&object),
            "{line}\n{also}"
        );
        assert!(line.contains("More: faults_get with faultId i-"), "{line}");
        assert!(line.len() < 500 && !line.contains("hunter2"), "{line}");
        mend_pod(cluster, space, "web").await;
        let over = both.line();
        assert!(
            over.starts_with("resolved ") && over.contains(&object),
            "{over}"
        );
    }
}

#[tokio::test]
async fn the_first_ends_the_watch_and_the_next_one_goes_on_where_it_ended() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "bridge-first");
    pods(cluster, space, &["before", "one", "two", "three"]).await;
    let file = one_context(cluster, User::Admin);
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("told");
    let start = || {
        let mut watch = incidents(&file.path, space);
        watch.args(["--first", "-o", "brief", "--told"]).arg(&told);
        Watch::start(&mut watch)
    };
    let ends = async |mut watch: Watch, pod: &str| {
        let line = watch.line();
        assert!(line.contains(&format!("{space}/pod/{pod}: ")), "{line}");
        let status = watch.server.exit().await;
        assert_eq!(status.code(), Some(0), "{}", watch.server.log());
    };
    let first = start();
    break_pod(cluster, space, "one").await;
    ends(first, "one").await;
    // Nobody listens.
    break_pod(cluster, space, "two").await;
    ends(start(), "two").await;
    let third = start();
    break_pod(cluster, space, "three").await;
    ends(third, "three").await;
    let nowhere = dir.path().join("nowhere/told");
    let mut watch = incidents(&file.path, space);
    let refused = watch.args(["--first", "--told"]).arg(nowhere).output();
    let refused = refused.unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{error}");
    assert!(error.contains("hint: --told"), "{error}");
}

#[tokio::test]
async fn a_program_runs_once_for_an_incident_and_ends_with_the_watch() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "bridge-exec");
    pods(cluster, space, &["before", "web", "next"]).await;
    let file = one_context(cluster, User::Admin);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    // The line of JSON, the variables, and the ids of what it has started.
    let script = format!(
        "cat > '{0}.part'; env | grep KUBECRIER_INCIDENT_ | sort >> '{0}.part'; sleep 600 & \
         echo $$ $! >> '{0}.part'; mv '{0}.part' '{0}'; wait",
        out.display()
    );
    let mut watch = incidents(&file.path, space);
    let watch = Watch::start(watch.args(["--exec", "sh", "-c", &script]));
    break_pod(cluster, space, "web").await;
    until(|| out.exists(), || watch.server.log()).await;
    let text = fs::read_to_string(&out).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let incident: Value = serde_json::from_str(lines[0]).unwrap();
    let incident = &incident["incident"];
    assert_eq!(incident["transition"], "opened", "{incident}");
    let object = format!("{space}/pod/web");
    for (name, value) in [
        ("ID", incident["id"].as_str().unwrap()),
        ("STATE", "opened"),
        ("SEVERITY", incident["severity"].as_str().unwrap()),
        ("OBJECT", &object),
        ("CONTEXT", "dev"),
        ("HEADLINE", incident["headline"].as_str().unwrap()),
    ] {
        let line = format!("KUBECRIER_INCIDENT_{name}={value}");
        assert!(lines.contains(&line.as_str()), "{line}: {text}");
    }
    // The next one waits, and is over before its turn.
    let mut other = incidents(&file.path, space);
    let mut other = Watch::start(other.args(["-o", "brief"]));
    break_pod(cluster, space, "next").await;
    assert!(other.line().contains("/pod/next: "));
    mend_pod(cluster, space, "next").await;
    watch
        .server
        .wait_for("is over, its program was not started");
    let pids: Vec<_> = lines.last().unwrap().split(' ').collect();
    let is_running = |pid: &&str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    assert!(pids.len() == 2 && pids.iter().all(is_running), "{pids:?}");
    let mut server = watch.server;
    server.signal(Signal::INT);
    assert_eq!(server.exit().await.code(), Some(0));
    until(
        || !pids.iter().any(is_running),
        || format!("{pids:?} go on"),
    )
    .await;
}

#[tokio::test]
async fn a_program_that_fails_is_told_and_fails_the_first() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "bridge-fails");
    pods(cluster, space, &["before", "web"]).await;
    let file = one_context(cluster, User::Admin);
    let mut watch = incidents(&file.path, space);
    let mut watch = Watch::start(watch.args(["--first", "--exec", "sh", "-c", "exit 7"]));
    break_pod(cluster, space, "web").await;
    watch.server.wait_for("`sh` ended with exit status: 7");
    let status = watch.server.exit().await;
    assert_eq!(status.code(), Some(1), "{}", watch.server.log());
}

/// The address is in the environment, as it is for a hook of an agent; a program of `--exec` may
/// be kubecrier again.
#[test]
fn a_url_in_the_environment_is_watched_and_a_named_cluster_wins() {
    let demo = Demo::start("0", "4");
    let run = |flags: &[&str]| {
        let mut watch = command();
        watch.args(["watch", "-A", "--incidents"]).args(flags);
        watch
            .env("KUBECRIER_URL", &demo.url)
            .env("KUBECRIER_INCIDENT_ID", "i-0");
        watch.stdin(Stdio::null()).output().unwrap()
    };
    let told = run(&["--first", "-o", "json"]);
    let text = String::from_utf8(told.stdout).unwrap();
    let incident: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(incident["incident"]["transition"], "opened", "{incident}");
    assert_eq!(told.status.code(), Some(0));
    let named = run(&["--first", "--kubeconfig", "/nonexistent/kubeconfig"]);
    let error = String::from_utf8(named.stderr).unwrap();
    assert_ne!(named.status.code(), Some(0));
    assert!(error.contains("/nonexistent/kubeconfig"), "{error}");
}

/// An agent that is killed leaves nothing behind that listens.
#[tokio::test]
async fn a_watch_ends_with_its_reader_and_not_at_the_next_line() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "bridge-reader");
    pods(cluster, space, &["before"]).await;
    let file = one_context(cluster, User::Admin);
    let mut watch = incidents(&file.path, space);
    watch.args(["-o", "brief"]).stdout(Stdio::piped());
    let mut server = Server::start(watch.stdin(Stdio::null()));
    let reader = server.stdout();
    server.wait_for("-- watching");
    assert!(server.is_running());
    drop(reader);
    assert_eq!(server.exit().await.code(), Some(0));
}

#[test]
fn flags_that_need_another_one_say_so() {
    for (flags, expected) in [
        (vec!["-o", "brief"], "--incidents"),
        (vec!["--first"], "--incidents"),
        (vec!["--incidents", "--told", "file"], "--told is for"),
        (vec!["--incidents", "--resolved"], "--resolved is for"),
        (vec!["--token-file", "file"], "KUBECRIER_URL"),
        (vec!["--exec-at-once", "2"], "--exec"),
    ] {
        let refused = command().arg("watch").args(&flags).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(64), "{flags:?}: {error}");
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[test]
fn the_files_of_an_agent_are_shown_first_and_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let init = |agent: &str, flags: &[&str]| {
        let mut init = command();
        init.args(["init", "--agent", agent]).args(flags);
        let done = init.current_dir(&dir).output().unwrap();
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{error}");
        String::from_utf8(done.stdout).unwrap()
    };
    for (agent, file) in [
        ("claude", ".claude/plugins/kubecrier/monitors/monitors.json"),
        ("codex", ".codex/kubecrier-watch.sh"),
        ("opencode", ".opencode/plugins/kubecrier.js"),
        ("copilot", ".github/extensions/kubecrier/extension.mjs"),
        ("gemini", ".gemini/kubecrier/hooks/hooks.json"),
    ] {
        let shown = init(agent, &[]);
        assert!(shown.contains("--yes writes them"), "{shown}");
        assert!(!dir.path().join(file).exists(), "{shown}");
        let written = init(agent, &["--yes"]);
        assert!(written.contains(&format!("{file}: written")), "{written}");
        let again = init(agent, &["--yes", "--force"]);
        assert!(
            !again.contains("written") && !again.contains("replaced"),
            "{again}"
        );
        fs::write(dir.path().join(file), "mine\n").unwrap();
        let kept = init(agent, &["--yes"]);
        assert!(kept.contains("--force replaces it"), "{kept}");
        assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), "mine\n");
    }
    let unfit = ["init", "--agent", "codex", "--url", "http://k'/mcp"];
    let refused = command().args(unfit).current_dir(&dir).output().unwrap();
    assert_eq!(refused.status.code(), Some(64));
}
