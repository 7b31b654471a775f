//! Signals to what starts the program reach the program, once.

use std::{fs, os::unix::process::ExitStatusExt, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use super::{clean, installed, native_package, npm, registry, speaks_mcp, uvx};
use crate::harness::{Terminal, command};

#[tokio::test]
async fn the_launcher_passes_on_signals_and_how_the_program_ended() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let start = || {
        let mut node = clean("node", home.path());
        speaks_mcp(node.arg(&launcher))
    };
    for signal in [Signal::TERM, Signal::INT] {
        let mut launched = start();
        launched.server.signal(signal);
        let ended = launched.server.exit().await;
        assert_eq!(ended, native_end(signal).await, "{signal:?}");
    }
    let mut launched = start();
    let launcher = launched.server.id();
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let child = fs::read_to_string(children).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    assert_eq!(launched.server.exit().await.signal(), Some(9));
}

/// How the program ends by a signal.
async fn native_end(signal: Signal) -> ExitStatus {
    let mut native = speaks_mcp(&mut command());
    native.server.signal(signal);
    native.server.exit().await
}

/// npx ends at once, and the shell between it and the launcher as well, whose end says nothing.
#[tokio::test]
async fn what_npx_started_is_asked_to_stop_with_it() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let mut npx = npm("npx", &registry, home.path());
    let mut session = speaks_mcp(npx.args(["-y", "kubecrier"]));
    session.server.signal(Signal::TERM);
    // Its stdin is open: nothing else tells it.
    session.server.wait_for("asked to stop");
    session.server.wait_for("stopped");
    assert!(!session.server.exit().await.success());
}

#[tokio::test]
async fn uvx_passes_on_signals_and_how_the_program_ended() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let Some(mut uvx) = uvx(&registry, home.path()) else {
            return;
        };
        let mut session = speaks_mcp(uvx.arg("kubecrier"));
        session.server.signal(signal);
        assert_eq!(
            session.server.exit().await,
            native_end(signal).await,
            "{signal:?}"
        );
    }
}

/// A terminal sends ctrl-c to the program as well, and a second signal ends the server at once:
/// the launcher must not add one, whatever stdin is.
#[test]
fn ctrl_c_in_a_terminal_is_left_to_the_terminal() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let (_, folder) = native_package(home.path());
    let script = "#!/bin/sh\ntrap 'n=x$n' INT\ntrap 'echo passed on' USR1\necho started\n\
                  until [ -e \"$1\" ]; do sleep 0.05; [ -z \"$n\" ] || echo interrupted; done\n\
                  echo \"interrupts: $n.\"\n";
    fs::write(folder.join("bin/kubecrier"), script).unwrap();
    for stdin in ["", "</dev/null"] {
        let told = home.path().join(format!("told{}", stdin.len()));
        // A session whose terminal this is, and in whose foreground the launcher is.
        let mut session = clean("setsid", home.path());
        session.args([
            "--ctty",
            "sh",
            "-c",
            &format!("exec \"$0\" \"$@\" {stdin}"),
            "node",
        ]);
        let mut terminal = Terminal::start(session.arg(&launcher).arg(&told), 80);
        terminal.wait_for("started");
        // Two that wait for one process are one: the first has to be taken before the second.
        terminal.signal(Signal::STOP);
        terminal.types("\u{3}");
        terminal.wait_for("interrupted");
        terminal.signal(Signal::CONT);
        // The launcher handles one after the other, and the shell the lower number first.
        terminal.signal(Signal::USR1);
        terminal.wait_for("passed on");
        fs::write(&told, "").unwrap();
        terminal.wait_for("interrupts: x.");
        assert_eq!(terminal.exit().code(), Some(0), "{stdin}");
    }
}

/// Started in the background of a terminal, it is told by nobody else.
#[test]
fn a_signal_to_the_launcher_in_the_background_is_passed_on() {
    let Some(registry) = registry() else { return };
    let home = tempfile::tempdir().unwrap();
    let launcher = installed(&registry, home.path());
    let (_, folder) = native_package(home.path());
    let script = "#!/bin/sh\ntrap 'echo interrupted; exit 3' INT\necho started\nwhile :; do sleep 0.05; done\n";
    fs::write(folder.join("bin/kubecrier"), script).unwrap();
    let mut session = clean("setsid", home.path());
    // It has the terminal as its stdin, and is not in its foreground.
    let mut terminal = Terminal::start(session.arg("node").arg(&launcher), 80);
    terminal.wait_for("started");
    assert_eq!(terminal.interrupt().code(), Some(3), "{}", terminal.screen);
}
