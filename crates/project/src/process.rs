//! Runs an executable of the project: arguments in, output out, and never longer,
//! larger or more at once than it may.

mod lines;

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
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

use self::lines::{LINES_MAX, follow};
pub use self::lines::{Progress, Said};
use kubecrier_lifecycle::Lifecycle;

/// Where a tool writes its progress.
const PROGRESS_FD: i32 = 3;
/// How long a process may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come after the process has ended: whoever still holds
/// the pipe was left behind by it.
const LINGER: Duration = Duration::from_millis(250);
/// How often, and how far apart, a file that is being written is tried.
const BUSY_TRIES: usize = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(25);
/// Lines that wait to be passed on; more are dropped and counted.
const WAITING_MAX: usize = 256;
/// One string of an environment; the system refuses to start more than twice that.
const VARIABLE_MAX: usize = 64 * 1024;

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The executable.
    pub program: PathBuf,
    /// Where.
    pub folder: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What it reads.
    pub stdin: Bytes,
    /// Its whole environment.
    pub environment: Vec<(String, OsString)>,
    /// How long.
    pub timeout: Duration,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it printed.
    pub stdout: Vec<u8>,
    /// The last lines of what it complained about.
    pub complaints: Vec<String>,
    /// How.
    pub status: ExitStatus,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    /// It took too long, and was ended.
    #[error("it did not end within {} s, and was stopped", .0.as_secs())]
    Timeout(Duration),
    /// It printed too much, and was ended.
    #[error("it printed more than {0} bytes, and was stopped")]
    Flood(usize),
    /// Too many run already.
    #[error("{0} processes run already, and none ended in time; try again later")]
    Busy(usize),
    /// The server stops.
    #[error("the server is stopping")]
    Stopping,
}

/// Runs jobs, so many at once.
#[derive(Clone, Debug)]
pub struct Runner {
    lifecycle: Lifecycle,
    places: Arc<Semaphore>,
    max: usize,
    output_max: usize,
}

/// A job under way. Dropping it ends the process and all it has started.
#[derive(Debug)]
pub struct Running {
    result: oneshot::Receiver<Result<Ended, RunError>>,
    said: mpsc::Receiver<Said>,
    _stop: DropGuard,
}

// === impl Runner ===

impl Runner {
    /// Up to `max` at once, each with so much output.
    pub fn new(lifecycle: Lifecycle, max: usize, output_max: usize) -> Self {
        Self {
            lifecycle,
            places: Arc::new(Semaphore::new(max)),
            max,
            output_max,
        }
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.max - self.places.available_permits()
    }

    /// Starts a job as soon as there is a place. Dropping the future, or what it
    /// answers, ends the process.
    pub async fn start(&self, job: Job) -> Result<Running, RunError> {
        let deadline = Instant::now() + job.timeout;
        let place = timeout_at(deadline, Arc::clone(&self.places).acquire_owned())
            .await
            .map_err(|_elapsed| RunError::Busy(self.max))?
            .map_err(|_closed| RunError::Stopping)?;
        let stop = CancellationToken::new();
        let (tell, result) = oneshot::channel();
        let (say, said) = mpsc::channel(WAITING_MAX);
        let running = Running {
            result,
            said,
            _stop: stop.clone().drop_guard(),
        };
        let output_max = self.output_max;
        // A task of its own: whoever asked may go, and the process still has to be
        // ended, waited for, and killed if it does not listen.
        self.lifecycle.spawn("process", async move {
            let outcome = Box::pin(supervise(job, output_max, say, stop, place)).await;
            let _nobody_waits = tell.send(outcome);
        });
        Ok(running)
    }
}

// === impl Running ===

impl Running {
    /// What it says next; `None` when it has ended and said everything. Cancel-safe.
    pub async fn said(&mut self) -> Option<Said> {
        self.said.recv().await
    }

    /// Waits for the end. What it says is no longer heard.
    pub async fn ended(self) -> Result<Ended, RunError> {
        self.result.await.unwrap_or(Err(RunError::Stopping))
    }

    /// Waits for the end and passes on what is said until then.
    pub async fn finish(mut self, mut hear: impl FnMut(Said)) -> Result<Ended, RunError> {
        while let Some(said) = self.said().await {
            hear(said);
        }
        self.ended().await
    }
}

