//! Runs executables of the project as child processes, with limits on time, output and
//! the number at once.

mod lines;

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, Command},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::lines::{LINES_MAX, forward_lines};
pub use self::lines::{Message, ProcessEvent, Progress};
use super::executable::Executable;
use kubecrier_lifecycle::Lifecycle;

/// The file descriptor on which a tool writes its progress.
pub(super) const PROGRESS_FD: i32 = 3;
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// The time for which output is read after the process has exited: a pipe that is still
/// open then is held by a child that the process left behind.
const LINGER: Duration = Duration::from_millis(250);
/// Retries of an executable that is being written to (ETXTBSY).
const BUSY_TRIES: usize = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(25);
/// The capacity of the event channel; lines that do not fit are dropped and counted.
const EVENTS_MAX: usize = 256;
/// The length of an environment variable. Linux refuses to start a process with one of
/// twice that length.
pub(super) const VARIABLE_MAX: usize = 64 * 1024;

/// Specifies a process to run.
#[derive(Debug)]
pub(super) struct ProcessSpec {
    pub(super) program: Executable,
    pub(super) arguments: Vec<OsString>,
    pub(super) stdin: Bytes,
    pub(super) environment: Environment,
    pub(super) timeout: Duration,
}

/// The output and the exit status of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessOutput {
    pub(super) stdout: Vec<u8>,
    /// The last lines of stderr.
    pub(super) stderr_tail: Vec<String>,
    pub(super) status: ExitStatus,
}

/// Says why a process has no output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The executable could not be started.
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    /// Arguments and environment are larger than the system allows.
    #[error(
        "cannot start it: its arguments and environment variables are too large for the system; \
         pass less, or shorten what --tool-env passes on"
    )]
    EnvironmentTooLarge,
    /// The process ran longer than its timeout and was stopped.
    #[error("it did not end within {} s, and was stopped", .0.as_secs())]
    Timeout(Duration),
    /// The process printed more than it may and was stopped.
    #[error("it printed more than {0} bytes, and was stopped")]
    OutputTooLarge(usize),
    /// No permit to run became free within the timeout.
    #[error("{0} processes run already, and none ended in time; try again later")]
    TooManyProcesses(usize),
    /// The server is shutting down.
    #[error("the server is stopping")]
    Stopping,
}

/// Runs processes, at most `max` at once.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    lifecycle: Lifecycle,
    permits: Arc<Semaphore>,
    max: usize,
    output_max: usize,
}

/// A handle of a running process. Dropping it ends the process and its process group.
#[derive(Debug)]
pub(super) struct ProcessHandle {
    result: oneshot::Receiver<Result<ProcessOutput, RunError>>,
    events: mpsc::Receiver<ProcessEvent>,
    _stop: DropGuard,
}

// === impl Runner ===

impl Runner {
    /// A runner of up to `max` processes at once, each with up to `output_max` bytes.
    pub(super) fn new(lifecycle: Lifecycle, max: usize, output_max: usize) -> Self {
        Self {
            lifecycle,
            permits: Arc::new(Semaphore::new(max)),
            max,
            output_max,
        }
    }

    /// The number of running processes.
    pub(super) fn running(&self) -> usize {
        self.max - self.permits.available_permits()
    }

    /// Starts a process as soon as a permit is free. Dropping the future, or the handle,
    /// ends the process.
    pub(super) async fn start(&self, spec: ProcessSpec) -> Result<ProcessHandle, RunError> {
        let deadline = Instant::now() + spec.timeout;
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned())
            .await
            .map_err(|_elapsed| RunError::TooManyProcesses(self.max))?
            .map_err(|_closed| RunError::Stopping)?;
        let stop = CancellationToken::new();
        let (result_sender, result) = oneshot::channel();
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let handle = ProcessHandle {
            result,
            events,
            _stop: stop.clone().drop_guard(),
        };
        let output_max = self.output_max;
        // A task of its own: the caller may drop the handle, and the process still has to
        // be stopped, waited for, and killed if it ignores SIGTERM.
        self.lifecycle.spawn("process", async move {
            let run = supervise(spec, output_max, event_sender, stop, permit);
            let _dropped = result_sender.send(Box::pin(run).await);
        });
        Ok(handle)
    }
}

// === impl ProcessHandle ===

impl ProcessHandle {
    /// The next event; `None` when the process has exited and all events were returned.
    /// Cancel-safe.
    pub(super) async fn next_event(&mut self) -> Option<ProcessEvent> {
        self.events.recv().await
    }

    /// Waits for the exit. Events that come until then are dropped.
    pub(super) async fn wait(self) -> Result<ProcessOutput, RunError> {
        self.result.await.unwrap_or(Err(RunError::Stopping))
    }

    /// Waits for the exit and handles the events until then.
    pub(super) async fn wait_with(
        mut self,
        mut on_event: impl FnMut(ProcessEvent),
    ) -> Result<ProcessOutput, RunError> {
        while let Some(event) = self.next_event().await {
            on_event(event);
        }
        self.wait().await
    }
}

