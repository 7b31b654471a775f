//! A proxy between a client and a server, with TLS and with scripted failures.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use testbed::Issued;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// A proxy on loopback; ends on drop.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
    swallowed: Arc<Mutex<String>>,
    /// The number of times that the open connections were lost.
    losses: Arc<AtomicUsize>,
    /// The number of connections so far.
    accepted: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum ProxyMode {
    /// Forwards everything.
    Forwarding,
    /// Reads what the server sends and discards it.
    Swallowing,
    /// Closes all connections and accepts no new ones.
    Cut,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy for the server at this URL; its path is ignored.
    pub(crate) async fn start(to: &str) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, to, None).await
    }

    /// Starts a proxy at another loopback address.
    pub(crate) async fn start_at(host: Ipv4Addr, to: &str) -> Self {
        Self::at(host, to, None).await
    }

    /// Starts a proxy with TLS.
    pub(crate) async fn start_tls(to: &str, certificate: &Issued) -> Self {
        let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.map(Result::unwrap).collect(), key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        Self::at(Ipv4Addr::LOCALHOST, to, Some(tls)).await
    }

    async fn at(host: Ipv4Addr, to: &str, tls: Option<TlsAcceptor>) -> Self {
        let to = to.split("://").nth(1).unwrap().split('/').next().unwrap();
        let to: SocketAddr = to.parse().unwrap();
        let listener = TcpListener::bind((IpAddr::V4(host), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, current) = watch::channel(ProxyMode::Forwarding);
        let swallowed = Arc::new(Mutex::new(String::new()));
        let mut tasks = JoinSet::new();
        let drain = Arc::clone(&swallowed);
        let losses = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&losses);
        let accepted = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&accepted);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                seen.fetch_add(1, Ordering::AcqRel);
                if *current.borrow() == ProxyMode::Cut {
                    continue;
                }
                let (tls, mode, drain) = (tls.clone(), current.clone(), Arc::clone(&drain));
                let counted = Arc::clone(&counted);
                let before = counted.load(Ordering::Acquire);
                let is_lost = move || counted.load(Ordering::Acquire) != before;
                open.spawn(async move {
                    let server = TcpStream::connect(to).await.unwrap();
                    match tls {
                        None => pass(client, server, mode, drain, is_lost).await,
                        Some(tls) => {
                            // A client that does not trust the certificate disconnects.
                            if let Ok(client) = tls.accept(client).await {
                                pass(client, server, mode, drain, is_lost).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            mode,
            swallowed,
            losses,
            accepted,
            _tasks: tasks,
        }
    }

    /// Discards everything that the server sends from now on.
    pub(crate) fn swallow(&self) {
        self.mode.send_replace(ProxyMode::Swallowing);
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }

    /// Loses all open connections without a word to either side; new ones work.
    pub(crate) fn lose_open(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until this text was discarded.
    pub(crate) async fn until_swallowed(&self, text: &str) {
        let gone = async {
            while !self.swallowed.lock().contains(text) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(super::TIMEOUT, gone).await;
        assert!(waited.is_ok(), "the server never sent `{text}`");
    }

    /// Closes all connections and accepts no new ones.
    pub(crate) fn cut(&self) {
        self.mode.send_replace(ProxyMode::Cut);
    }

    /// Forwards again.
    pub(crate) fn mend(&self) {
        self.mode.send_replace(ProxyMode::Forwarding);
    }
}

async fn pass(
    client: impl AsyncRead + AsyncWrite + Send,
    server: TcpStream,
    mut mode: watch::Receiver<ProxyMode>,
    swallowed: Arc<Mutex<String>>,
    is_lost: impl Fn() -> bool,
) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let current = mode.clone();
    let back = async {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if *current.borrow() == ProxyMode::Swallowing || is_lost() {
                let text = String::from_utf8_lossy(&buffer[..count]);
                swallowed.lock().push_str(&text);
            } else if to_client.write_all(&buffer[..count]).await.is_err()
                || to_client.flush().await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = back => {}
        _ended = copy(&mut from_client, &mut to_server) => {}
        _cut = mode.wait_for(|mode| *mode == ProxyMode::Cut) => {}
    }
}
