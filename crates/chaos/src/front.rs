//! The proxy before the replicas: each request goes to the next one, as behind a Service. A replica
//! that refuses connections is skipped, one that is frozen is not.
//!
//! A connection carries one request, so that the choice is for each of them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Duration, timeout},
};

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// How long connecting may take: a frozen replica has a full queue of connections at some time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const NOBODY: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A proxy on loopback; it ends when it is dropped.
pub(crate) struct Front {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

struct Turns {
    replicas: Vec<u16>,
    next: AtomicUsize,
}

// === impl Front ===

impl Front {
    /// Starts a proxy for the servers at these ports.
    pub(crate) async fn start(replicas: Vec<u16>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let turns = Arc::new(Turns {
            replicas,
            next: AtomicUsize::new(0),
        });
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut requests = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((socket, _)) = accepted else { continue };
                        let turns = Arc::clone(&turns);
                        requests.spawn(async move {
                            // Whoever is at an end of it notices by itself.
                            let _ended = turns.serve(socket).await;
                        });
                    }
                    Some(_ended) = requests.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            _serving: serving,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

// === impl Turns ===

impl Turns {
    async fn serve(&self, mut client: TcpStream) -> Result<()> {
        client.set_nodelay(true)?;
        let request = read_request(&mut client).await?;
        let Some(mut replica) = self.connect().await else {
            client.write_all(NOBODY).await?;
            return Ok(());
        };
        replica.set_nodelay(true)?;
        replica.write_all(&request).await?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_replica, _to_replica) = replica.split();
        let mut rest = [0];
        tokio::select! {
            passed = copy(&mut from_replica, &mut to_client) => drop(passed?),
            // A client sends nothing behind its request but its end.
            _gone = from_client.read(&mut rest) => {}
        }
        Ok(())
    }

    async fn connect(&self) -> Option<TcpStream> {
        for _ in 0..self.replicas.len() {
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.replicas.len();
            let connecting = TcpStream::connect(("127.0.0.1", self.replicas[turn]));
            match timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(replica)) => return Some(replica),
                Ok(Err(_refused)) => {}
                Err(_frozen) => return None,
            }
        }
        None
    }
}

/// Reads a request whole. Its head says that the connection is for it alone.
async fn read_request(client: &mut TcpStream) -> Result<Vec<u8>> {
    let mut request = Vec::with_capacity(2048);
    let head = loop {
        ensure!(client.read_buf(&mut request).await? > 0, "no request");
        if let Some(end) = memmem::find(&request, b"\r\n\r\n") {
            break end + 2;
        }
        ensure!(request.len() < HEAD_BYTES_MAX, "the head is too long");
    };
    let length = content_length(&request[..head])?;
    while request.len() < head + 2 + length {
        ensure!(client.read_buf(&mut request).await? > 0, "no body");
    }
    request.splice(head..head, *b"connection: close\r\n");
    Ok(request)
}

fn content_length(head: &[u8]) -> Result<usize> {
    let head = std::str::from_utf8(head)?;
    let found = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim())
    });
    found.map_or(Ok(0), |value| value.parse().context("no length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every request with a letter.
    fn answer_with(listener: TcpListener, letter: &'static str) -> JoinSet<()> {
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                drop(read_request(&mut socket).await.unwrap());
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n";
                let answer = format!("{head}{letter}");
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        serving
    }

    #[tokio::test]
    async fn requests_take_turns_and_pass_over_who_refuses() {
        let mut ports = Vec::new();
        let mut servers = Vec::new();
        for letter in ["a", "b", "c"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            servers.push(answer_with(listener, letter));
        }
        let front = Front::start(ports).await.unwrap();
        let client = reqwest::Client::new();
        let ask = async || {
            let answer = client.post(front.url()).body("hello").send().await.unwrap();
            answer.text().await.unwrap()
        };
        let said = [ask().await, ask().await, ask().await, ask().await];
        assert_eq!(said, ["a", "b", "c", "a"]);
        servers.remove(1).shutdown().await;
        assert_eq!([ask().await, ask().await], ["c", "a"]);
    }
}
