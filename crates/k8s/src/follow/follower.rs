//! The life of one followed log.
//!
//! ```text
//!  ──▶ get the pod ──runs──▶ end of the previous run's log ──▶ follow ──ended, broken, silent──┐
//!       ▲ └──gone, not running, failed──▶ backoff ──┐                                        │
//!       └───────────────────────────────────────────┴◀───────────────────────────────────────┘
//! ```
//!
//! Each line is sent once, however often the stream breaks: the kubelet dates each line,
//! and reading resumes after the last time.

use std::{convert::Infallible, future::Future};

use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use super::{
    lines::{Lines, LogStream},
    position::LogPosition,
    source::{ContainerRun, ContainerState, LogSection, LogSource},
    updates::{LogState, LogUpdate, PendingUpdate},
};
use crate::{
    error::{ClusterError, ErrorKind},
    logs::{is_kubelet_message, split_timestamp},
};
use kubecrier_core::{Backoff, metrics::FollowMetrics};
use kubecrier_redact::{LineRedactor, Redactor};

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));

/// A stream that ended sooner than this waits before the next one.
const MIN_STREAM_LIFETIME: Duration = Duration::from_secs(1);

/// A stream without a line for this long is opened again: the connection may be dead.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// The deadline for reading the log of the previous run.
const PREVIOUS_TIMEOUT: Duration = Duration::from_secs(10);

/// Attempts to read the log of the previous run: the current run must not wait for ever.
const PREVIOUS_ATTEMPTS_MAX: usize = 5;

/// The same when the kubelet answers with an error message in place of that log: it knows
/// within seconds what became of the run, or never.
const EXCUSED_ATTEMPTS_MAX: usize = 3;

/// Follows one log.
pub(super) struct LogFollower<S, T> {
    source: S,
    writer: UpdateWriter<T>,
    position: LogPosition,
    /// Whether the position where new lines begin is known.
    anchored: bool,
    /// The run that was followed last.
    last_run: Option<ContainerRun>,
    /// A run that has ended and whose log was read to its end.
    drained: Option<ContainerRun>,
    /// Whether a stream has ended without an error: further lines may be in the log of the
    /// previous run, and the API server may not report the new run yet.
    ended: bool,
    failures: u32,
    /// Failed attempts to read the log of the previous run.
    previous_failures: usize,
}

/// Publishes updates when they are due.
struct UpdateWriter<T> {
    pending: PendingUpdate,
    on_update: T,
    redact: LineRedactor,
    redactor: Redactor,
    metrics: FollowMetrics,
}

/// The outcome of a stream.
#[derive(Default)]
struct StreamOutcome {
    /// Number of new lines.
    lines: usize,
    /// The last message of the kubelet itself, if the stream ended with one.
    kubelet_message: Option<String>,
}

// === impl LogFollower ===

impl<S: LogSource, T: Fn(&LogUpdate)> LogFollower<S, T> {
    pub(super) fn new(source: S, redactor: Redactor, metrics: FollowMetrics, on_update: T) -> Self {
        Self {
            source,
            writer: UpdateWriter {
                pending: PendingUpdate::new(),
                on_update,
                redact: redactor.lines(),
                redactor,
                metrics,
            },
            position: LogPosition::default(),
            anchored: false,
            last_run: None,
            drained: None,
            ended: false,
            failures: 0,
            previous_failures: 0,
        }
    }

