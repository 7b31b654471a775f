//! Clients with the behaviours found in practice; each checks that the server treats it
//! correctly.

use std::{cell::Cell, rc::Rc};

use anyhow::{Context, Result, ensure};
use tokio::time::{Duration, Instant, sleep, timeout};

use super::IDLE_TIMEOUT;
use crate::load::http::{Connection, text};

/// An upper bound for every response, except to a stalled client.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A client of a wave.
pub(super) struct SoakClient {
    pub(super) port: u16,
    pub(super) counters: Rc<Counters>,
    pub(super) until: Instant,
}

/// Counters of a wave.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) clients: Cell<u64>,
    pub(super) streams: Cell<u64>,
    pub(super) messages: Cell<u64>,
    pub(super) resumed: Cell<u64>,
    pub(super) refused: Cell<u64>,
}

/// The behaviours of clients.
#[derive(Clone, Copy, Debug)]
enum ClientKind {
    Polite,
    Vanishing,
    Returning,
    Stalling,
    Idling,
    TakingOver,
    Babbling,
    Silent,
}

const CLIENT_KINDS: [ClientKind; 8] = [
    ClientKind::Polite,
    ClientKind::Vanishing,
    ClientKind::Returning,
    ClientKind::Stalling,
    ClientKind::Idling,
    ClientKind::TakingOver,
    ClientKind::Babbling,
    ClientKind::Silent,
];

/// Runs one behaviour after another until the wave is over.
pub(super) async fn take_turns(client: SoakClient, index: usize, wave: usize) -> Result<()> {
    let mut turn = index + wave;
    while Instant::now() < client.until {
        let kind = CLIENT_KINDS[turn % CLIENT_KINDS.len()];
        turn += 1;
        client.counters.clients.bump(1);
        client
            .run(kind, turn)
            .await
            .with_context(|| format!("a client that is {kind:?}"))?;
    }
    Ok(())
}

// === impl SoakClient ===

impl SoakClient {
    async fn run(&self, kind: ClientKind, turn: usize) -> Result<()> {
        match kind {
            ClientKind::Polite => self.polite().await,
            ClientKind::Vanishing => self.vanishing().await,
            ClientKind::Returning => self.returning().await,
            ClientKind::Stalling => self.stalling().await,
            ClientKind::Idling => self.idling().await,
            ClientKind::TakingOver => self.taking_over().await,
            ClientKind::Babbling => self.babbling(turn).await,
            ClientKind::Silent => self.silent().await,
        }
    }

