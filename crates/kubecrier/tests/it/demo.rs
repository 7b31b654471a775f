//! The first command of the README.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::Stdio,
    time::Duration,
};

use crate::harness::{Terminal, command};

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

#[test]
fn a_requested_port_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let done = command().args(["demo", "--port", &port]).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(stderr.contains("another program has the port"), "{stderr}");
    assert!(stderr.contains("--port"), "{stderr}");
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
