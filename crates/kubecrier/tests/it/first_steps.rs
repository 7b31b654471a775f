//! What someone sees who starts the binary for the first time, or with a slip: one clear thing,
//! and the exit code that scripts rely on.

use std::process::{Output, Stdio};

use testbed::{User, namespace};

use crate::harness::{Demo, Http, Server, Terminal, command, kubeconfig, one_context};

/// The exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let done = command().args(arguments).output().unwrap();
    said(done)
}

fn said(done: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn a_context_that_is_not_there_is_named_with_those_that_are() {
    let Some(bed) = testbed::shared() else { return };
    let file = kubeconfig(|file| {
        let file = file.context("dev", bed.dev(), User::Reader);
        file.context("dev-2", bed.dev(), User::Reader)
            .current("dev")
    });
    let path = file.path.to_str().unwrap();
    let expected = "error: there is no context `nope`\nhint: contexts are: dev, dev-2\n";
    let nope = ["watch", "--kubeconfig", path, "--context", "nope"];
    assert_eq!(run(&nope), (Some(64), String::new(), expected.to_owned()));
    // One of two is a slip, too.
    let one_of_two = [&nope[..], &["--context", "dev", "-A"]].concat();
    assert_eq!(
        run(&one_of_two),
        (Some(64), String::new(), expected.to_owned())
    );
    let demo = Demo::start("0", "1");
    let (code, out, error) = run(&["watch", "--url", &demo.url, "--context", "nope"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert_eq!(
        error,
        "error: there is no context `nope`\nhint: contexts are: demo\n"
    );
}

#[tokio::test]
async fn a_server_says_at_once_what_its_calls_will_be_refused_with() {
    let Some(bed) = testbed::shared() else { return };
    let start = |arguments: &[&str]| {
        let port = ["--port", "0"];
        Server::start(command().args(port).args(arguments).stdin(Stdio::null()))
    };
    let server = start(&[]);
    let line = server.wait_for("WARN");
    assert!(
        line.contains("there is no kubeconfig (looked for"),
        "{line}"
    );
    assert!(line.contains("point --kubeconfig"), "{line}");
    server.wait_for("serving MCP over HTTP");
    let file = one_context(bed.dev(), User::Reader);
    let path = file.path.to_str().unwrap();
    let server = start(&["--kubeconfig", path, "--context", "nope"]);
    let line = server.wait_for("WARN");
    assert!(
        line.contains("`nope`") && line.contains("contexts are: dev"),
        "{line}"
    );
    server.wait_for("serving MCP over HTTP");
    // Nothing is wrong with a context that is there, nor with none where calls name theirs.
    let several = kubeconfig(|file| {
        let file = file.context("dev", bed.dev(), User::Reader);
        file.context("dev-2", bed.dev(), User::Reader)
    });
    let several = several.path.to_str().unwrap();
    for arguments in [
        ["--kubeconfig", path, "--context", "dev"].as_slice(),
        &["--kubeconfig", several],
    ] {
        let server = start(arguments);
        server.wait_for("serving MCP over HTTP");
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}

#[test]
fn in_a_terminal_the_server_says_how_it_is_used() {
    let mut terminal = Terminal::start(&mut command(), 80);
    terminal.wait_for("cat | kubecrier");
    assert_eq!(terminal.exit().code(), Some(64));
    for part in [
        "this is a terminal",
        "kubecrier demo",
        "kubecrier watch",
        "--port 8080",
    ] {
        assert!(
            terminal.screen.contains(part),
            "{part}: {}",
            terminal.screen
        );
    }
    for line in terminal.screen.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
    // With a client at its other end it serves.
    let (code, out, error) = said(command().stdin(Stdio::null()).output().unwrap());
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(error.contains("serving MCP on stdin and stdout"), "{error}");
}

#[test]
fn a_project_is_made_with_what_to_do_next() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mine");
    let root = root.to_str().unwrap();
    let (code, out, error) = run(&["init", root]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        out.contains(&format!("{root}/tools/restarts/tool.sh\n")),
        "{out}"
    );
    assert!(
        out.contains(&format!("kubecrier --port 8080 --project-root {root}\n")),
        "{out}"
    );
    let (code, out, error) = run(&["init", root]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.contains("it is there already"), "{error}");
    let (code, _, error) = run(&["init"]);
    assert_eq!(code, Some(64));
    assert!(error.contains("kubecrier init <DIR>"), "{error}");
}

#[test]
fn a_token_file_that_is_not_there_is_named_once() {
    let (missing, url) = ("/no/such/tokens", "http://127.0.0.1:1/mcp");
    for arguments in [
        ["--port", "0", "--auth-token-file", missing].as_slice(),
        &["watch", "--url", url, "--token-file", missing],
    ] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(64), ""), "{error}");
        assert_eq!(error.matches("No such file").count(), 1, "{error}");
        assert!(
            error.contains("cannot read the token file `/no/such/tokens`"),
            "{error}"
        );
    }
    // The demo is for one user, and does not ask for tokens.
    let (code, out, error) = run(&["--auth-token-file", missing, "demo"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(
        error.starts_with("error: `auth-token-file` does not go with `kubecrier demo`"),
        "{error}"
    );
}

#[test]
fn help_into_a_pipe_that_is_closed_is_no_failure() {
    for flags in [
        ["--help"].as_slice(),
        &["--help-all"],
        &["help", "watch"],
        &["--version"],
    ] {
        let mut child = command()
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let (code, _, error) = said(child.wait_with_output().unwrap());
        assert_eq!((code, error.as_str()), (Some(0), ""), "{flags:?}");
    }
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let done = command().arg("--help").stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "it was not printed");
}

#[test]
fn help_and_version_are_commands_too() {
    assert_eq!(run(&["help"]), run(&["--help"]));
    assert_eq!(run(&["help", "watch"]), run(&["watch", "--help"]));
    assert_eq!(run(&["version"]), run(&["--version"]));
    let (code, out, _) = run(&["version"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("kubecrier "), "{out}");
    let (code, out, error) = run(&["help", "wach"]);
    assert_eq!((code, out.as_str()), (Some(64), ""));
    assert!(
        error.contains("'wach'") && error.contains("'watch'"),
        "{error}"
    );
}

#[tokio::test]
async fn the_root_says_what_this_is() {
    let Some(bed) = testbed::shared() else { return };
    let space = "first-steps";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let answer = http.get("/").await;
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.unwrap();
    assert!(text.contains("MCP") && text.contains("/mcp"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(http.get("/nothing").await.status(), 404);
}
