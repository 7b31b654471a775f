//! Servers that ask each other, on a real server.

use std::{
    env,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kubecrier_history::{PeerAnswer, PeerError, PeerFuture, PeerHandler, Peers};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_nats::{NatsConfig, NatsPeers, NatsStore};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use crate::support::{Nats, soon, text, until};

/// Says where the servers of a child process are.
const CHILD: &str = "KUBECRIER_NATS_TEST_CHILD";

/// Answers by what is asked.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    /// Answers that somebody still waits for.
    pub(crate) open: Arc<AtomicUsize>,
    /// Requests that came too late to be done.
    late: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
}

/// Counts an answer until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PeerHandler for Echo {
    fn answer(&self, request: Bytes) -> PeerFuture<'static, PeerAnswer> {
        if request.starts_with(b"late") {
            self.late.fetch_add(1, Ordering::SeqCst);
        }
        let late = self.late.load(Ordering::SeqCst);
        let open = Open::new(&self.open);
        let sent = Arc::clone(&self.sent);
        Box::pin(async move {
            let (parts, answer) = mpsc::channel(1);
            let mut answering = tokio::task::JoinSet::new();
            answering.spawn(async move {
                let _open = open;
                match &request[..] {
                    b"stream" => {
                        for number in 0_u64.. {
                            let part = Bytes::from(number.to_string());
                            if parts.send(Ok(part)).await.is_err() {
                                return;
                            }
                            sent.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    b"silence" => parts.closed().await,
                    b"error" => {
                        drop(parts.send(Ok(text("begun"))).await);
                        let error = PeerError::Lost("on purpose".to_owned());
                        drop(parts.send(Err(error)).await);
                    }
                    b"nothing" => {}
                    b"how many were late" => {
                        drop(parts.send(Ok(late.to_string().into())).await);
                    }
                    _ => {
                        drop(parts.send(Ok(Bytes::new())).await);
                        drop(parts.send(Ok(request)).await);
                    }
                }
            });
            answering.detach_all();
            answer
        })
    }
}

/// Two servers; the second answers.
pub(crate) struct Two {
    pub(crate) a: NatsPeers,
    pub(crate) echo: Echo,
    a_lifecycle: Lifecycle,
    b_lifecycle: Lifecycle,
}

pub(crate) async fn two(nats: &Nats) -> Two {
    let (a, a_lifecycle) = nats.store().await;
    let (b, b_lifecycle) = nats.store().await;
    let a = a.peers("a").await.unwrap();
    let b = b.peers("b").await.unwrap();
    let echo = Echo::default();
    b.serve(Arc::new(echo.clone()));
    until(async || a.send("b", text("nothing")).await.is_ok()).await;
    Two {
        a,
        echo,
        a_lifecycle,
        b_lifecycle,
    }
}

pub(crate) async fn whole(mut answer: PeerAnswer) -> Result<Vec<Bytes>, PeerError> {
    let mut parts = Vec::new();
    while let Some(part) = soon(answer.recv()).await {
        parts.push(part?);
    }
    Ok(parts)
}

