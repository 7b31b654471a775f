//! Any program, as a process that can be stopped where it is and that cannot outlive this one.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::guard::{Guard, Spec};

/// How long a process may take to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that can be started any number of times. It ends when this is dropped, or when this
/// process ends.
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    log: PathBuf,
    guard: Option<Guard>,
}

// === impl Program ===

impl Program {
    /// A program with its arguments, which has no environment but `NO_COLOR`. What it prints is
    /// added to a file.
    pub fn new(path: &Path, args: Vec<OsString>, log: &Path) -> Self {
        Self {
            path: path.to_owned(),
            args,
            log: log.to_owned(),
            guard: None,
        }
    }

    /// Starts it.
    pub fn start(&mut self) -> Result<()> {
        let mut args: Vec<OsString> = vec!["-i".into(), "NO_COLOR=1".into()];
        args.push(self.path.clone().into());
        args.extend(self.args.iter().cloned());
        self.guard = Some(Guard::start(&Spec {
            program: Path::new("/usr/bin/env"),
            args,
            clear: None,
            log: self.log.clone(),
        })?);
        Ok(())
    }

    /// Whether it runs, or is stopped where it is.
    pub fn is_running(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| !guard.exited())
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(guard) = self.guard.take() {
            guard.signal(Signal::KILL)?;
            guard.wait(PATIENCE)?;
        }
        Ok(())
    }

    /// Stops it where it is with SIGSTOP.
    pub fn freeze(&self) -> Result<()> {
        let guard = self.running()?;
        guard.signal(Signal::STOP)?;
        guard.wait_stopped(PATIENCE)
    }

    /// Lets it go on after [`freeze`](Self::freeze).
    pub fn thaw(&self) -> Result<()> {
        self.running()?.signal(Signal::CONT)
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.running()?.signal(Signal::TERM)
    }

    /// The end of what it printed.
    pub fn log_tail(&self) -> String {
        self.guard.as_ref().map(Guard::log_tail).unwrap_or_default()
    }

    fn running(&self) -> Result<&Guard> {
        self.guard.as_ref().context("the program does not run")
    }
}
