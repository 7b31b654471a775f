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
    lines::{Bytes, Lines},
    position::{LogPosition, dated},
    source::{ContainerRun, ContainerState, LogSource, Part},
    updates::{LogState, LogUpdate, PendingUpdate},
};
use crate::error::{ClusterError, ErrorKind};
use kubecrier_core::{Backoff, metrics::FollowMetrics};
use kubecrier_redact::{LineRedactor, Redactor};

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(15));

/// A stream that ended sooner than this waits before the next one.
const MIN_STREAM_LIFETIME: Duration = Duration::from_secs(1);

/// A stream that says nothing for so long is opened again: it may be dead.
const QUIET: Duration = Duration::from_mins(2);

/// What a run wrote before it ended is read within this.
const PREVIOUS_WITHIN: Duration = Duration::from_secs(10);

/// Last words that cannot be had are asked for so many times: the run that goes on
/// must not wait for ever.
const PREVIOUS_TRIES: usize = 5;

/// LogFollows one log.
pub(super) struct LogFollower<S, T> {
    source: S,
    out: UpdateWriter<T>,
    position: LogPosition,
    /// Where new lines begin is known.
    anchored: bool,
    /// The run that was followed last.
    known: Option<ContainerRun>,
    /// A run that has ended and was read to its end.
    drained: Option<ContainerRun>,
    /// A stream has ended, not broken: what it did not say may be in the log of the
    /// run before, and the API server may not know yet that there is a new one.
    ended: bool,
    failures: u32,
    /// How often the log of the run before could not be had.
    unread: usize,
}

/// What goes out, in time.
struct UpdateWriter<T> {
    pending: PendingUpdate,
    tell: T,
    redact: LineRedactor,
    redactor: Redactor,
    metrics: FollowMetrics,
}

/// What came of a stream.
#[derive(Default)]
struct StreamOutcome {
    /// How many lines were new.
    lines: usize,
    /// What it said last, if that was not the workload's.
    kubelet_message: Option<String>,
}

// === impl LogFollower ===

impl<S: LogSource, T: Fn(&LogUpdate)> LogFollower<S, T> {
    pub(super) fn new(source: S, redactor: Redactor, metrics: FollowMetrics, tell: T) -> Self {
        Self {
            source,
            out: UpdateWriter {
                pending: PendingUpdate::new(),
                tell,
                redact: redactor.lines(),
                redactor,
                metrics,
            },
            position: LogPosition::default(),
            anchored: false,
            known: None,
            drained: None,
            ended: false,
            failures: 0,
            unread: 0,
        }
    }