    /// Follows the log until the future is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            if let Err(error) = self.follow_once().await {
                // A message of the kubelet may contain secrets, too.
                let shown = error.redacted(&self.writer.redactor);
                let hint = shown.hint().map(|hint| format!("; {hint}"));
                let note = format!("{shown}{}", hint.unwrap_or_default());
                tracing::debug!(%error, "a log cannot be followed");
                self.failures += 1;
                self.writer.pending.set_failing(error.kind(), note);
            }
            let delay = BACKOFF.delay(self.failures);
            self.writer.while_writing(sleep(delay)).await;
        }
    }

    /// Reads the state of the container once, and follows its log until the stream ends.
    async fn follow_once(&mut self) -> Result<(), ClusterError> {
        let container = self.writer.while_writing(self.source.container()).await?;
        let (run, not_running) = match container {
            ContainerState::Gone => {
                self.wait_in_state(LogState::Gone, "the pod is gone".to_owned());
                return Ok(());
            }
            ContainerState::NoContainer(names) => {
                let names = names.join("`, `");
                let note = format!("the pod has no such container; its containers are: `{names}`");
                self.wait_in_state(LogState::Failing, note);
                return Ok(());
            }
            ContainerState::Present { run, not_running } => (run, not_running),
        };
        self.anchor().await?;
        let note = self.read_previous_run(&run).await?;
        if let Some(reason) = &not_running
            && self.drained.as_ref() == Some(&run)
        {
            self.wait_in_state(
                LogState::Waiting,
                format!("the container does not run: {reason}"),
            );
            return Ok(());
        }
        let opening = self.source.open(LogSection::Follow(self.position.since()));
        let stream = match self.writer.while_writing(opening).await {
            Ok(stream) => stream,
            Err(error) => {
                // A container that has not started has no log.
                let Some(reason) = not_running else {
                    return Err(error);
                };
                self.wait_in_state(
                    LogState::Waiting,
                    format!("the container does not run: {reason}"),
                );
                return Ok(());
            }
        };
        if not_running.is_none() || note.is_some() {
            self.writer.pending.set_state(LogState::Following, note);
        }
        let began = Instant::now();
        let StreamOutcome {
            lines,
            kubelet_message,
        } = self.follow(stream).await;
        if lines > 0 || began.elapsed() >= MIN_STREAM_LIFETIME {
            self.failures = 0;
        }
        if let Some(text) = kubelet_message {
            return Err(failed(ErrorKind::Other, text));
        }
        if not_running.is_some() {
            self.drained = Some(run);
        }
        if began.elapsed() < MIN_STREAM_LIFETIME {
            self.failures += 1;
        }
        Ok(())
    }

    fn wait_in_state(&mut self, state: LogState, note: String) {
        self.failures += 1;
        self.writer.pending.set_state(state, Some(note));
    }

    /// Sets the position to the end of the log: existing lines are not new.
    async fn anchor(&mut self) -> Result<(), ClusterError> {
        if self.anchored {
            return Ok(());
        }
        match self
            .writer
            .while_writing(self.source.open(LogSection::Last))
            .await
        {
            Ok(stream) => {
                let mut lines = Lines::new(stream);
                let last = timeout(PREVIOUS_TIMEOUT, lines.next());
                // Without the end of the log, all its lines would be published as new.
                let last = match self.writer.while_writing(last).await {
                    Ok(Ok(last)) => last,
                    Ok(Err(error)) => return Err(failed(ErrorKind::Other, error.to_string())),
                    Err(_elapsed) => {
                        let text = "its last line did not come".to_owned();
                        return Err(failed(ErrorKind::Timeout, text));
                    }
                };
                match last.as_deref().map(split_timestamp) {
                    Some((Some(time), _)) => self.position.advance(time),
                    Some((None, text)) => return Err(failed(ErrorKind::Other, text.to_owned())),
                    None => {}
                }
            }
            // The container has not started: every line will be new.
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            Err(error) => return Err(error),
        }
        self.anchored = true;
        Ok(())
    }

    /// Reads the rest of the previous run's log if the container has another run than the one
    /// that was followed. Returns a note for the change.
    async fn read_previous_run(
        &mut self,
        run: &ContainerRun,
    ) -> Result<Option<String>, ClusterError> {
        let Some(last_run) = self.last_run.replace(run.clone()) else {
            return Ok(None);
        };
        let ended = std::mem::take(&mut self.ended);
        if last_run == *run && (!ended || self.position.since().is_none()) {
            // Without a line of this run, the lines of the previous run are old.
            return Ok(None);
        }
        if last_run.uid != run.uid {
            // The node of another pod may have another clock.
            self.position = LogPosition::default();
            self.failures = 0;
            return Ok(Some("another pod of that name has begun".to_owned()));
        }
        let section = LogSection::Previous(self.position.since());
        let (read, attempts_max) = match self.writer.while_writing(self.source.open(section)).await
        {
            Ok(stream) => {
                // A partial read is good enough.
                let read = timeout(PREVIOUS_TIMEOUT, self.follow(stream)).await;
                self.ended = false;
                let message = read.ok().and_then(|outcome| outcome.kubelet_message);
                let message = message.filter(|message| is_kubelet_message(message));
                let excuse = message.map(|text| failed(ErrorKind::Other, text));
                (excuse.map_or(Ok(()), Err), EXCUSED_ATTEMPTS_MAX)
            }
            // A run may leave no log.
            Err(error) if error.kind() == ErrorKind::Invalid => (Ok(()), 0),
            Err(error) => (Err(error), PREVIOUS_ATTEMPTS_MAX),
        };
        match read {
            Ok(()) => {}
            Err(error) if self.previous_failures < attempts_max => {
                self.previous_failures += 1;
                self.last_run = Some(last_run);
                self.ended = ended;
                return Err(error);
            }
            Err(error) => tracing::debug!(%error, "what a run wrote last cannot be had"),
        }
        self.previous_failures = 0;
        if last_run == *run {
            return Ok(None);
        }
        self.failures = 0;
        Ok(Some(format!(
            "the container was started again, {} times so far",
            run.restarts
        )))
    }

    /// Publishes the lines of a stream until it ends or is idle for too long.
    async fn follow(&mut self, stream: LogStream) -> StreamOutcome {
        self.writer.metrics.opened();
        let mut lines = Lines::new(stream);
        let mut replay_filter = self.position.replay_filter();
        let mut outcome = StreamOutcome::default();
        loop {
            let next = timeout(IDLE_TIMEOUT, lines.next());
            let line = match self.writer.while_writing(next).await {
                Ok(Ok(Some(line))) => line,
                end => {
                    self.ended = matches!(end, Ok(Ok(None)));
                    return outcome;
                }
            };
            let (Some(time), text) = split_timestamp(&line) else {
                // Timestamps were requested: a line without one is a message of the kubelet
                // on why the stream ends, or the rest of a line before `sinceTime`.
                outcome.kubelet_message = Some(line);
                continue;
            };
            outcome.kubelet_message = None;
            if !replay_filter.is_new(time) {
                continue;
            }
            self.position.advance(time);
            outcome.lines += 1;
            self.writer.line(text);
        }
    }
}

/// The error of a log that was opened and cannot be read.
fn failed(kind: ErrorKind, reason: String) -> ClusterError {
    ClusterError::new(kind, "the log cannot be read", reason, None)
}

// === impl UpdateWriter ===

impl<T: Fn(&LogUpdate)> UpdateWriter<T> {
    fn line(&mut self, text: &str) {
        self.metrics.line();
        // The redactor may make several lines of one.
        for line in self.redact.clean(text).split('\n') {
            self.pending.push_line(line);
        }
    }

    /// Waits for `work`, and publishes updates that become due meanwhile.
    async fn while_writing<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            let due = self.pending.due();
            let publish_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = publish_due => {
                    let update = self.pending.take();
                    (self.on_update)(&update);
                }
                done = &mut work => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests;
