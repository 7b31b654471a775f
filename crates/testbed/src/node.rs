//! The node: a TLS endpoint that serves the API server's requests for logs.

use std::{collections::HashMap, convert::Infallible, net::SocketAddr, sync::Arc, thread};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::StreamBody;
use hyper::{Request, Response, body::Frame, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    runtime,
    sync::{oneshot, watch},
    task::JoinSet,
    time::{Duration, sleep},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::{Issued, LogScript, Selection};

/// Serves the logs of all pods of a cluster, in place of a kubelet.
pub struct NodeEndpoint {
    port: u16,
    state: Arc<State>,
    /// Closing the channel ends the thread.
    _running: oneshot::Sender<Infallible>,
}

/// One request for a log, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// `namespace/pod/container`.
    pub container: String,
    /// Which part of the log.
    pub selection: Selection,
}

#[derive(Default)]
struct State {
    logs: Mutex<Logs>,
    /// Counts changes, so that followers know when to read the log again.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Logs {
    scripts: HashMap<(String, bool), LogScript>,
    /// How often a container has ended; each time the log ends for its followers.
    ended: HashMap<String, u64>,
    requests: Vec<LogRequest>,
    open: usize,
    open_max: usize,
    following: HashMap<String, usize>,
}

type Item = Result<Frame<Bytes>, Infallible>;
type Body = StreamBody<std::pin::Pin<Box<dyn Stream<Item = Item> + Send>>>;

// === impl NodeEndpoint ===

impl NodeEndpoint {
    /// Starts the endpoint on a free port, on a separate thread: it serves tests that each
    /// have their own runtime.
    pub fn start(identity: &Issued) -> Result<Self> {
        let acceptor = acceptor(identity)?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let (running, stopped) = oneshot::channel();
        let serving = Arc::clone(&state);
        thread::Builder::new()
            .name("testbed-node".to_owned())
            .spawn(move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(async {
                    tokio::select! {
                        served = serve(listener, acceptor, serving) => served,
                        _gone = stopped => Ok(()),
                    }
                })
            })?;
        Ok(Self {
            port,
            state,
            _running: running,
        })
    }

    /// The port of the endpoint.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the endpoint, on loopback.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Scripts the current log of `namespace/pod/container`.
    pub fn set_log(&self, container: &str, script: LogScript) {
        self.script(container, false, script);
    }

    /// Scripts the log of the container before its last restart.
    pub fn set_previous_log(&self, container: &str, script: LogScript) {
        self.script(container, true, script);
    }

    /// Adds a line to the current log; followers get it.
    pub fn append(&self, container: &str, line: &str) {
        let key = (container.to_owned(), false);
        self.state
            .logs
            .lock()
            .scripts
            .entry(key)
            .or_default()
            .push(Duration::ZERO, line);
        self.state.changed.send_modify(|count| *count += 1);
    }

    /// Answers the next requests for the current log with this error message in place of it;
    /// open ones go on. After a restart, those for the log from before.
    pub fn excuse(&self, container: &str, times: usize, text: &str) {
        let key = (container.to_owned(), false);
        let mut logs = self.state.logs.lock();
        let script = logs.scripts.entry(key).or_default();
        script.excuses = Some((times, text.to_owned()));
    }

    /// Ends the container: its log ends for all followers, as it does behind a kubelet.
    pub fn end(&self, container: &str) {
        let mut logs = self.state.logs.lock();
        *logs.ended.entry(container.to_owned()).or_default() += 1;
        drop(logs);
        self.state.changed.send_modify(|count| *count += 1);
    }

    /// Ends the container and starts it again: its log is now the log from before the
    /// restart.
    pub fn restart(&self, container: &str) {
        let mut logs = self.state.logs.lock();
        let log = logs.scripts.remove(&(container.to_owned(), false));
        let key = (container.to_owned(), true);
        logs.scripts.insert(key, log.unwrap_or_default());
        let key = (container.to_owned(), false);
        logs.scripts.insert(key, LogScript::default());
        drop(logs);
        self.end(container);
    }

    /// Forgets all logs; what is open goes on.
    pub fn forget_logs(&self) {
        self.state.logs.lock().scripts.clear();
    }

    /// The current number of followers of the log of `namespace/pod/container`.
    pub fn followers(&self, container: &str) -> usize {
        let logs = self.state.logs.lock();
        logs.following.get(container).copied().unwrap_or_default()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<LogRequest> {
        self.state.logs.lock().requests.clone()
    }

    /// The largest number of concurrent requests so far.
    pub fn open_max(&self) -> usize {
        self.state.logs.lock().open_max
    }

    fn script(&self, container: &str, previous: bool, script: LogScript) {
        self.state
            .logs
            .lock()
            .scripts
            .insert((container.to_owned(), previous), script);
        self.state.changed.send_modify(|count| *count += 1);
    }
}