    /// LogFollows until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            if let Err(error) = self.once().await {
                let hint = error.hint().map(|hint| format!("; {hint}"));
                let note = format!("{error}{}", hint.unwrap_or_default());
                // A kubelet's own words may have secrets in them, too.
                let note = self.out.redactor.workload(&note).into_owned();
                tracing::debug!(%error, "a log cannot be followed");
                self.failures += 1;
                self.out.pending.fails(error.kind(), note);
            }
            let delay = BACKOFF.delay(self.failures);
            self.out.while_writing(sleep(delay)).await;
        }
    }

    /// One look, and what follows from it.
    async fn once(&mut self) -> Result<(), ClusterError> {
        let look = self.out.while_writing(self.source.container()).await?;
        let (run, not_running) = match look {
            ContainerState::Gone => {
                self.rest(LogState::Gone, "the pod is gone".to_owned());
                return Ok(());
            }
            ContainerState::NoContainer(names) => {
                let names = names.join(", ");
                let note = format!("the pod has no such container; its containers are: {names}");
                self.rest(LogState::Failing, note);
                return Ok(());
            }
            ContainerState::Present { run, not_running } => (run, not_running),
        };
        self.anchor().await?;
        let note = self.changed_run(&run).await?;
        if let Some(why) = &not_running
            && self.drained.as_ref() == Some(&run)
        {
            self.rest(
                LogState::Waiting,
                format!("the container does not run: {why}"),
            );
            return Ok(());
        }
        let opening = self.source.open(Part::Follow(self.position.since()));
        let stream = match self.out.while_writing(opening).await {
            Ok(stream) => stream,
            Err(error) => {
                // A container that has not begun has no log.
                let Some(why) = not_running else {
                    return Err(error);
                };
                self.rest(
                    LogState::Waiting,
                    format!("the container does not run: {why}"),
                );
                return Ok(());
            }
        };
        if not_running.is_none() || note.is_some() {
            self.out.pending.stands(LogState::Following, note);
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

    fn rest(&mut self, state: LogState, note: String) {
        self.failures += 1;
        self.out.pending.stands(state, Some(note));
    }

    /// What is there now is not new.
    async fn anchor(&mut self) -> Result<(), ClusterError> {
        if self.anchored {
            return Ok(());
        }
        match self.out.while_writing(self.source.open(Part::Last)).await {
            Ok(stream) => {
                let mut lines = Lines::new(stream);
                let last = timeout(PREVIOUS_WITHIN, lines.next());
                // Without knowing where the log ends, all of it would be told as new.
                let last = match self.out.while_writing(last).await {
                    Ok(Ok(last)) => last,
                    Ok(Err(error)) => return Err(failed(ErrorKind::Other, error.to_string())),
                    Err(_elapsed) => {
                        let text = "its last line did not come".to_owned();
                        return Err(failed(ErrorKind::Timeout, text));
                    }
                };
                match last.as_deref().map(dated) {
                    Some((Some(time), _)) => self.position.saw(time),
                    Some((None, text)) => return Err(failed(ErrorKind::Other, text.to_owned())),
                    None => {}
                }
            }
            // It has not begun: everything will be new.
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            Err(error) => return Err(error),
        }
        self.anchored = true;
        Ok(())
    }

    /// Whether it is another run than the one that was followed; then what that one
    /// wrote last is read first.
    async fn changed_run(&mut self, run: &ContainerRun) -> Result<Option<String>, ClusterError> {
        let Some(known) = self.known.replace(run.clone()) else {
            return Ok(None);
        };
        let ended = std::mem::take(&mut self.ended);
        if known == *run && (!ended || self.position.since().is_none()) {
            // If it has said nothing yet, whatever the run before said is old.
            return Ok(None);
        }
        if known.uid != run.uid {
            // Another node may have another clock.
            self.position = LogPosition::default();
            self.failures = 0;
            return Ok(Some("another pod of that name has begun".to_owned()));
        }
        let part = Part::Previous(self.position.since());
        match self.out.while_writing(self.source.open(part)).await {
            Ok(stream) => {
                // What can be had is had.
                let reading = timeout(PREVIOUS_WITHIN, self.follow(stream));
                let _read_or_not = reading.await;
                self.ended = false;
            }
            // A run may have left no log.
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            Err(error) if self.unread < PREVIOUS_TRIES => {
                self.unread += 1;
                self.known = Some(known);
                self.ended = ended;
                return Err(error);
            }
            Err(error) => tracing::debug!(%error, "what a run wrote last cannot be had"),
        }
        self.unread = 0;
        if known == *run {
            return Ok(None);
        }
        self.failures = 0;
        Ok(Some(format!(
            "the container was started again, {} times so far",
            run.restarts
        )))
    }

    /// Tells what a stream says until it ends, or says nothing for too long.
    async fn follow(&mut self, stream: Bytes) -> StreamOutcome {
        self.out.metrics.opened();
        let mut lines = Lines::new(stream);
        let mut reopened = self.position.reopened();
        let mut followed = StreamOutcome::default();
        loop {
            let next = timeout(QUIET, lines.next());
            let line = match self.out.while_writing(next).await {
                Ok(Ok(Some(line))) => line,
                end => {
                    self.ended = matches!(end, Ok(Ok(None)));
                    return followed;
                }
            };
            let (Some(time), text) = dated(&line) else {
                // Times were asked for: this is a kubelet's own word on why it ends, or
                // the rest of a line that began before the time that was asked for.
                followed.kubelet_message = Some(line);
                continue;
            };
            followed.kubelet_message = None;
            if !reopened.is_new(time) {
                continue;
            }
            self.position.saw(time);
            followed.lines += 1;
            self.out.line(text);
        }
    }
}

/// A log that was opened and cannot be read.
fn failed(kind: ErrorKind, reason: String) -> ClusterError {
    ClusterError::new(kind, "the log cannot be read", reason, None)
}

// === impl UpdateWriter ===

impl<T: Fn(&LogUpdate)> UpdateWriter<T> {
    fn line(&mut self, text: &str) {
        self.metrics.line();
        // One line may have become several.
        for line in self.redact.clean(text).split('\n') {
            self.pending.line(line);
        }
    }

    /// Waits for something, and tells what is due while_writing.
    async fn while_writing<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        loop {
            let due = self.pending.due();
            let tell = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = tell => {
                    let update = self.pending.take();
                    (self.tell)(&update);
                }
                done = &mut work => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests;
