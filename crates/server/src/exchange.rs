//! Counts an HTTP request until the last byte of its answer has been handed over,
//! so that a stop does not cut an answer off that the tool has already given.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::Method;
use http_body::{Frame, SizeHint};

use crate::{body::RequestPermit, sessions::IsAnswer};
use kubecrier_lifecycle::{InFlight, InFlightGuard, Lifecycle};

/// Middleware for the MCP endpoint. A GET is a stream without a last byte, so a stop
/// does not wait for it, unless it resumes an answer.
pub(super) async fn count(
    State(lifecycle): State<Lifecycle>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        let response = next.run(request).await;
        if response.extensions().get::<IsAnswer>().is_none() {
            return response;
        }
        let busy = lifecycle.begin(InFlight::HttpExchange);
        return response.map(|body| Body::new(CountedBody::new(body, busy, None)));
    }
    let busy = lifecycle.begin(InFlight::HttpExchange);
    let permit = request.extensions().get::<RequestPermit>().cloned();
    (next.run(request).await).map(|body| Body::new(CountedBody::new(body, busy, permit)))
}

/// A body that is work until it is dropped.
struct CountedBody {
    body: Body,
    _busy: InFlightGuard,
    /// An answer that the client has not taken is memory, as the work for it was.
    _permit: Option<RequestPermit>,
}

// === impl CountedBody ===

impl CountedBody {
    fn new(body: Body, busy: InFlightGuard, permit: Option<RequestPermit>) -> Self {
        Self {
            body,
            _busy: busy,
            _permit: permit,
        }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
