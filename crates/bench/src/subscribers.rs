//! Subscribed clients that read their streams: raw sockets and byte searches on a separate
//! thread, so that they use little CPU and their timestamps are exact.

use std::{sync::Arc, thread};

use anyhow::{Context, Result, anyhow, ensure};
use memchr::memmem;
use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::oneshot,
    task::JoinSet,
    time::{Duration, Instant, sleep},
};

use crate::{
    creating::NUMBER,
    load::{
        http::{Connection, text},
        scan::{Scanner, number_after},
    },
    message::now_micros,
};

/// An upper bound for the arrival of everything that was created.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How long to wait for duplicates after the expected messages have arrived.
const DUPLICATES_WITHIN: Duration = Duration::from_millis(500);

/// A message of a subscription, as it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The number of the event, if the benchmark created it.
    pub(crate) number: Option<u32>,
    pub(crate) seq: u64,
    pub(crate) at: u64,
    /// Set if the evidence has the error `throttled`.
    pub(crate) throttled: bool,
    /// Set if the evidence has another error.
    pub(crate) failed: bool,
}

/// Clients with an open stream and one subscription each.
pub(crate) struct Subscribers {
    shared: Arc<SubscriberState>,
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<Result<()>>,
}

#[derive(Default)]
struct SubscriberState {
    /// The messages of each client, in order of arrival.
    arrived: Mutex<Vec<Vec<Arrival>>>,
    failure: Mutex<Option<String>>,
}

/// Where a client connects to, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) port: u16,
    pub(crate) token: Option<String>,
}

struct Client {
    index: usize,
    seat: Seat,
    session: String,
    stream: Connection,
}

// === impl Subscribers ===

impl Subscribers {
    /// Opens all sessions and calls `events_subscribe` with `arguments` in each.
    pub(crate) async fn open(port: u16, count: usize, arguments: &str) -> Result<Self> {
        let seat = Seat { port, token: None };
        Self::open_at(vec![seat; count], arguments).await
    }

    /// The same, one at each seat.
    pub(crate) async fn open_at(seats: Vec<Seat>, arguments: &str) -> Result<Self> {
        let shared = Arc::new(SubscriberState::default());
        shared.arrived.lock().resize_with(seats.len(), Vec::new);
        let (stop, stopped) = oneshot::channel();
        let (opened, opening) = oneshot::channel();
        let (state, arguments) = (Arc::clone(&shared), arguments.to_owned());
        let thread = thread::Builder::new()
            .name("subscribers".to_owned())
            .spawn(move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(run_clients(seats, arguments, state, opened, stopped))
            })?;
        opening
            .await
            .context("the clients ended at once")?
            .map_err(|error| anyhow!("cannot subscribe: {error}"))?;
        Ok(Self {
            shared,
            stop,
            thread,
        })
    }

    /// Waits until all clients have `count` messages, and takes them. After the timeout the
    /// rest counts as lost. A further wait lets duplicates arrive.
    pub(crate) async fn take(&self, count: usize) -> Result<Vec<Vec<Arrival>>> {
        let deadline = Instant::now() + TIMEOUT;
        let all = || {
            let arrived = self.shared.arrived.lock();
            arrived.iter().all(|client| client.len() >= count)
        };
        while !all() && Instant::now() < deadline {
            if let Some(failure) = &*self.shared.failure.lock() {
                return Err(anyhow!("a client: {failure}"));
            }
            sleep(Duration::from_millis(20)).await;
        }
        sleep(DUPLICATES_WITHIN).await;
        let mut arrived = self.shared.arrived.lock();
        Ok(arrived.iter_mut().map(std::mem::take).collect())
    }

    /// Ends the sessions of all clients.
    pub(crate) async fn close(self) -> Result<()> {
        drop(self.stop);
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        ended.map_err(|_panic| anyhow!("the clients panicked"))?
    }
}