    /// Sends requests, reads the stream, and ends the session with DELETE.
    async fn polite(&self) -> Result<()> {
        let (mut requests, session) = self.begin().await?;
        let mut stream = self.open_stream(&session, None).await?;
        list_tools(&mut requests, &session).await?;
        self.ids(&mut stream, 3).await?;
        let ended = within(requests.delete(&session)).await?;
        ensure!(ended.status == 204, "DELETE: {}", ended.status);
        let after = within(requests.post(Some(&session), LIST)).await?;
        ensure!(after.status == 404, "after DELETE: {}", after.status);
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Closes its connections without ending the session, with a request in flight.
    async fn vanishing(&self) -> Result<()> {
        let (mut requests, session) = self.begin().await?;
        let _stream = self.open_stream(&session, None).await?;
        requests.send_post(&session, LIST).await
    }

    /// Loses its stream and resumes with `Last-Event-ID`.
    async fn returning(&self) -> Result<()> {
        let (mut requests, session) = self.begin().await?;
        let mut stream = self.open_stream(&session, None).await?;
        let ids = self.ids(&mut stream, 3).await?;
        drop(stream);
        let before_last = ids[ids.len() - 2];
        let mut stream = self.open_stream(&session, Some(before_last)).await?;
        let again = self.ids(&mut stream, 1).await?;
        ensure!(
            again[0] == before_last + 1,
            "resumed after {before_last} with {again:?}"
        );
        self.counters.resumed.bump(1);
        within(requests.delete(&session)).await?;
        Ok(())
    }

    /// Sends many requests without reading the responses; its other requests still succeed.
    async fn stalling(&self) -> Result<()> {
        let mut unread = Connection::open(self.port, Some(4096)).await?;
        let session = within(unread.begin_session()).await?;
        let _stream = self.open_stream(&session, None).await?;
        for _ in 0..20 {
            unread
                .send_post(
                    &session,
                    r#"{"jsonrpc":"2.0","id":"unread","method":"tools/list"}"#,
                )
                .await?;
        }
        let mut requests = Connection::open(self.port, None).await?;
        for _ in 0..3 {
            list_tools(&mut requests, &session).await?;
            self.pause(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    /// Sends nothing until the session has expired.
    async fn idling(&self) -> Result<()> {
        let (mut requests, session) = self.begin().await?;
        sleep(IDLE_TIMEOUT * 2 + Duration::from_secs(1)).await;
        let late = within(requests.post(Some(&session), LIST)).await?;
        ensure!(
            late.status == 404,
            "after the idle timeout: {}",
            late.status
        );
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Opens a second stream; the server ends the first one.
    async fn taking_over(&self) -> Result<()> {
        let (mut requests, session) = self.begin().await?;
        let mut old = self.open_stream(&session, None).await?;
        let mut new = self.open_stream(&session, None).await?;
        let farewell = within(async {
            let mut all = Vec::new();
            while !old.is_over() && old.read().await? {
                old.take_body(&mut all)?;
            }
            anyhow::Ok(all)
        })
        .await?;
        ensure!(
            text(&farewell).contains("taken over"),
            "the older stream was not told: {}",
            text(&farewell)
        );
        list_tools(&mut requests, &session).await?;
        within(requests.delete(&session)).await?;
        within(async {
            while !new.is_over() && new.read().await? {
                new.take_body(&mut Vec::new())?;
            }
            anyhow::Ok(())
        })
        .await
    }

    /// Sends bytes that are no request.
    async fn babbling(&self, turn: usize) -> Result<()> {
        let mut connection = Connection::open(self.port, None).await?;
        let mut state = u64::try_from(turn)? + 1;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                // An xorshift generator: reproducible pseudo-random bytes.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        // The server may close the connection before it has read everything.
        let _closed = connection.write(&noise).await;
        let mut other = Connection::open(self.port, None).await?;
        let answer = within(other.post(None, "{\"jsonrpc\":")).await?;
        ensure!(answer.status == 400, "half JSON: {}", answer.status);
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Sends a part of a request and never completes it.
    async fn silent(&self) -> Result<()> {
        let mut connection = Connection::open(self.port, None).await?;
        connection
            .write(b"POST /mcp HTTP/1.1\r\nhost: local")
            .await?;
        self.pause(Duration::from_secs(1)).await;
        Ok(())
    }

    async fn begin(&self) -> Result<(Connection, String)> {
        let mut connection = Connection::open(self.port, None).await?;
        let session = within(connection.begin_session()).await?;
        Ok((connection, session))
    }

    async fn open_stream(&self, session: &str, after: Option<u64>) -> Result<Connection> {
        let mut connection = Connection::open(self.port, Some(4096)).await?;
        within(connection.open_stream(Some(session), after)).await?;
        self.counters.streams.bump(1);
        Ok(connection)
    }

    /// Reads the ids of the next events and checks that they are consecutive.
    async fn ids(&self, stream: &mut Connection, count: usize) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        let ids = within(async {
            loop {
                let ids: Vec<u64> = text(&all)
                    .lines()
                    .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
                    .collect();
                if ids.len() >= count {
                    return Ok(ids);
                }
                ensure!(stream.read().await?, "the stream ended after {ids:?}");
                stream.take_body(&mut all)?;
            }
        })
        .await?;
        ensure!(
            ids.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "ids with holes: {ids:?}"
        );
        self.counters.messages.bump(u64::try_from(ids.len())?);
        Ok(ids)
    }

    /// Waits, at most until the end of the wave.
    async fn pause(&self, time: Duration) {
        let _over = timeout(time, tokio::time::sleep_until(self.until)).await;
    }
}

async fn list_tools(connection: &mut Connection, session: &str) -> Result<()> {
    let answer = within(connection.post(Some(session), LIST)).await?;
    ensure!(
        answer.status == 200 && text(&answer.body).contains("pods_list"),
        "tools/list: {} {}",
        answer.status,
        text(&answer.body)
    );
    Ok(())
}

async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(ANSWERED_WITHIN, work).await.context("no answer")?
}

// === impl Counters ===

impl Counters {
    /// Fails if a counter is zero: such a wave tested less than it should.
    pub(super) fn check_complete(&self) -> Result<()> {
        let all = [
            &self.clients,
            &self.streams,
            &self.messages,
            &self.resumed,
            &self.refused,
        ];
        ensure!(
            all.iter().all(|one| one.get() > 0),
            "not every kind of client had a turn"
        );
        Ok(())
    }
}

trait Bump {
    fn bump(&self, by: u64);
}

impl Bump for Cell<u64> {
    fn bump(&self, by: u64) {
        self.set(self.get() + by);
    }
}
