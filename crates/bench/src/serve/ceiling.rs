//! The upper bound: the bytes of a message, made once, passed to every stream through a
//! queue, and nothing else.

use std::{net::SocketAddr, ops::Range, sync::Arc};

use anyhow::Result;
use axum::{
    Router,
    body::Body,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
    serve::ListenerExt,
};
use bytes::Bytes;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet};

use super::{Publisher, listen};
use crate::message;

/// The capacity of the server's own outbox.
const QUEUE: usize = 1024;

pub(super) struct Ceiling {
    streams: Streams,
    _serving: JoinSet<()>,
}

type Streams = Arc<Mutex<Vec<mpsc::Sender<Bytes>>>>;

pub(super) async fn start() -> Result<(SocketAddr, Ceiling)> {
    let (listener, address) = listen().await?;
    let streams = Streams::default();
    let router = Router::new()
        .route("/mcp", get(open))
        .with_state(Arc::clone(&streams));
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let mut serving = JoinSet::new();
    serving.spawn(async move { drop(axum::serve(listener, router).await) });
    let ceiling = Ceiling {
        streams,
        _serving: serving,
    };
    Ok((address, ceiling))
}

async fn open(State(streams): State<Streams>) -> Response {
    let (sender, mut receiver) = mpsc::channel(QUEUE);
    streams.lock().push(sender);
    let frames = stream::poll_fn(move |cx| receiver.poll_recv(cx).map(|one| one.map(anyhow::Ok)));
    (
        [(CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(frames),
    )
        .into_response()
}

impl Publisher for Ceiling {
    async fn publish(&mut self, numbers: Range<u64>) -> Result<()> {
        for number in numbers {
            let params = message::params(number);
            let event = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{params}}}\n\n"
            );
            let event = Bytes::from(event);
            // A full queue drops the event; the clients would report it as missing.
            self.streams.lock().retain(|stream| {
                !matches!(
                    stream.try_send(event.clone()),
                    Err(mpsc::error::TrySendError::Closed(_))
                )
            });
        }
        Ok(())
    }
}
