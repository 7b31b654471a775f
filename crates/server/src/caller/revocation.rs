//! Ends what a caller has under way when its token is revoked: requests that wait for
//! their answer, and answers that are streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use http_body::{Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Runs a request until its answer begins; `None` if the token was revoked before. If the
/// answer is a stream, it ends with the token.
pub(super) async fn until_revoked(
    revoked: &CancellationToken,
    answering: impl Future<Output = Response>,
) -> Option<Response> {
    let response = revoked.run_until_cancelled(answering).await?;
    Some(response.map(|body| {
        if http_body::Body::size_hint(&body).exact().is_some() {
            return body;
        }
        Body::new(RevocableBody {
            body: Some(body),
            revoked: Box::pin(revoked.clone().cancelled_owned()),
        })
    }))
}

/// A streamed body that ends when its reader's token is revoked.
struct RevocableBody {
    body: Option<Body>,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl http_body::Body for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.revoked.as_mut().poll(cx).is_ready() {
            // Whatever feeds the stream notices that it is not read any more.
            self.body = None;
        }
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body
            .as_ref()
            .is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::response::IntoResponse;
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;

    use super::*;

    fn endless() -> Body {
        let first = stream::iter([Ok::<_, Infallible>("first")]);
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_token() {
        let revoked = CancellationToken::new();
        let answer = until_revoked(&revoked, async { Response::new(endless()) }).await;
        let mut body = answer.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        revoked.cancel();
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_request_that_waits_is_not_answered_any_more() {
        let revoked = CancellationToken::new();
        let mut waiting = tokio_test::task::spawn(until_revoked(&revoked, std::future::pending()));
        assert!(waiting.poll().is_pending());
        revoked.cancel();
        assert!(waiting.await.is_none());
    }

    #[tokio::test]
    async fn an_answer_that_is_complete_is_left_alone() {
        let revoked = CancellationToken::new();
        let answer = until_revoked(&revoked, async { "all of it".into_response() }).await;
        revoked.cancel();
        let bytes = answer.unwrap().into_body().collect().await.unwrap();
        assert_eq!(bytes.to_bytes(), "all of it");
    }
}