fn large(length: usize) -> Bytes {
    (0..=250_u8).cycle().take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_whole_whatever_its_size() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    for length in [1, 128 * 1024, 128 * 1024 + 1, 3_000_000, 20_000_000] {
        let request = large(length);
        let answer = two.a.send("b", request.clone()).await.unwrap();
        let parts = whole(answer).await.unwrap();
        assert_eq!(parts.len(), 2, "parts are not joined");
        assert!(parts[0].is_empty() && parts[1] == request, "{length}");
    }
    let answer = two.a.send("b", text("nothing")).await.unwrap();
    assert_eq!(whole(answer).await, Ok(Vec::new()));
    let mut answer = two.a.send("b", text("error")).await.unwrap();
    assert_eq!(soon(answer.recv()).await, Some(Ok(text("begun"))));
    let broken = soon(answer.recv()).await;
    assert!(matches!(broken, Some(Err(PeerError::Lost(why))) if why.contains("on purpose")));
    assert_eq!(soon(answer.recv()).await, None);
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_are_answered_at_once() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..300 {
        let a = two.a.clone();
        asking.spawn(async move {
            let request = text(&format!("request {number}"));
            let answer = a.send("b", request.clone()).await.unwrap();
            let parts = whole(answer).await.unwrap();
            assert_eq!(parts, [Bytes::new(), request]);
        });
    }
    asking.join_all().await;
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_makes_the_other_side_wait_and_misses_nothing() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let mut answer = two.a.send("b", text("stream")).await.unwrap();
    let sent = || two.echo.sent.load(Ordering::SeqCst);
    // It is not read: the other side comes to a stop.
    let mut before = 0;
    until(async || {
        sleep(Duration::from_millis(300)).await;
        let now = sent();
        std::mem::replace(&mut before, now) == now && now > 0
    })
    .await;
    assert!(before < 50_000, "{before}");
    for number in 0..200_000_u64 {
        let part = soon(answer.recv()).await.unwrap().unwrap();
        assert_eq!(part, number.to_string().as_bytes());
    }
    assert!(sent() > before, "it goes on");
    drop(answer);
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_an_answer_that_is_dropped_is_dropped() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    let answer = two.a.send("b", text("silence")).await.unwrap();
    until(async || two.echo.open.load(Ordering::SeqCst) == 1).await;
    let since = Instant::now();
    drop(answer);
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
    assert!(since.elapsed() < Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_gone_at_once() {
    let Some(nats) = Nats::start() else { return };
    let two = two(&nats).await;
    for peer in ["nobody", "", "a.b", ">", "b.*"] {
        let since = Instant::now();
        let gone = soon(two.a.send(peer, text("x"))).await;
        assert_eq!(gone.unwrap_err(), PeerError::Gone(peer.to_owned()));
        assert!(since.elapsed() < Duration::from_millis(500));
    }
    // One that stops is gone at once, and says so of what it was doing.
    let mut answer = two.a.send("b", text("silence")).await.unwrap();
    two.b_lifecycle.drain();
    until(async || two.a.send("b", text("nothing")).await.is_err()).await;
    let gone = two.a.send("b", text("nothing")).await;
    assert_eq!(gone.unwrap_err(), PeerError::Gone("b".to_owned()));
    let told = soon(answer.recv()).await;
    assert!(matches!(told, Some(Err(PeerError::Lost(_)))), "{told:?}");
    soon(two.b_lifecycle.join_tasks()).await;
    two.a_lifecycle.drain();
    soon(two.a_lifecycle.join_tasks()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_nats_servers_cannot_be_reached_and_are_not_gone() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let two = two(&nats).await;
    let mut answer = two.a.send("b", text("silence")).await.unwrap();
    nats.server.kill().unwrap();
    let refused = soon(async {
        loop {
            match two.a.send("b", text("nothing")).await {
                Ok(_) => sleep(Duration::from_millis(5)).await,
                Err(error) => return error,
            }
        }
    });
    let refused = refused.await;
    assert!(matches!(refused, PeerError::Unavailable(_)), "{refused:?}");
    let told = soon(answer.recv()).await;
    assert!(
        matches!(told, Some(Err(PeerError::Unavailable(_)))),
        "{told:?}"
    );
    nats.server.start_again().unwrap();
    until(async || match two.a.send("b", text("back")).await {
        Ok(answer) => whole(answer).await.is_ok(),
        Err(PeerError::Gone(name)) => panic!("{name} was there all the time"),
        Err(_) => false,
    })
    .await;
    // For others it is waited a moment, and then they are gone.
    let gone = soon(two.a.send("nobody", text("nothing"))).await;
    assert_eq!(gone.unwrap_err(), PeerError::Gone("nobody".to_owned()));
    // What was done for the answer that was given up ends, too.
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_survives_a_short_restart_of_nats_or_says_that_it_broke_off() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let two = two(&nats).await;
    let mut answer = two.a.send("b", text("stream")).await.unwrap();
    let mut next = 0_u64;
    let mut restarted = false;
    loop {
        match soon(answer.recv()).await {
            Some(Ok(part)) => {
                assert_eq!(part, next.to_string().as_bytes(), "no hole, none twice");
                next += 1;
            }
            Some(Err(error)) => {
                assert!(matches!(
                    error,
                    PeerError::Lost(_) | PeerError::Unavailable(_)
                ));
                break;
            }
            None => panic!("a stream without an end is not complete"),
        }
        if next == 1000 && !restarted {
            nats.server.kill().unwrap();
            nats.server.start_again().unwrap();
            restarted = true;
        }
        if next == 100_000 {
            break;
        }
    }
    assert!(restarted);
    drop(answer);
    until(async || two.echo.open.load(Ordering::SeqCst) == 0).await;
}

/// A process with a server of its own, that can be frozen.
struct OwnProcess(Child);

impl OwnProcess {
    fn start(nats: &Nats) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "peers::child_process", "--nocapture"])
            .env(CHILD, nats.server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.0.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Stops it where it is, with all its threads.
    async fn freeze(&self) {
        self.signal(Signal::STOP);
        let threads = format!("/proc/{}/task", self.0.id());
        until(async || {
            let mut threads = std::fs::read_dir(&threads).unwrap();
            threads.all(|thread| {
                let stat = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
                // The state follows the name, which is in brackets.
                stat.rsplit(')')
                    .next()
                    .unwrap()
                    .trim_start()
                    .starts_with('T')
            })
        })
        .await;
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What runs in such a process; as a test of its own it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn child_process() {
    let Ok(url) = env::var(CHILD) else { return };
    let config = NatsConfig {
        servers: vec![url],
        ..NatsConfig::default()
    };
    let lifecycle = Lifecycle::default();
    let store = NatsStore::connect(&config, &lifecycle).await.unwrap();
    let peers = store.peers("child").await.unwrap();
    peers.serve(Arc::new(Echo::default()));
    // Until whoever started it is gone.
    let read = || std::io::Read::read(&mut std::io::stdin(), &mut [0]);
    drop(tokio::task::spawn_blocking(read).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_gone_and_does_nothing_that_was_given_up() {
    let Some(nats) = Nats::start() else { return };
    let child = OwnProcess::start(&nats);
    let (store, _lifecycle) = nats.store().await;
    let peers = store.peers("a").await.unwrap();
    until(async || peers.send("child", text("x")).await.is_ok()).await;
    let mut open = peers.send("child", text("silence")).await.unwrap();
    // So long that this server can judge.
    sleep(Duration::from_secs(6)).await;
    child.freeze().await;
    let since = Instant::now();
    let gone = timeout(Duration::from_secs(8), peers.send("child", text("late")));
    let gone = gone.await.expect("it is known in time");
    assert_eq!(gone.unwrap_err(), PeerError::Gone("child".to_owned()));
    let told = soon(open.recv()).await;
    assert!(matches!(told, Some(Err(PeerError::Lost(_)))), "{told:?}");
    assert!(since.elapsed() < Duration::from_secs(8));
    // Now it is known at once.
    let since = Instant::now();
    assert!(peers.send("child", text("later")).await.is_err());
    assert!(since.elapsed() < Duration::from_millis(500));
    child.signal(Signal::CONT);
    until(
        async || match peers.send("child", text("how many were late")).await {
            Ok(answer) => whole(answer).await.is_ok_and(|parts| parts == [text("0")]),
            Err(_) => false,
        },
    )
    .await;
}
