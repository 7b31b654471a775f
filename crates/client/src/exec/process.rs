//! One program: its own process group, so that it ends with all that it has started.

use std::{convert::Infallible, ffi::OsString, io, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncWriteExt,
    process::{Child, ChildStdin, Command},
    sync::watch,
    time::timeout,
};

use super::Job;

/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// A process group that is killed on drop.
struct ProcessGroup(Option<Pid>);

// === impl ProcessGroup ===

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have ended already.
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Runs the program until it ends or `stop` says so.
pub(super) async fn run(
    words: &[OsString],
    job: &Job,
    mut stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let [program, arguments @ ..] = words else {
        return Err("there is no program to run".to_owned());
    };
    let shown = program.to_string_lossy();
    let mut child = Command::new(program)
        .args(arguments)
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        // Standard output has notifications only.
        .stdout(io::stderr())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| cannot_start(&shown, &error))?;
    let mut group = ProcessGroup::of(&child);
    let feed = feed(child.stdin.take(), &job.input);
    let ended = tokio::select! {
        ended = child.wait() => ended,
        never = feed => match never {},
        () = asked(&mut stop) => {
            group.signal(Signal::TERM);
            let _killed_below = timeout(GRACE, child.wait()).await;
            return Ok(());
        }
    };
    // What it has left running on purpose goes on.
    group.0 = None;
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` was lost: {error}")),
    }
}

/// Waits until programs are to end.
async fn asked(stop: &mut watch::Receiver<bool>) {
    // Whoever could ask may be gone, which is the same.
    let _asked_or_gone = stop.wait_for(|stop| *stop).await;
}

/// Writes the input, closes it, and never returns: the end of the program counts.
async fn feed(stdin: Option<ChildStdin>, input: &str) -> Infallible {
    if let Some(mut stdin) = stdin {
        // A program may ignore its input.
        let _ignored = stdin.write_all(input.as_bytes()).await;
        let _ignored = stdin.write_all(b"\n").await;
    }
    std::future::pending().await
}

fn cannot_start(program: &str, error: &io::Error) -> String {
    let hint = if error.kind() == io::ErrorKind::NotFound && program.contains([' ', '|', '>']) {
        "; --exec takes a program and its arguments, not a line for a shell: --exec sh -c '...'"
    } else {
        ""
    };
    format!("cannot start `{program}`: {error}{hint}")
}
