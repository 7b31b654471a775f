use std::{collections::VecDeque, sync::Arc};

use futures_util::{TryStreamExt, io::Cursor, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::*;
use crate::ErrorKind;

const EXCUSE: &str = "unable to retrieve container logs for containerd://0af1";

/// A container whose state and log are set by a test.
#[derive(Clone)]
struct FakeContainer(Arc<Mutex<FakeState>>);

struct FakeState {
    states: VecDeque<Result<ContainerState, ClusterError>>,
    /// The last state is repeated.
    log: Vec<(i64, String)>,
    previous: Vec<(i64, String)>,
    opened: Vec<LogSection>,
    /// Counts changes of the log: open streams read on. When it is dropped, the streams end.
    changes: watch::Sender<u64>,
    error: Option<ClusterError>,
    /// Number of requests for the log of the previous run that fail, too.
    previous_failures: usize,
    /// Number of requests for the log of the previous run that the kubelet answers with an
    /// error message in place of it.
    previous_excuses: usize,
    /// Message of the kubelet at the end of every stream, without a timestamp.
    kubelet_message: Option<&'static str>,
    /// The request for the last line never ends.
    stalls_last_line: bool,
}

impl FakeContainer {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(FakeState {
            states: [Ok(running(0))].into(),
            log: Vec::new(),
            previous: Vec::new(),
            opened: Vec::new(),
            changes: watch::Sender::new(0),
            error: None,
            previous_failures: 0,
            previous_excuses: 0,
            kubelet_message: None,
            stalls_last_line: false,
        })))
    }

    fn write_line(&self, second: i64, line: &str) {
        let mut state = self.0.lock();
        state.log.push((second, line.to_owned()));
        state.changes.send_modify(|count| *count += 1);
    }

    /// Ends the streams and sets the state of the container.
    fn end(&self, shown: ContainerState) {
        let mut state = self.0.lock();
        state.states = [Ok(shown)].into();
        state.changes = watch::Sender::new(0);
    }

    fn opened(&self) -> Vec<LogSection> {
        self.0.lock().opened.clone()
    }
}

fn running(restarts: i32) -> ContainerState {
    present("a", restarts, None)
}

fn present(uid: &str, restarts: i32, not_running: Option<&str>) -> ContainerState {
    ContainerState::Present {
        run: ContainerRun {
            uid: uid.to_owned(),
            restarts,
        },
        not_running: not_running.map(str::to_owned),
    }
}

fn refusal(kind: ErrorKind) -> ClusterError {
    ClusterError::new(kind, "cannot get pods/log", "not now", None)
}

fn print((second, line): &(i64, String)) -> String {
    format!("{} {line}\n", Timestamp::from_second(*second).unwrap())
}

impl LogSource for FakeContainer {
    async fn container(&self) -> Result<ContainerState, ClusterError> {
        let mut state = self.0.lock();
        if state.states.len() > 1 {
            return state.states.pop_front().unwrap();
        }
        state.states[0].clone()
    }

    async fn open(&self, section: LogSection) -> Result<LogStream, ClusterError> {
        let mut state = self.0.lock();
        state.opened.push(section);
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        if matches!(section, LogSection::Previous(_)) && state.previous_failures > 0 {
            state.previous_failures -= 1;
            return Err(refusal(ErrorKind::Unreachable));
        }
        if matches!(section, LogSection::Previous(_)) && state.previous_excuses > 0 {
            state.previous_excuses -= 1;
            return Ok(Box::pin(Cursor::new(EXCUSE.as_bytes())));
        }
        if section == LogSection::Last && state.stalls_last_line {
            let never = stream::pending::<std::io::Result<Vec<u8>>>();
            return Ok(Box::pin(never.into_async_read()));
        }
        let since = |since: Option<Timestamp>| {
            move |(second, _): &&(i64, String)| since.is_none_or(|from| *second >= from.as_second())
        };
        let text = match section {
            LogSection::Last => state.log.last().map(print).unwrap_or_default(),
            LogSection::Previous(from) => state
                .previous
                .iter()
                .filter(since(from))
                .map(print)
                .collect(),
            LogSection::Follow(from) => {
                let first: String = state.log.iter().filter(since(from)).map(print).collect();
                if let Some(kubelet_message) = state.kubelet_message {
                    let text = format!("{first}{kubelet_message}");
                    return Ok(Box::pin(Cursor::new(text.into_bytes())));
                }
                if let Some(Ok(ContainerState::Present {
                    not_running: Some(_),
                    ..
                })) = state.states.front()
                {
                    // A container that has ended writes no more lines.
                    return Ok(Box::pin(Cursor::new(first.into_bytes())));
                }
                let (container, changes) = (self.clone(), state.changes.subscribe());
                let grown = (container, changes, state.log.len());
                let rest = stream::try_unfold(grown, async |(container, mut changes, seen)| {
                    if changes.changed().await.is_err() {
                        return Ok(None);
                    }
                    let log = container.0.lock().log.clone();
                    let new: String = log.iter().skip(seen).map(print).collect();
                    Ok(Some((new.into_bytes(), (container, changes, log.len()))))
                });
                let first = stream::iter([Ok::<_, std::io::Error>(first.into_bytes())]);
                let all = futures_util::StreamExt::chain(first, rest);
                return Ok(Box::pin(Box::pin(all).into_async_read()));
            }
        };
        Ok(Box::pin(Cursor::new(text.into_bytes())))
    }
}