async fn run_clients(
    seats: Vec<Seat>,
    arguments: String,
    shared: Arc<SubscriberState>,
    opened: oneshot::Sender<Result<(), String>>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let mut clients = Vec::new();
    for (index, seat) in seats.into_iter().enumerate() {
        match Client::open(index, seat, &arguments).await {
            Ok(client) => clients.push(client),
            Err(error) => {
                let _sent = opened.send(Err(format!("{error:#}")));
                return Ok(());
            }
        }
    }
    let mut sessions = Vec::new();
    let mut reading = JoinSet::new();
    for client in clients {
        sessions.push((client.session, client.seat));
        reading.spawn(read(client.index, client.stream, Arc::clone(&shared)));
    }
    let _sent = opened.send(Ok(()));
    let failing = async {
        while let Some(ended) = reading.join_next().await {
            if let Ok(Err(error)) = ended {
                shared.failure.lock().get_or_insert(format!("{error:#}"));
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = failing => {}
        _stopped = stopped => {}
    }
    // The server closes idle connections, so each session is ended over a new one.
    for (session, seat) in sessions {
        let mut connection = seat.connect().await?;
        let answer = connection.delete(&session).await?;
        ensure!(answer.status < 300, "DELETE: {}", answer.status);
    }
    Ok(())
}

async fn read(index: usize, mut stream: Connection, shared: Arc<SubscriberState>) -> Result<()> {
    let mut scanner = Scanner::default();
    loop {
        ensure!(stream.read().await?, "the server closed stream {index}");
        let now = now_micros();
        let mut body = stream.body();
        let mut arrived = shared.arrived.lock();
        while let Some(data) = body.next()? {
            scanner.feed(data, |event| arrived[index].extend(arrival(event, now)));
        }
    }
}

/// Parses a message of a subscription; `None` for any other message.
fn arrival(event: &[u8], now: u64) -> Option<Arrival> {
    let seq = number_after(event, b"\"seq\":")?;
    let number = number_after(event, NUMBER).and_then(|number| u32::try_from(number).ok());
    let throttled = memmem::find(event, b"\"error\":\"throttled\"").is_some();
    Some(Arrival {
        number,
        seq,
        at: now,
        throttled,
        failed: !throttled && memmem::find(event, b"\"error\":\"").is_some(),
    })
}

// === impl Seat ===

impl Seat {
    async fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(self.port, None).await?;
        Ok(connection.of_caller(self.token.as_deref()))
    }
}

// === impl Client ===

impl Client {
    async fn open(index: usize, seat: Seat, arguments: &str) -> Result<Self> {
        let mut posts = seat.connect().await?;
        let session = posts.begin_session().await?;
        let level =
            r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}"#;
        let answer = posts.post(Some(&session), level).await?;
        ensure!(answer.status == 200, "setLevel: {}", answer.status);
        let mut stream = seat.connect().await?;
        stream.open_stream(Some(&session), None).await?;
        let subscribe = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"events_subscribe","arguments":{arguments}}}}}"#
        );
        let answer = posts.post(Some(&session), &subscribe).await?;
        ensure!(
            answer.status == 200 && memmem::find(&answer.body, b"subscriptionId").is_some(),
            "events_subscribe: {} {}",
            answer.status,
            text(&answer.body)
        );
        Ok(Self {
            index,
            seat,
            session,
            stream,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_number_its_seq_and_its_errors() {
        let event = br#"data: {"params":{"data":{"seq":7,"event":{"message":"bench n=42 x"},"logs":[{"error":"throttled"}]}}}"#;
        let arrived = arrival(event, 9).unwrap();
        assert_eq!((arrived.number, arrived.seq, arrived.at), (Some(42), 7, 9));
        assert!(arrived.throttled && !arrived.failed);
        let event = br#"data: {"params":{"data":{"seq":8,"logs":[{"error":"timeout"}]}}}"#;
        let arrived = arrival(event, 9).unwrap();
        assert!(arrived.number.is_none() && !arrived.throttled && arrived.failed);
        assert!(arrival(b"data: {\"method\":\"ping\"}", 9).is_none());
    }
}