fn acceptor(identity: &Issued) -> Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .context("the node's certificate does not fit its key")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(
    listener: std::net::TcpListener,
    acceptor: TlsAcceptor,
    state: Arc<State>,
) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut connections = JoinSet::new();
    loop {
        let (tcp, _peer) = listener.accept().await?;
        while connections.try_join_next().is_some() {}
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        connections.spawn(async move {
            // A client may reject the certificate or disconnect: tests provoke both.
            let Ok(tls) = acceptor.accept(tcp).await else {
                return;
            };
            let answer = service_fn(move |request| answer(request, Arc::clone(&state)));
            let _served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(tls), answer)
                .await;
        });
    }
}

async fn answer<B>(request: Request<B>, state: Arc<State>) -> Result<Response<Body>, Infallible> {
    let Some(container) = request.uri().path().strip_prefix("/containerLogs/") else {
        return Ok(error(404, "this node only serves logs"));
    };
    let selection = Selection::parse(request.uri().query().unwrap_or_default());
    let key = (container.to_owned(), selection.previous);
    let open = Open::enter(&state, container, &selection);
    // Subscribed before the log is read, so that no later line is missed.
    let changes = state.changed.subscribe();
    let (script, ended, excuse) = {
        let mut logs = state.logs.lock();
        let ended = logs.ended.get(container).copied();
        let script = logs.scripts.get_mut(&key);
        let excuse = script.and_then(LogScript::take_excuse);
        (logs.scripts.get(&key).cloned(), ended, excuse)
    };
    let Some(script) = script else {
        // The text of a kubelet for an unknown container.
        return Ok(error(400, "unable to retrieve container logs"));
    };
    sleep(script.delay).await;
    if let Some((status, message)) = &script.failure {
        return Ok(error(*status, message));
    }
    if let Some(text) = excuse {
        drop(open);
        let body = stream::iter([frame(text.into_bytes())]);
        return Ok(Response::new(StreamBody::new(Box::pin(body))));
    }
    let mut first = script.select(&selection);
    let trailing_error = script.trailing_error.as_ref().filter(|_| selection.follow);
    if let Some(text) = trailing_error {
        first.extend_from_slice(text.as_bytes());
    }
    let body: Body = if selection.follow && trailing_error.is_none() {
        StreamBody::new(Box::pin(follow(
            first,
            script.len(),
            key,
            ended,
            selection.timestamps,
            changes,
            open,
        )))
    } else {
        drop(open);
        StreamBody::new(Box::pin(stream::iter([frame(first)])))
    };
    Ok(Response::new(body))
}

fn follow(
    first: Vec<u8>,
    sent_lines: usize,
    key: (String, bool),
    ended: Option<u64>,
    timestamps: bool,
    changes: watch::Receiver<u64>,
    open: Open,
) -> impl Stream<Item = Item> + Send {
    stream::unfold(
        (Some(first), sent_lines, changes),
        move |(pending, sent_lines, mut changes)| {
            let (state, key) = (Arc::clone(&open.state), key.clone());
            async move {
                if let Some(text) = pending {
                    return Some((frame(text), (None, sent_lines, changes)));
                }
                loop {
                    changes.changed().await.ok()?;
                    let script = {
                        let logs = state.logs.lock();
                        if logs.ended.get(&key.0).copied() != ended {
                            return None;
                        }
                        logs.scripts.get(&key).cloned()?
                    };
                    if script.len() > sent_lines {
                        let text = script.since(sent_lines, timestamps);
                        return Some((frame(text), (None, script.len(), changes)));
                    }
                }
            }
        },
    )
}

/// Counts a request while it is open.
struct Open {
    state: Arc<State>,
    /// The container of a request that follows its log.
    following: Option<String>,
}

impl Open {
    fn enter(state: &Arc<State>, container: &str, selection: &Selection) -> Self {
        let mut logs = state.logs.lock();
        logs.requests.push(LogRequest {
            container: container.to_owned(),
            selection: selection.clone(),
        });
        logs.open += 1;
        logs.open_max = logs.open_max.max(logs.open);
        let following = selection.follow.then(|| container.to_owned());
        if let Some(container) = &following {
            *logs.following.entry(container.clone()).or_default() += 1;
        }
        Self {
            state: Arc::clone(state),
            following,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut logs = self.state.logs.lock();
        logs.open -= 1;
        if let Some(count) = (self.following.as_ref()).and_then(|one| logs.following.get_mut(one)) {
            *count -= 1;
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an item of a body stream")]
fn frame(text: Vec<u8>) -> Item {
    Ok(Frame::data(text.into()))
}

fn error(status: u16, message: &str) -> Response<Body> {
    let body = stream::iter([frame(message.as_bytes().to_vec())]);
    let mut response = Response::new(StreamBody::new(Box::pin(body) as _));
    *response.status_mut() =
        http::StatusCode::from_u16(status).expect("a test scripts a real status");
    response
}
