//! What stands between a client and a server: it may speak TLS, and it may fail.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
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

/// A proxy on loopback. It ends with its handle.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    mood: watch::Sender<Mood>,
    swallowed: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// Passes everything on.
    Fair,
    /// Takes what the server sends, and passes none of it on.
    Swallowing,
    /// Every connection is cut, and none is taken.
    Cut,
}

// === impl Proxy ===

impl Proxy {
    /// In front of the server at this address, `http://127.0.0.1:8080` or longer.
    pub(crate) async fn start(to: &str) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, to, None).await
    }

    /// The same, under another address of this host.
    pub(crate) async fn start_at(host: Ipv4Addr, to: &str) -> Self {
        Self::at(host, to, None).await
    }

    /// The same, with TLS.
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
        let (mood, seen) = watch::channel(Mood::Fair);
        let swallowed = Arc::new(Mutex::new(String::new()));
        let mut tasks = JoinSet::new();
        let drain = Arc::clone(&swallowed);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *seen.borrow() == Mood::Cut {
                    continue;
                }
                let (tls, mood, drain) = (tls.clone(), seen.clone(), Arc::clone(&drain));
                open.spawn(async move {
                    let server = TcpStream::connect(to).await.unwrap();
                    match tls {
                        None => pass(client, server, mood, drain).await,
                        Some(tls) => {
                            // A client that does not trust us hangs up.
                            if let Ok(client) = tls.accept(client).await {
                                pass(client, server, mood, drain).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            mood,
            swallowed,
            _tasks: tasks,
        }
    }

    /// From now on the server sends into the void.
    pub(crate) fn swallow(&self) {
        self.mood.send_replace(Mood::Swallowing);
    }

    /// Waits until it has swallowed this text.
    pub(crate) async fn until_swallowed(&self, text: &str) {
        let gone = async {
            while !self.swallowed.lock().contains(text) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(super::PATIENCE, gone).await;
        assert!(waited.is_ok(), "the server never sent `{text}`");
    }

    /// Cuts all connections, and takes none.
    pub(crate) fn cut(&self) {
        self.mood.send_replace(Mood::Cut);
    }

    /// All is well again.
    pub(crate) fn mend(&self) {
        self.mood.send_replace(Mood::Fair);
    }
}

async fn pass(
    client: impl AsyncRead + AsyncWrite + Send,
    server: TcpStream,
    mut mood: watch::Receiver<Mood>,
    swallowed: Arc<Mutex<String>>,
) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let seen = mood.clone();
    let back = async {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if *seen.borrow() == Mood::Swallowing {
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
        _cut = mood.wait_for(|mood| *mood == Mood::Cut) => {}
    }
}