/// A process group that is killed on drop.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The group may have exited already.
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn supervise(
    spec: ProcessSpec,
    output_max: usize,
    events: mpsc::Sender<ProcessEvent>,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
) -> Result<ProcessOutput, RunError> {
    let deadline = Instant::now() + spec.timeout;
    let (mut child, progress) = start(&spec).await.map_err(|error| match error.kind() {
        io::ErrorKind::ArgumentListTooLong => RunError::EnvironmentTooLarge,
        _ => RunError::Start(error),
    })?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let group = ProcessGroup(id.and_then(Pid::from_raw));
    let mut stdin = child.stdin.take();
    let input = spec.stdin.clone();
    // A tool that does not read its input breaks the pipe, which is no error.
    let feed = async move {
        if let Some(stdin) = &mut stdin {
            let _unread = stdin.write_all(&input).await;
        }
        drop(stdin);
    };
    let stderr = child.stderr.take();
    let stderr = forward_lines(stderr, events.clone(), ProcessEvent::Log, LINES_MAX);
    let progress = forward_lines(progress, events, ProcessEvent::progress, LINES_MAX);
    let mut stdout = Vec::new();
    let outcome = {
        let pipe = child.stdout.take();
        let output = read_all(pipe, &mut stdout, output_max);
        let streams = async { tokio::join!(stderr, progress, feed) };
        let mut streams = std::pin::pin!(streams);
        let mut output = std::pin::pin!(output);
        let mut stderr_tail = None;
        let mut has_printed = false;
        let mut status = None;
        let mut wait_until = deadline;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Err(RunError::Stopping),
                ended = child.wait(), if status.is_none() => {
                    status = Some(ended.map_err(RunError::Start)?);
                    // Children that it left behind must neither outlive it nor delay the
                    // result.
                    group.signal(Signal::TERM);
                    wait_until = deadline.min(Instant::now() + LINGER);
                }
                fits = &mut output, if !has_printed => {
                    if !fits {
                        break Err(RunError::OutputTooLarge(output_max));
                    }
                    has_printed = true;
                }
                (tail, _, ()) = &mut streams, if stderr_tail.is_none() => {
                    stderr_tail = Some(tail);
                }
                () = tokio::time::sleep_until(wait_until) => {
                    match status {
                        Some(status) => break Ok((status, stderr_tail.unwrap_or_default())),
                        None => break Err(RunError::Timeout(spec.timeout)),
                    }
                }
            }
            if let (Some(status), true, Some(_)) = (status, has_printed, &stderr_tail) {
                break Ok((status, stderr_tail.take().unwrap_or_default()));
            }
        }
    };
    match outcome {
        Ok((status, stderr_tail)) => Ok(ProcessOutput {
            stdout,
            stderr_tail,
            status,
        }),
        Err(error) => {
            terminate(&mut child, &group).await;
            Err(error)
        }
    }
}

/// Sends SIGTERM to the group, and SIGKILL after the grace period.
async fn terminate(child: &mut Child, group: &ProcessGroup) {
    group.signal(Signal::TERM);
    tokio::select! {
        _ended = child.wait() => {}
        () = sleep(GRACE) => {
            group.signal(Signal::KILL);
            let _ended = child.wait().await;
        }
    }
}

/// Starts a process, with retries while the executable is being written to.
async fn start(spec: &ProcessSpec) -> io::Result<(Child, Option<pipe::Receiver>)> {
    for _ in 0..BUSY_TRIES {
        match spawn(spec) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                sleep(BUSY_PAUSE).await;
            }
            started => return started,
        }
    }
    spawn(spec)
}

fn spawn(spec: &ProcessSpec) -> io::Result<(Child, Option<pipe::Receiver>)> {
    let (sender, receiver) = pipe::pipe()?;
    let writer = sender.into_blocking_fd()?;
    let mut command = spec.program.command();
    command
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.0.iter().map(|(name, value)| (name, value)))
        .env("KUBECRIER_PROGRESS", PROGRESS_FD.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mapping = FdMapping {
        parent_fd: writer,
        child_fd: PROGRESS_FD,
    };
    command
        .fd_mappings(vec![mapping])
        .map_err(|_| io::Error::other("the progress pipe cannot be passed on"))?;
    let mut command = Command::from(command);
    // Dropping the command closes the server's write end of the pipe.
    let child = command.kill_on_drop(true).spawn()?;
    Ok((child, Some(receiver)))
}

/// Reads to the end of the stream; false if it has more than `max` bytes.
async fn read_all(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, max: usize) -> bool {
    let Some(mut from) = from else { return true };
    loop {
        into.reserve(8 * 1024);
        match from.read_buf(into).await {
            Ok(0) | Err(_) => return true,
            Ok(_) if into.len() > max => return false,
            Ok(_) => {}
        }
    }
}

/// Builds the environment of a process, which inherits nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment(Vec<(String, OsString)>);

// === impl Environment ===

impl Environment {
    /// `PATH`, and the variables of the server that are passed on by name.
    pub(super) fn inherited(passed: &[String]) -> Self {
        let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut all = vec![("PATH".to_owned(), path)];
        let given = passed.iter().filter(|name| *name != "PATH");
        all.extend(given.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))));
        Self(all)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &OsString)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Adds a variable. One that the system cannot pass is left out; a tool has the same
    /// value on stdin.
    #[must_use]
    pub(super) fn with(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        let (name, value) = (name.into(), value.into());
        let has_nul = value.as_encoded_bytes().contains(&0);
        if value.len() <= VARIABLE_MAX && !has_nul {
            self.0.push((name, value));
        }
        self
    }
}

/// Describes an exit status for people.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
