//! Clients with the behaviours found in practice; each checks that the server treats it
//! correctly.

use std::{cell::Cell, rc::Rc};

use anyhow::{Context, Result, ensure};
use tokio::time::{Duration, Instant, sleep, timeout};

use super::IDLE_TIMEOUT;
use crate::load::http::{Connection, text};

/// Everything but a stalled client is answered within this.
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
pub(super) async fn take_turns(client: SoakClient, seat: usize, wave: usize) -> Result<()> {
    let mut turn = seat + wave;
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

    /// Asks, listens, says goodbye.
    async fn polite(&self) -> Result<()> {
        let (mut asking, session) = self.begin().await?;
        let mut listening = self.listen(&session, None).await?;
        ask(&mut asking, &session).await?;
        self.ids(&mut listening, 3).await?;
        let ended = within(asking.delete(&session)).await?;
        ensure!(ended.status == 202, "DELETE: {}", ended.status);
        let after = within(asking.post(Some(&session), LIST)).await?;
        ensure!(after.status == 404, "after DELETE: {}", after.status);
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Is gone without a word, in the middle of everything.
    async fn vanishing(&self) -> Result<()> {
        let (mut asking, session) = self.begin().await?;
        let _listening = self.listen(&session, None).await?;
        asking.send_post(&session, LIST).await
    }

    /// Loses its connection and resumes where it was.
    async fn returning(&self) -> Result<()> {
        let (mut asking, session) = self.begin().await?;
        let mut listening = self.listen(&session, None).await?;
        let seen = self.ids(&mut listening, 3).await?;
        drop(listening);
        let before_last = seen[seen.len() - 2];
        let mut listening = self.listen(&session, Some(before_last)).await?;
        let again = self.ids(&mut listening, 1).await?;
        ensure!(
            again[0] == before_last + 1,
            "resumed after {before_last} with {again:?}"
        );
        self.counters.resumed.bump(1);
        within(asking.delete(&session)).await?;
        Ok(())
    }

    /// Asks much and reads nothing, and yet has its other requests answered.
    async fn stalling(&self) -> Result<()> {
        let mut deaf = Connection::open(self.port, Some(4096)).await?;
        let session = within(deaf.begin_session()).await?;
        let _listening = self.listen(&session, None).await?;
        for _ in 0..20 {
            deaf.send_post(
                &session,
                r#"{"jsonrpc":"2.0","id":"deaf","method":"tools/list"}"#,
            )
            .await?;
        }
        let mut asking = Connection::open(self.port, None).await?;
        for _ in 0..3 {
            ask(&mut asking, &session).await?;
            self.rest(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    /// Says nothing for too long.
    async fn idling(&self) -> Result<()> {
        let (mut asking, session) = self.begin().await?;
        sleep(IDLE_TIMEOUT * 2 + Duration::from_secs(1)).await;
        let late = within(asking.post(Some(&session), LIST)).await?;
        ensure!(
            late.status == 404,
            "after the idle timeout: {}",
            late.status
        );
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Opens a second stream: the first one ends.
    async fn taking_over(&self) -> Result<()> {
        let (mut asking, session) = self.begin().await?;
        let mut old = self.listen(&session, None).await?;
        let mut new = self.listen(&session, None).await?;
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
        ask(&mut asking, &session).await?;
        within(asking.delete(&session)).await?;
        within(async {
            while !new.is_over() && new.read().await? {
                new.take_body(&mut Vec::new())?;
            }
            anyhow::Ok(())
        })
        .await
    }

    /// Sends what is no request at all.
    async fn babbling(&self, turn: usize) -> Result<()> {
        let mut connection = Connection::open(self.port, None).await?;
        let mut state = u64::try_from(turn)? + 1;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                // Noise enough, and the same each time.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        // The server may close before it has read all of it.
        let _closed = connection.write(&noise).await;
        let mut other = Connection::open(self.port, None).await?;
        let answer = within(other.post(None, "{\"jsonrpc\":")).await?;
        ensure!(answer.status == 400, "half JSON: {}", answer.status);
        self.counters.refused.bump(1);
        Ok(())
    }

    /// Begins a request and never ends it.
    async fn silent(&self) -> Result<()> {
        let mut connection = Connection::open(self.port, None).await?;
        connection
            .write(b"POST /mcp HTTP/1.1\r\nhost: local")
            .await?;
        self.rest(Duration::from_secs(1)).await;
        Ok(())
    }

    async fn begin(&self) -> Result<(Connection, String)> {
        let mut connection = Connection::open(self.port, None).await?;
        let session = within(connection.begin_session()).await?;
        Ok((connection, session))
    }

    async fn listen(&self, session: &str, after: Option<u64>) -> Result<Connection> {
        let mut connection = Connection::open(self.port, Some(4096)).await?;
        within(connection.open_stream(Some(session), after)).await?;
        self.counters.streams.bump(1);
        Ok(connection)
    }

    /// The ids of the next events, which go up by one.
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

    /// Waits, but not beyond the wave.
    async fn rest(&self, time: Duration) {
        let _over = timeout(time, tokio::time::sleep_until(self.until)).await;
    }
}

async fn ask(connection: &mut Connection, session: &str) -> Result<()> {
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
    /// A wave in which something never happened shows nothing about it.
    pub(super) fn is_everything(&self) -> Result<()> {
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