/// The published updates, and when.
#[derive(Clone, Default)]
struct RecordedUpdates(Arc<Mutex<Vec<(Instant, LogUpdate)>>>);

impl RecordedUpdates {
    fn lines(&self) -> Vec<String> {
        let updates = self.0.lock();
        updates
            .iter()
            .flat_map(|(_, update)| update.lines.clone())
            .collect()
    }

    fn last(&self) -> LogUpdate {
        self.0.lock().last().unwrap().1.clone()
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }
}

/// Follows a container for as long as the test runs.
fn follow(container: &FakeContainer) -> (RecordedUpdates, tokio::task::JoinSet<Infallible>) {
    let updates = RecordedUpdates::default();
    let recorder = updates.clone();
    let metrics = FollowMetrics::default();
    let follower = LogFollower::new(
        container.clone(),
        Redactor::default(),
        metrics,
        move |update: &LogUpdate| {
            recorder.0.lock().push((Instant::now(), update.clone()));
        },
    );
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(follower.run());
    (updates, tasks)
}

async fn pass(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_from_now_on_is_told_together_and_twice_a_second_at_most() {
    let container = FakeContainer::new();
    container.write_line(1, "before");
    let (updates, _tasks) = follow(&container);
    pass(10).await;
    assert_eq!(updates.last().state, LogState::Following);
    assert!(updates.lines().is_empty(), "what was there is not new");
    for second in 10..200 {
        container.write_line(second, &format!("line {second}"));
        pass(10).await;
    }
    pass(600).await;
    assert_eq!(updates.lines().len(), 190);
    let updates = updates.0.lock();
    for pair in updates.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(500));
        assert_eq!(pair[1].1.seq, pair[0].1.seq + 1);
    }
    assert!(updates.len() <= 6, "{}", updates.len());
    assert_eq!(updates.last().unwrap().1.count, 190);
    assert_eq!(container.opened().len(), 2, "anchored once, followed once");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_opened_again_and_no_line_is_told_twice() {
    let container = FakeContainer::new();
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    container.write_line(10, "one");
    pass(2000).await;
    // A rotation: the stream ends, the container runs on.
    container.end(running(0));
    container.write_line(10, "two, in the same second");
    container.write_line(11, "three");
    pass(5000).await;
    assert_eq!(updates.lines(), ["one", "two, in the same second", "three"]);
    let stalls_last_line = updates.count();
    pass(10 * 60 * 1000).await;
    assert_eq!(updates.count(), stalls_last_line, "reopened in silence");
    assert!(
        container.opened().len() > 5,
        "a quiet stream may be a dead one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_told_with_what_the_run_before_wrote_last() {
    let container = FakeContainer::new();
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    container.write_line(10, "working");
    pass(2000).await;
    container.end(present("a", 0, Some("CrashLoopBackOff")));
    pass(20_000).await;
    assert_eq!(updates.last().state, LogState::Waiting);
    assert!(updates.last().note.unwrap().contains("CrashLoopBackOff"));
    let opened = container.opened().len();
    pass(60_000).await;
    assert_eq!(
        container.opened().len(),
        opened,
        "a log that rests is not read"
    );
    {
        let mut state = container.0.lock();
        state.previous = vec![
            (10, "working".to_owned()),
            (12, "panic: out of cheese".to_owned()),
        ];
        state.log = vec![(20, "starting".to_owned())];
    }
    container.end(running(2));
    pass(20_000).await;
    assert_eq!(
        updates.lines(),
        ["working", "panic: out of cheese", "starting"]
    );
    assert_eq!(updates.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_told_once_and_a_new_one_is_followed_from_its_beginning() {
    let container = FakeContainer::new();
    container.write_line(1000, "old");
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    container.end(ContainerState::Gone);
    pass(100_000).await;
    assert_eq!(updates.last().state, LogState::Gone);
    assert_eq!(updates.last().note.unwrap(), "the pod is gone");
    let published = updates.count();
    pass(100_000).await;
    assert_eq!(updates.count(), published, "once");
    // On a node whose clock is behind.
    container.0.lock().log = vec![(5, "hello again".to_owned())];
    container.end(present("b", 0, None));
    pass(20_000).await;
    assert_eq!(updates.lines(), ["hello again"]);
    assert_eq!(updates.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_told_once_with_its_reason_and_tried_again() {
    let container = FakeContainer::new();
    let forbidden = ClusterError::new(
        ErrorKind::Forbidden,
        "cannot get pods/log",
        "not allowed",
        Some("grant it".to_owned()),
    );
    container.0.lock().error = Some(forbidden);
    let (updates, _tasks) = follow(&container);
    pass(100_000).await;
    assert_eq!(updates.count(), 1);
    assert_eq!(updates.last().state, LogState::Failing);
    let note = updates.last().note.unwrap();
    assert!(note.contains("not allowed") && note.contains("grant it"));
    container.0.lock().error = None;
    pass(20_000).await;
    assert_eq!(updates.last().state, LogState::Following);
    container.end(ContainerState::NoContainer(vec![
        "app".to_owned(),
        "proxy".to_owned(),
    ]));
    pass(20_000).await;
    assert!(updates.last().note.unwrap().contains("`app`, `proxy`"));
}

#[tokio::test(start_paused = true)]
async fn nothing_that_looks_like_a_secret_is_told() {
    let container = FakeContainer::new();
    let (updates, _tasks) = follow(&container);
    pass(1000).await;
    container.write_line(10, "login with password=swordfish-1 failed");
    pass(1000).await;
    let lines = updates.lines().concat();
    assert!(lines.contains("password=[redacted") && !lines.contains("swordfish"));
}

#[tokio::test(start_paused = true)]
async fn what_a_kubelet_says_of_itself_is_no_line_and_is_told_once() {
    let container = FakeContainer::new();
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    container.0.lock().kubelet_message =
        Some("failed to create fsnotify watcher: too many open files");
    container.write_line(10, "working");
    container.end(running(0));
    pass(200_000).await;
    assert_eq!(updates.lines(), ["working"]);
    assert_eq!(updates.last().state, LogState::Failing);
    assert!(updates.last().note.unwrap().contains("too many open files"));
    let (published, opened) = (updates.count(), container.opened().len());
    pass(100_000).await;
    assert_eq!(updates.count(), published, "once");
    let tries = container.opened().len() - opened;
    assert!(tries < 20, "{tries}: it waits longer and longer");
    container.0.lock().kubelet_message = None;
    container.write_line(11, "working on");
    pass(20_000).await;
    assert_eq!(updates.lines(), ["working", "working on"]);
    assert_eq!(updates.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_line_that_began_too_early_is_no_failure() {
    let container = FakeContainer::new();
    container.write_line(10, "before");
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    {
        let mut state = container.0.lock();
        state.kubelet_message = Some("rest of a line\n1970-01-01T00:00:11Z whole\n");
        state.changes = watch::Sender::new(0);
    }
    pass(20_000).await;
    assert_eq!(updates.lines(), ["whole"]);
    assert_eq!(updates.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn last_words_are_asked_for_again_but_not_for_ever() {
    for (failures, excuses, is_delivered) in [
        (3, 0, true),
        (1000, 0, false),
        (0, 2, true),
        (0, 1000, false),
    ] {
        let container = FakeContainer::new();
        let (updates, _tasks) = follow(&container);
        pass(2000).await;
        container.write_line(10, "working");
        pass(2000).await;
        {
            let mut state = container.0.lock();
            state.previous_failures = failures;
            state.previous_excuses = excuses;
            state.previous = vec![(12, "panic: out of cheese".to_owned())];
            state.log = vec![(20, "starting".to_owned())];
        }
        container.end(running(1));
        pass(200_000).await;
        let mut expected = vec!["working", "panic: out of cheese", "starting"];
        if !is_delivered {
            expected.remove(1);
        }
        assert_eq!(updates.lines(), expected, "{failures}, {excuses}");
        assert_eq!(updates.last().state, LogState::Following);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_never_told_as_new() {
    let container = FakeContainer::new();
    container.write_line(1, "old");
    container.0.lock().stalls_last_line = true;
    let (updates, _tasks) = follow(&container);
    pass(60_000).await;
    assert_eq!(updates.last().state, LogState::Failing);
    container.0.lock().stalls_last_line = false;
    pass(60_000).await;
    assert!(updates.lines().is_empty(), "{:?}", updates.lines());
    assert_eq!(updates.last().state, LogState::Following);

    // A run without a line yet, after a run with lines.
    let container = FakeContainer::new();
    container.0.lock().previous = vec![(1, "older".to_owned())];
    let (updates, _tasks) = follow(&container);
    pass(2000).await;
    container.end(running(0));
    pass(20_000).await;
    assert!(updates.lines().is_empty(), "{:?}", updates.lines());
}
