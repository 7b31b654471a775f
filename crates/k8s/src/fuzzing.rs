//! Entry points for the fuzz targets: any bytes as the API server's response to a watch, read
//! by the production client and the production watches.

use std::{
    io,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body_util::StreamBody;
use kube::client::{Body, ClientBuilder};
use kubecrier_core::Event;
use kubecrier_redact::Redactor;
use kubecrier_topology::{Graph, Kind};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::{
    Allowed, Config, Contexts, DeniedKinds, allowed::ReadScope, client::Cluster,
    graph::fuzzing::watch_graph, read_only, watch::source::fuzzing::watch,
};

const NAME: &str = "fuzz";
const TIMEOUT: Duration = Duration::from_secs(5);

static HARNESS: LazyLock<Mutex<Harness>> = LazyLock::new(|| Mutex::new(Harness::new()));

/// A client that is connected to a body instead of a cluster. Made once: it takes longer than
/// most inputs.
struct Harness {
    runtime: Runtime,
    contexts: Arc<Contexts>,
    cluster: Cluster,
    body: Arc<Mutex<Vec<u8>>>,
}

/// The events that a watch with this response delivers.
pub fn watched_events(body: &[u8]) -> Vec<Event> {
    let harness = HARNESS.lock();
    body.clone_into(&mut harness.body.lock());
    harness.runtime.block_on(watch(&harness.cluster))
}

/// The graph after a watch of a kind with this response.
pub fn watched_graph(kind: Kind, body: &[u8]) -> Graph {
    let harness = HARNESS.lock();
    body.clone_into(&mut harness.body.lock());
    let watched = watch_graph(&harness.contexts, &harness.cluster, kind);
    harness.runtime.block_on(watched)
}

// === impl Harness ===

impl Harness {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
        let body = Arc::<Mutex<Vec<u8>>>::default();
        let answer = Arc::clone(&body);
        let service = tower::service_fn(move |_request: http::Request<Body>| {
            let response = Response::new(in_pieces(&answer.lock()));
            std::future::ready(Ok::<_, io::Error>(response))
        });
        let context = runtime.enter();
        let client = ClientBuilder::new(service, NAME)
            .with_layer(&read_only::layer(ReadScope::default()))
            .build();
        drop(context);
        let server = "https://fuzz.invalid/".to_owned();
        let contexts = Contexts::new(Config {
            kubeconfig: None,
            context: None,
            request_timeout: TIMEOUT,
            redactor: Redactor::default(),
            demo: None,
            denied: DeniedKinds::default(),
            allowed: Allowed::default(),
            identity: crate::ClusterIdentity::default(),
        });
        Self {
            cluster: Cluster::new(NAME, client, server, NAME.to_owned(), TIMEOUT),
            runtime,
            contexts: Arc::new(contexts),
            body,
        }
    }
}

/// The bytes in pieces whose length depends on them, so that they end anywhere in a line.
fn in_pieces(body: &[u8]) -> impl http_body::Body<Data = Bytes, Error = io::Error> + use<> {
    let length = 1 + body.len() % 61 * 4;
    let frame = |piece: &[u8]| Ok::<_, io::Error>(http_body::Frame::data(piece.to_vec().into()));
    let pieces: Vec<_> = body.chunks(length).map(frame).collect();
    StreamBody::new(stream::iter(pieces))
}
