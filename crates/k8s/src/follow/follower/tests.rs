use std::{collections::VecDeque, sync::Arc};

use futures_util::{TryStreamExt, io::Cursor, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::*;
use crate::ErrorKind;

/// A container that does as a test says.
#[derive(Clone)]
struct Stage(Arc<Mutex<State>>);

struct State {
    looks: VecDeque<Result<ContainerState, ClusterError>>,
    /// The last look is repeated.
    log: Vec<(i64, String)>,
    previous: Vec<(i64, String)>,
    opened: Vec<Part>,
    /// Counts what happened: followers look again. Dropped, their streams end.
    alive: watch::Sender<u64>,
    refuse: Option<ClusterError>,
    /// So many asks for the log of the run before are refused, too.
    refuse_previous: usize,
    /// What a kubelet says at the end of every stream, without a time.
    kubelet_message: Option<&'static str>,
    /// The last line never comes.
    silent: bool,
}

impl Stage {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            looks: [Ok(running(0))].into(),
            log: Vec::new(),
            previous: Vec::new(),
            opened: Vec::new(),
            alive: watch::Sender::new(0),
            refuse: None,
            refuse_previous: 0,
            kubelet_message: None,
            silent: false,
        })))
    }

    fn say(&self, second: i64, line: &str) {
        let mut state = self.0.lock();
        state.log.push((second, line.to_owned()));
        state.alive.send_modify(|count| *count += 1);
    }

    /// The streams end; from now on a look shows this.
    fn end(&self, look: ContainerState) {
        let mut state = self.0.lock();
        state.looks = [Ok(look)].into();
        state.alive = watch::Sender::new(0);
    }

    fn opened(&self) -> Vec<Part> {
        self.0.lock().opened.clone()
    }
}

fn running(restarts: i32) -> ContainerState {
    there("a", restarts, None)
}

