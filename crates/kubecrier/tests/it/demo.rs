//! The first command of the README.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{HttpSession, Project, Server, Terminal, command};

/// What an escape sequence begins with.
const ESC: char = '\u{1b}';

#[test]
fn the_demo_shows_a_fault_in_a_terminal_within_15_seconds() {
    let mut demo = command();
    demo.arg("demo").env_remove("NO_COLOR").env("TERM", "xterm");
    let mut terminal = Terminal::start(&mut demo, 100);
    terminal.wait_for("claude mcp add --transport http");
    let took = terminal.wait_for("FAULT");
    assert!(took < Duration::from_secs(15), "{took:?}");
    terminal.wait_for("panic");
    terminal.wait_for("deployment/payment");
    assert!(terminal.screen.contains(ESC), "no colours");
    assert!(terminal.interrupt().success());
}

#[test]
fn a_narrow_terminal_without_colours_is_enough() {
    let mut demo = command();
    demo.args(["demo", "--speed", "10"]);
    let mut terminal = Terminal::start(&mut demo, 40);
    terminal.wait_for("deployment/");
    // The second part of the story: an image that cannot be pulled.
    terminal.wait_for("FAULT   Failed");
    assert!(!terminal.screen.contains(ESC), "{:?}", terminal.screen);
    let news = terminal.screen.split("is told (").nth(1).unwrap();
    // The first lines are the end of the heading, and the note on what is watched.
    for line in news.lines().skip_while(|line| !line.contains("FAULT")) {
        assert!(line.chars().count() <= 40, "too wide: {line:?}");
    }
    assert!(terminal.interrupt().success());
}

/// At 80 columns: what matters is not cut, the same crash is one line, and the end of the
/// trouble is shown.
#[test]
fn the_story_can_be_read_at_80_columns() {
    let mut demo = command();
    demo.args(["demo", "--speed", "2"]);
    let mut terminal = Terminal::start(&mut demo, 80);
    terminal.wait_for("FAULT   BackOff");
    terminal.wait_for("Back-off restarting failed container payment\r\n");
    terminal.wait_for("the same crash as at ");
    terminal.wait_for("2 times now");
    terminal.wait_for("FAULT   Failed");
    terminal.wait_for("\": not found");
    terminal.wait_for("healed  ");
    terminal.wait_for("with app=payment are ready");
    // The incident of it begins, and is over once it has been gone for a while.
    assert!(
        terminal
            .screen
            .contains(" warning  shop/deployment/payment:")
    );
    terminal.wait_for("resolved shop/deployment/payment:");
    let crashes = terminal.screen.matches("│ panic: runtime error").count();
    assert_eq!(crashes, 1, "{}", terminal.screen);
    let news = terminal.screen.split("is told (").nth(1).unwrap();
    for line in news.lines().skip_while(|line| !line.contains("FAULT")) {
        assert!(line.chars().count() <= 80, "too wide: {line:?}");
    }
    assert!(terminal.interrupt().success());
}

#[tokio::test]
async fn a_stop_of_the_demo_waits_for_running_calls() {
    let project = Project::new();
    let called = project.path().join("called");
    project.tool(
        "slow",
        &format!("touch '{}'; sleep 2; echo the end", called.display()),
    );
    let mut server = Server::start(
        command()
            .args(["--log-level", "info", "--project-root", project.text()])
            .args(["demo", "--no-client", "--port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped()),
    );
    let line = server.wait_for("serving MCP over HTTP");
    let url = line.split("url=").nth(1).unwrap().trim();
    let session = HttpSession::begin_with(
        reqwest::Client::new(),
        url.trim_end_matches("/mcp"),
        "2025-11-25",
        None,
    )
    .await;
    let (answer, ()) = tokio::join!(session.call("slow", json!({})), async {
        while !called.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.signal(Signal::TERM);
    });
    assert!(answer.ok().text.contains("the end"));
    assert_eq!(server.exit().await.code(), Some(0));
    assert!(server.log().contains("draining"), "{}", server.log());
}

#[test]
fn a_requested_port_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for arguments in [["demo", "--port", &port], ["--port", &port, "demo"]] {
        let done = command().args(arguments).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(stderr.contains("another program has the port"), "{stderr}");
        assert!(stderr.contains("--port"), "{stderr}");
    }
}

#[test]
fn demos_that_start_at_once_find_a_port_each() {
    let start = |_| {
        let mut demo = command();
        Terminal::start(demo.args(["demo", "--no-client"]), 100)
    };
    let mut demos: Vec<_> = (0..4).map(start).collect();
    let mut urls = std::collections::HashSet::new();
    for demo in &mut demos {
        demo.wait_for("ctrl-c ends it");
        let first = demo.screen.lines().next().unwrap();
        urls.insert(first.rsplit(' ').next().unwrap().to_owned());
    }
    assert_eq!(urls.len(), 4, "{urls:?}");
}

#[test]
fn a_pipe_that_closes_early_ends_the_demo_without_a_word() {
    let mut child = command()
        .args(["demo", "--speed", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    assert!(
        first.contains("http://127.0.0.1:") && !first.contains(ESC),
        "{first}"
    );
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert!(status.success(), "{stderr}");
    assert!(
        !stderr.contains("panicked") && !stderr.contains("error"),
        "{stderr}"
    );
}

#[test]
fn papers_are_printed() {
    for (words, part) in [
        (vec!["completion", "bash"], "complete -F"),
        (vec!["schema"], "\"log_level\""),
        (vec!["man"], ".TH kubecrier"),
    ] {
        let done = command().args(&words).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{words:?}");
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(text.contains(part), "{words:?}: {text}");
    }
    let done = command().args(["completion", "tcsh"]).output().unwrap();
    assert_eq!(done.status.code(), Some(64));
}
