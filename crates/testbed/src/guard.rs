//! A child process that cannot outlive its owner.
//!
//! Every child runs under a small shell that holds the read end of a pipe. The
//! owner holds the write end and never writes: when the owner ends (return,
//! panic, SIGKILL), the kernel closes the pipe, the shell sees the end of its
//! input, kills the child and clears its folder. No destructor has to run.

use std::{
    ffi::OsString,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, kill_process};

/// `$1`: folder to remove at the end, or empty; `$2`: log file; then the command.
const SCRIPT: &str = r#"
dir=$1; log=$2; shift 2
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
child=$!
trap '' PIPE
echo "$child"
( cat <&3 >/dev/null; kill -KILL "$child" 2>/dev/null ) &
owner=$!
wait "$child"
echo "exit" 2>/dev/null
wait "$owner"
[ -z "$dir" ] || rm -rf "$dir"
"#;

/// How a [`Guard`] starts its child.
pub(crate) struct Spec<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<OsString>,
    /// A folder that is removed when the owner has ended.
    pub(crate) clear: Option<&'a Path>,
    pub(crate) log: PathBuf,
}

/// A running child. Dropping it kills the child and waits for the end.
pub(crate) struct Guard {
    shell: Child,
    child: Pid,
    exited: Arc<(Mutex<bool>, Condvar)>,
    log: PathBuf,
}

// === impl Guard ===

impl Guard {
    pub(crate) fn start(spec: &Spec<'_>) -> Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guard"])
            .arg(spec.clear.unwrap_or(Path::new("")))
            .arg(&spec.log)
            .arg(spec.program)
            .args(&spec.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A process group of its own: ctrl-c in the terminal must not reach the
            // children before the owner has handled it.
            .process_group(0)
            .spawn()
            .context("cannot start /bin/sh")?;
        let mut lines = BufReader::new(shell.stdout.take().expect("stdout is piped")).lines();
        let pid = lines
            .next()
            .context("the guard said nothing")??
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .context("the guard named no process")?;
        let exited = Arc::new((Mutex::new(false), Condvar::new()));
        let signal_exit = Arc::clone(&exited);
        // Ends with the guard's stdout, so with the guard.
        thread::spawn(move || {
            for _ in lines.map_while(Result::ok) {
                *signal_exit.0.lock() = true;
                signal_exit.1.notify_all();
            }
        });
        Ok(Self {
            shell,
            child: pid,
            exited,
            log: spec.log.clone(),
        })
    }

    /// The id of the child.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if self.exited() {
            bail!("the process has already ended:\n{}", self.log_tail());
        }
        kill_process(self.child, signal).context("cannot signal the child")
    }

    pub(crate) fn exited(&self) -> bool {
        *self.exited.0.lock()
    }

    /// Waits until the child has ended.
    pub(crate) fn wait(&self, at_most: Duration) -> Result<()> {
        let mut done = self.exited.0.lock();
        self.exited
            .1
            .wait_while_for(&mut done, |done| !*done, at_most);
        if !*done {
            bail!("still running after {at_most:?}:\n{}", self.log_tail());
        }
        Ok(())
    }

    /// Waits until a stop signal has reached every thread of the child.
    pub(crate) fn wait_stopped(&self, at_most: Duration) -> Result<()> {
        let threads = format!("/proc/{}/task", self.child.as_raw_nonzero());
        let stopped = || -> std::io::Result<bool> {
            for thread in std::fs::read_dir(&threads)? {
                let stat = std::fs::read_to_string(thread?.path().join("stat"))?;
                // The state follows the name, which is in brackets.
                let state = stat.rsplit(')').next().map(str::trim_start);
                if !state.is_some_and(|state| state.starts_with('T')) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let mut left = at_most;
        while !stopped().context("cannot look at the child's threads")? {
            let pause = Duration::from_millis(2);
            left = left.checked_sub(pause).context("the child does not stop")?;
            // The state of another process has no notification to wait for.
            thread::park_timeout(pause);
        }
        Ok(())
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // The shell always ends, because it kills the child itself.
        let _ended = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(clear: Option<&Path>, log: PathBuf) -> Guard {
        let args = vec!["1000".into()];
        Guard::start(&Spec {
            program: Path::new("sleep"),
            args,
            clear,
            log,
        })
        .unwrap()
    }

    fn alive(pid: Pid) -> bool {
        rustix::process::test_kill_process(pid).is_ok()
    }

    #[test]
    fn dropping_ends_the_child_and_clears_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let guard = sleeper(Some(&data), dir.path().join("log"));
        let pid = guard.child;
        assert!(alive(pid) && data.exists());
        drop(guard);
        assert!(!alive(pid), "the child is still there");
        assert!(!data.exists(), "its folder is still there");
    }

    #[test]
    fn a_frozen_child_ends_too() {
        let dir = tempfile::tempdir().unwrap();
        let guard = sleeper(None, dir.path().join("log"));
        let pid = guard.child;
        guard.signal(Signal::STOP).unwrap();
        drop(guard);
        assert!(!alive(pid));
    }

    #[test]
    fn a_child_that_ends_by_itself_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let guard = sleeper(None, dir.path().join("log"));
        guard.signal(Signal::TERM).unwrap();
        guard.wait(Duration::from_secs(10)).unwrap();
        assert!(guard.signal(Signal::TERM).is_err());
    }
}