fn there(uid: &str, restarts: i32, not_running: Option<&str>) -> ContainerState {
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

impl LogSource for Stage {
    async fn container(&self) -> Result<ContainerState, ClusterError> {
        let mut state = self.0.lock();
        if state.looks.len() > 1 {
            return state.looks.pop_front().unwrap();
        }
        state.looks[0].clone()
    }

    async fn open(&self, part: Part) -> Result<Bytes, ClusterError> {
        let mut state = self.0.lock();
        state.opened.push(part);
        if let Some(error) = &state.refuse {
            return Err(error.clone());
        }
        if matches!(part, Part::Previous(_)) && state.refuse_previous > 0 {
            state.refuse_previous -= 1;
            return Err(refusal(ErrorKind::Unreachable));
        }
        if part == Part::Last && state.silent {
            let never = stream::pending::<std::io::Result<Vec<u8>>>();
            return Ok(Box::pin(never.into_async_read()));
        }
        let since = |since: Option<Timestamp>| {
            move |(second, _): &&(i64, String)| since.is_none_or(|from| *second >= from.as_second())
        };
        let text = match part {
            Part::Last => state.log.last().map(print).unwrap_or_default(),
            Part::Previous(from) => state
                .previous
                .iter()
                .filter(since(from))
                .map(print)
                .collect(),
            Part::Follow(from) => {
                let first: String = state.log.iter().filter(since(from)).map(print).collect();
                if let Some(kubelet_message) = state.kubelet_message {
                    let text = format!("{first}{kubelet_message}");
                    return Ok(Box::pin(Cursor::new(text.into_bytes())));
                }
                if let Some(Ok(ContainerState::Present {
                    not_running: Some(_),
                    ..
                })) = state.looks.front()
                {
                    // What has ended says nothing more.
                    return Ok(Box::pin(Cursor::new(first.into_bytes())));
                }
                let (stage, changes) = (self.clone(), state.alive.subscribe());
                let grown = (stage, changes, state.log.len());
                let rest = stream::try_unfold(grown, async |(stage, mut changes, seen)| {
                    if changes.changed().await.is_err() {
                        return Ok(None);
                    }
                    let log = stage.0.lock().log.clone();
                    let new: String = log.iter().skip(seen).map(print).collect();
                    Ok(Some((new.into_bytes(), (stage, changes, log.len()))))
                });
                let first = stream::iter([Ok::<_, std::io::Error>(first.into_bytes())]);
                let all = futures_util::StreamExt::chain(first, rest);
                return Ok(Box::pin(Box::pin(all).into_async_read()));
            }
        };
        Ok(Box::pin(Cursor::new(text.into_bytes())))
    }
}

/// What was told, and when.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(Instant, LogUpdate)>>>);

impl Told {
    fn lines(&self) -> Vec<String> {
        let told = self.0.lock();
        told.iter()
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

/// LogFollows a stage for as long as the test runs.
fn follow(stage: &Stage) -> (Told, tokio::task::JoinSet<Infallible>) {
    let told = Told::default();
    let kept = told.clone();
    let metrics = FollowMetrics::default();
    let follower = LogFollower::new(
        stage.clone(),
        Redactor::default(),
        metrics,
        move |update: &LogUpdate| {
            kept.0.lock().push((Instant::now(), update.clone()));
        },
    );
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(follower.run());
    (told, tasks)
}

async fn pass(milliseconds: u64) {
    sleep(Duration::from_millis(milliseconds)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_from_now_on_is_told_together_and_twice_a_second_at_most() {
    let stage = Stage::new();
    stage.say(1, "before");
    let (told, _tasks) = follow(&stage);
    pass(10).await;
    assert_eq!(told.last().state, LogState::Following);
    assert!(told.lines().is_empty(), "what was there is not new");
    for second in 10..200 {
        stage.say(second, &format!("line {second}"));
        pass(10).await;
    }
    pass(600).await;
    assert_eq!(told.lines().len(), 190);
    let told = told.0.lock();
    for pair in told.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(500));
        assert_eq!(pair[1].1.seq, pair[0].1.seq + 1);
    }
    assert!(told.len() <= 6, "{}", told.len());
    assert_eq!(told.last().unwrap().1.count, 190);
    assert_eq!(stage.opened().len(), 2, "anchored once, followed once");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_opened_again_and_no_line_is_told_twice() {
    let stage = Stage::new();
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    stage.say(10, "one");
    pass(2000).await;
    // A rotation: the stream ends, the container runs on.
    stage.end(running(0));
    stage.say(10, "two, in the same second");
    stage.say(11, "three");
    pass(5000).await;
    assert_eq!(told.lines(), ["one", "two, in the same second", "three"]);
    let silent = told.count();
    pass(10 * 60 * 1000).await;
    assert_eq!(told.count(), silent, "reopened in silence");
    assert!(stage.opened().len() > 5, "a quiet stream may be a dead one");
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_told_with_what_the_run_before_wrote_last() {
    let stage = Stage::new();
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    stage.say(10, "working");
    pass(2000).await;
    stage.end(there("a", 0, Some("CrashLoopBackOff")));
    pass(20_000).await;
    assert_eq!(told.last().state, LogState::Waiting);
    assert!(told.last().note.unwrap().contains("CrashLoopBackOff"));
    let opened = stage.opened().len();
    pass(60_000).await;
    assert_eq!(stage.opened().len(), opened, "a log that rests is not read");
    {
        let mut state = stage.0.lock();
        state.previous = vec![
            (10, "working".to_owned()),
            (12, "panic: out of cheese".to_owned()),
        ];
        state.log = vec![(20, "starting".to_owned())];
    }
    stage.end(running(2));
    pass(20_000).await;
    assert_eq!(
        told.lines(),
        ["working", "panic: out of cheese", "starting"]
    );
    assert_eq!(told.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_told_once_and_a_new_one_is_followed_from_its_beginning() {
    let stage = Stage::new();
    stage.say(1000, "old");
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    stage.end(ContainerState::Gone);
    pass(100_000).await;
    assert_eq!(told.last().state, LogState::Gone);
    assert_eq!(told.last().note.unwrap(), "the pod is gone");
    let said = told.count();
    pass(100_000).await;
    assert_eq!(told.count(), said, "once");
    // On a node whose clock is behind.
    stage.0.lock().log = vec![(5, "hello again".to_owned())];
    stage.end(there("b", 0, None));
    pass(20_000).await;
    assert_eq!(told.lines(), ["hello again"]);
    assert_eq!(told.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_had_is_told_once_with_its_reason_and_tried_again() {
    let stage = Stage::new();
    let forbidden = ClusterError::new(
        ErrorKind::Forbidden,
        "cannot get pods/log",
        "not allowed",
        Some("grant it".to_owned()),
    );
    stage.0.lock().refuse = Some(forbidden);
    let (told, _tasks) = follow(&stage);
    pass(100_000).await;
    assert_eq!(told.count(), 1);
    assert_eq!(told.last().state, LogState::Failing);
    let note = told.last().note.unwrap();
    assert!(note.contains("not allowed") && note.contains("grant it"));
    stage.0.lock().refuse = None;
    pass(20_000).await;
    assert_eq!(told.last().state, LogState::Following);
    stage.end(ContainerState::NoContainer(vec![
        "app".to_owned(),
        "proxy".to_owned(),
    ]));
    pass(20_000).await;
    assert!(told.last().note.unwrap().contains("app, proxy"));
}

#[tokio::test(start_paused = true)]
async fn nothing_that_looks_like_a_secret_is_told() {
    let stage = Stage::new();
    let (told, _tasks) = follow(&stage);
    pass(1000).await;
    stage.say(10, "login with password=swordfish-1 failed");
    pass(1000).await;
    let lines = told.lines().concat();
    assert!(lines.contains("password=[redacted") && !lines.contains("swordfish"));
}

#[tokio::test(start_paused = true)]
async fn what_a_kubelet_says_of_itself_is_no_line_and_is_told_once() {
    let stage = Stage::new();
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    stage.0.lock().kubelet_message = Some("failed to create fsnotify watcher: too many open files");
    stage.say(10, "working");
    stage.end(running(0));
    pass(200_000).await;
    assert_eq!(told.lines(), ["working"]);
    assert_eq!(told.last().state, LogState::Failing);
    assert!(told.last().note.unwrap().contains("too many open files"));
    let (said, opened) = (told.count(), stage.opened().len());
    pass(100_000).await;
    assert_eq!(told.count(), said, "once");
    let tries = stage.opened().len() - opened;
    assert!(tries < 20, "{tries}: it waits longer and longer");
    stage.0.lock().kubelet_message = None;
    stage.say(11, "working on");
    pass(20_000).await;
    assert_eq!(told.lines(), ["working", "working on"]);
    assert_eq!(told.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_line_that_began_too_early_is_no_failure() {
    let stage = Stage::new();
    stage.say(10, "before");
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    {
        let mut state = stage.0.lock();
        state.kubelet_message = Some("rest of a line\n1970-01-01T00:00:11Z whole\n");
        state.alive = watch::Sender::new(0);
    }
    pass(20_000).await;
    assert_eq!(told.lines(), ["whole"]);
    assert_eq!(told.last().state, LogState::Following);
}

#[tokio::test(start_paused = true)]
async fn last_words_are_asked_for_again_but_not_for_ever() {
    for (refused, heard) in [(3, true), (1000, false)] {
        let stage = Stage::new();
        let (told, _tasks) = follow(&stage);
        pass(2000).await;
        stage.say(10, "working");
        pass(2000).await;
        {
            let mut state = stage.0.lock();
            state.refuse_previous = refused;
            state.previous = vec![(12, "panic: out of cheese".to_owned())];
            state.log = vec![(20, "starting".to_owned())];
        }
        stage.end(running(1));
        pass(200_000).await;
        let mut expected = vec!["working", "panic: out of cheese", "starting"];
        if !heard {
            expected.remove(1);
        }
        assert_eq!(told.lines(), expected, "{refused}");
        assert_eq!(told.last().state, LogState::Following);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_never_told_as_new() {
    let stage = Stage::new();
    stage.say(1, "old");
    stage.0.lock().silent = true;
    let (told, _tasks) = follow(&stage);
    pass(60_000).await;
    assert_eq!(told.last().state, LogState::Failing);
    stage.0.lock().silent = false;
    pass(60_000).await;
    assert!(told.lines().is_empty(), "{:?}", told.lines());
    assert_eq!(told.last().state, LogState::Following);

    // A run that has said nothing yet, after one that has.
    let stage = Stage::new();
    stage.0.lock().previous = vec![(1, "older".to_owned())];
    let (told, _tasks) = follow(&stage);
    pass(2000).await;
    stage.end(running(0));
    pass(20_000).await;
    assert!(told.lines().is_empty(), "{:?}", told.lines());
}
