//! Ends what a caller has under way when its token is revoked or expires: requests that wait
//! for their answer, and answers that are streams.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Until when a caller may have something open.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifetime {
    /// Cancelled when the token is revoked.
    pub(super) revoked: Option<CancellationToken>,
    /// When it has expired, leeway included.
    pub(super) expires: Option<Instant>,
    /// How its issuer is asked whether it still counts.
    pub(super) recheck: Option<Recheck>,
}

/// The end of a lifetime. Every stream waits for one, so that it has room only for what can end it.
struct End {
    revoked: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    expired: Option<Pin<Box<Sleep>>>,
    refused: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// A token of which only its issuer knows whether it still counts.
#[derive(Clone, Debug)]
pub(super) struct Recheck {
    /// When to ask for the first time.
    pub(super) at: Instant,
    pub(super) asked: Arc<dyn AskAgain>,
}

/// Asks whether a token still counts. A trait so that tests need no issuer.
pub(super) trait AskAgain: fmt::Debug + Send + Sync {
    /// When to ask again; `None` if it does not count any more.
    fn ask_again(&self) -> Pin<Box<dyn Future<Output = Option<Instant>> + Send + '_>>;
}

// === impl Lifetime ===

impl Lifetime {
    /// Whether nothing ends it.
    pub(super) fn is_endless(&self) -> bool {
        self.revoked.is_none() && self.expires.is_none() && self.recheck.is_none()
    }

    /// Waits for the end.
    fn end(&self) -> End {
        let Self {
            revoked,
            expires,
            recheck,
        } = self.clone();
        End {
            revoked: revoked.map(|revoked| Box::pin(revoked.cancelled_owned())),
            expired: expires.map(|at| Box::pin(sleep_until(at))),
            refused: recheck.map(|recheck| Box::pin(recheck.refused()) as _),
        }
    }
}

// === impl End ===

impl Future for End {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self {
            revoked,
            expired,
            refused,
        } = &mut *self;
        let is_revoked = is_ready(revoked.as_mut(), cx);
        if is_revoked || is_ready(expired.as_mut(), cx) || is_ready(refused.as_mut(), cx) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

fn is_ready<F: Future<Output = ()> + ?Sized>(
    end: Option<&mut Pin<Box<F>>>,
    cx: &mut Context<'_>,
) -> bool {
    end.is_some_and(|end| end.as_mut().poll(cx).is_ready())
}

// === impl Recheck ===

impl Recheck {
    /// Waits until the token does not count any more. Cancel-safe.
    async fn refused(self) {
        let mut at = self.at;
        loop {
            sleep_until(at).await;
            match self.asked.ask_again().await {
                Some(next) => at = next,
                None => return,
            }
        }
    }
}

/// Runs a request until its answer begins; `None` if the lifetime of its token ended before. If
/// the answer is a stream, it ends with the token. The timer is the stream's own: no task waits.
pub(super) async fn until_ended(
    lifetime: &Lifetime,
    answering: impl Future<Output = Response>,
) -> Option<Response> {
    let mut end = lifetime.end();
    let response = tokio::select! {
        biased;
        () = &mut end => return None,
        response = answering => response,
    };
    Some(response.map(|body| {
        if http_body::Body::size_hint(&body).exact().is_some() {
            return body;
        }
        Body::new(EndingBody {
            body: Some(body),
            end,
        })
    }))
}

/// A streamed body that ends when its reader's token is revoked or expires.
struct EndingBody {
    body: Option<Body>,
    end: End,
}

impl http_body::Body for EndingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_some() && Pin::new(&mut self.end).poll(cx).is_ready() {
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
    use std::{convert::Infallible, time::Duration};

    use axum::response::IntoResponse;
    use futures_util::{StreamExt, stream};
    use http_body_util::BodyExt;

    use super::*;

    async fn until_revoked(
        revoked: &CancellationToken,
        answering: impl Future<Output = Response>,
    ) -> Option<Response> {
        let lifetime = Lifetime {
            revoked: Some(revoked.clone()),
            ..Lifetime::default()
        };
        until_ended(&lifetime, answering).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_the_token_expires() {
        let begun = Instant::now();
        let lifetime = Lifetime {
            revoked: Some(CancellationToken::new()),
            expires: Some(begun + Duration::from_secs(90)),
            recheck: None,
        };
        let answer = until_ended(&lifetime, async { Response::new(endless()) }).await;
        let mut body = answer.unwrap().into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(90));
        let late = until_ended(&lifetime, async { "late".into_response() }).await;
        assert!(late.is_none(), "expired before the answer");
    }

    /// An issuer that knows a token until a time, and is asked once a minute.
    #[derive(Debug)]
    struct Knows(Instant);

    impl AskAgain for Knows {
        fn ask_again(&self) -> Pin<Box<dyn Future<Output = Option<Instant>> + Send + '_>> {
            let now = Instant::now();
            let next = (now < self.0).then(|| now + Duration::from_mins(1));
            Box::pin(std::future::ready(next))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_the_issuer_does_not_know_the_token_any_more() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let lifetime = Lifetime {
            expires: Some(after(3600)),
            recheck: Some(Recheck {
                at: after(20),
                asked: Arc::new(Knows(after(100))),
            }),
            ..Lifetime::default()
        };
        let answer = until_ended(&lifetime, async { Response::new(endless()) }).await;
        let mut body = answer.unwrap().into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
        // Asked after 20 s and 80 s, when it was known, and once more.
        assert_eq!(begun.elapsed(), Duration::from_secs(140));
    }

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
