//! The way between a replica and NATS, which can be cut: nothing passes, and connections stay open.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Bytes that are passed on at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// A proxy on loopback; it ends when it is dropped.
pub(crate) struct Link {
    address: SocketAddr,
    is_open: Arc<watch::Sender<bool>>,
    _serving: JoinSet<()>,
}

// === impl Link ===

impl Link {
    /// Starts a proxy to a port.
    pub(crate) async fn start(to: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let is_open = Arc::new(watch::Sender::new(true));
        let gate = is_open.subscribe();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((socket, _)) = accepted else { continue };
                        connections.spawn(pass(socket, to, gate.clone()));
                    }
                    Some(_ended) = connections.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            is_open,
            _serving: serving,
        })
    }

    /// The URL of NATS for the replica.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    pub(crate) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    pub(crate) fn heal(&self) {
        self.is_open.send_replace(true);
    }
}

async fn pass(mut near: TcpStream, to: u16, mut gate: watch::Receiver<bool>) {
    if gate.wait_for(|is_open| *is_open).await.is_err() {
        return;
    }
    // If NATS is down, the connection ends, as it would without a proxy.
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", to)).await else {
        return;
    };
    let (_, _) = (near.set_nodelay(true), far.set_nodelay(true));
    let (from_near, to_near) = near.split();
    let (from_far, to_far) = far.split();
    // The end of one way is the end of both.
    tokio::select! {
        () = copy(from_near, to_far, gate.clone()) => {}
        () = copy(from_far, to_near, gate) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut gate: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await;
        // Also the end of a connection does not pass a cut.
        if gate.wait_for(|is_open| *is_open).await.is_err() {
            return;
        }
        match read {
            Ok(bytes @ 1..) if to.write_all(&buffer[..bytes]).await.is_ok() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, timeout};

    use super::*;

    #[tokio::test]
    async fn what_is_sent_over_a_cut_link_arrives_when_it_is_healed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Link::start(listener.local_addr().unwrap().port())
            .await
            .unwrap();
        let mut near = TcpStream::connect(link.address).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        near.write_all(b"a").await.unwrap();
        far.read_exact(&mut byte).await.unwrap();
        link.cut();
        near.write_all(b"b").await.unwrap();
        let silent = timeout(Duration::from_millis(100), far.read_exact(&mut byte)).await;
        assert!(silent.is_err());
        link.heal();
        far.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, *b"b");
        drop(near);
        assert_eq!(far.read(&mut byte).await.unwrap(), 0);
    }
}