/// A process group that is killed when nobody holds it any more.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may be gone already.
            let _gone = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn supervise(
    job: Job,
    output_max: usize,
    say: mpsc::Sender<Said>,
    stop: CancellationToken,
    _place: OwnedSemaphorePermit,
) -> Result<Ended, RunError> {
    let deadline = Instant::now() + job.timeout;
    let (mut child, progress) = start(&job).await.map_err(RunError::Start)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let group = Group(id.and_then(Pid::from_raw));
    let mut stdin = child.stdin.take();
    let given = job.stdin.clone();
    // A tool that does not read its arguments breaks the pipe, and may.
    let feed = async move {
        if let Some(stdin) = &mut stdin {
            let _unread = stdin.write_all(&given).await;
        }
        drop(stdin);
    };
    let complain = follow(child.stderr.take(), say.clone(), Said::Line, LINES_MAX);
    let report = follow(progress, say, Said::progress, LINES_MAX);
    let mut stdout = Vec::new();
    let outcome = {
        let pipe = child.stdout.take();
        let output = read_all(pipe, &mut stdout, output_max);
        let talk = async { tokio::join!(complain, report, feed) };
        let mut talk = std::pin::pin!(talk);
        let mut output = std::pin::pin!(output);
        let mut talked = None;
        let mut printed = None;
        let mut status = None;
        let mut left_behind = deadline;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break Err(RunError::Stopping),
                ended = child.wait(), if status.is_none() => {
                    status = Some(ended.map_err(RunError::Start)?);
                    // What it left running must not outlive it, nor hold us up.
                    group.signal(Signal::TERM);
                    left_behind = deadline.min(Instant::now() + LINGER);
                }
                fits = &mut output, if printed.is_none() => {
                    if !fits {
                        break Err(RunError::Flood(output_max));
                    }
                    printed = Some(());
                }
                (complaints, _, ()) = &mut talk, if talked.is_none() => {
                    talked = Some(complaints);
                }
                () = tokio::time::sleep_until(left_behind) => {
                    match status {
                        Some(status) => break Ok((status, talked.unwrap_or_default())),
                        None => break Err(RunError::Timeout(job.timeout)),
                    }
                }
            }
            if let (Some(status), Some(()), Some(_)) = (status, printed, &talked) {
                break Ok((status, talked.take().unwrap_or_default()));
            }
        }
    };
    match outcome {
        Ok((status, complaints)) => Ok(Ended {
            stdout,
            complaints,
            status,
        }),
        Err(error) => {
            end(&mut child, &group).await;
            Err(error)
        }
    }
}

/// Asks the group to end, and makes it.
async fn end(child: &mut Child, group: &Group) {
    group.signal(Signal::TERM);
    tokio::select! {
        _ended = child.wait() => {}
        () = sleep(GRACE) => {
            group.signal(Signal::KILL);
            let _ended = child.wait().await;
        }
    }
}

/// Starts it, also if somebody is just writing the file: that takes a moment.
async fn start(job: &Job) -> io::Result<(Child, Option<pipe::Receiver>)> {
    for _ in 0..BUSY_TRIES {
        match spawn(job) {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                sleep(BUSY_PAUSE).await;
            }
            started => return started,
        }
    }
    spawn(job)
}

fn spawn(job: &Job) -> io::Result<(Child, Option<pipe::Receiver>)> {
    let (sender, receiver) = pipe::pipe()?;
    let writer = sender.into_blocking_fd()?;
    let mut command = std::process::Command::new(&job.program);
    command
        .args(&job.arguments)
        .current_dir(&job.folder)
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
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
    // Dropping the command closes our end of the pipe.
    let child = command.kill_on_drop(true).spawn()?;
    Ok((child, Some(receiver)))
}

/// Reads to the end; false if that is too far.
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

/// The environment that every executable of the project gets, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Environment(Vec<(String, OsString)>);

// === impl Environment ===

impl Environment {
    /// `PATH`, and the variables that are passed on by name.
    pub fn inherited(passed: &[String]) -> Self {
        let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut all = vec![("PATH".to_owned(), path)];
        let given = passed.iter().filter(|name| *name != "PATH");
        all.extend(given.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))));
        Self(all)
    }

    /// One more; what is too long for the system to pass is left out, and a tool
    /// reads it from stdin.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        let (name, value) = (name.into(), value.into());
        let has_nul = value.as_encoded_bytes().contains(&0);
        if value.len() <= VARIABLE_MAX && !has_nul {
            self.0.push((name, value));
        }
        self
    }

    /// As a job takes it.
    pub fn into_vec(self) -> Vec<(String, OsString)> {
        self.0
    }
}

/// How a process ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
