//! The limits on what an API server may send: a whole answer, and one frame of a watch. Without
//! them the memory of this server is in the hands of whoever creates objects. Logs are read
//! line by line with limits of their own.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use tower::{BoxError, Layer, Service};

/// The largest answer. An object has at most 1.5 MiB in etcd; the limit fits a list of several.
const ANSWER_MEBIBYTES_MAX: usize = 32;

/// The largest frame of a watch: one object, with room for an API server that allows more.
const FRAME_MEBIBYTES_MAX: usize = 8;

const MEBIBYTE: usize = 1 << 20;

/// An answer or a frame that was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    /// A whole answer.
    #[error("the answer is larger than {ANSWER_MEBIBYTES_MAX} MiB")]
    Answer,
    /// One frame of a watch.
    #[error("a frame of the watch is larger than {FRAME_MEBIBYTES_MAX} MiB")]
    Frame,
}

/// The layer of a client. It is outside of the layer that decompresses, so it counts what
/// would be held in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyLimitLayer;

/// A client's service with limits on the bodies of responses.
#[derive(Clone, Debug)]
pub(super) struct BodyLimit<S>(S);

/// A body up to its limit.
#[derive(Debug)]
pub(super) struct LimitedBody<B> {
    inner: B,
    limit: Limit,
}

/// What of a body is limited, and how much of it was read.
#[derive(Debug, PartialEq, Eq)]
enum Limit {
    Answer { read: usize },
    Frames { line: usize },
    None,
}

impl<S> Layer<S> for BodyLimitLayer {
    type Service = BodyLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BodyLimit(inner)
    }
}

// === impl BodyLimit ===

impl<S, A, B> Service<Request<A>> for BodyLimit<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<LimitedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let limit = Limit::of(request.uri());
        let limited = |response: Response<B>| response.map(|inner| LimitedBody { inner, limit });
        self.0.call(request).map_ok(limited).boxed()
    }
}

// === impl Limit ===

impl Limit {
    fn of(uri: &Uri) -> Self {
        let mut parameters = uri.query().unwrap_or_default().split('&');
        match () {
            () if uri.path().ends_with("/log") => Self::None,
            () if parameters.any(|one| matches!(one, "watch=true" | "watch=1")) => {
                Self::Frames { line: 0 }
            }
            () => Self::Answer { read: 0 },
        }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        match self {
            Self::None => Ok(()),
            Self::Answer { read } => {
                *read += data.len();
                within(*read, ANSWER_MEBIBYTES_MAX, TooLarge::Answer)
            }
            Self::Frames { line } => {
                for part in data.split_inclusive(|byte| *byte == b'\n') {
                    *line += part.len();
                    within(*line, FRAME_MEBIBYTES_MAX, TooLarge::Frame)?;
                    if part.ends_with(b"\n") {
                        *line = 0;
                    }
                }
                Ok(())
            }
        }
    }
}

fn within(bytes: usize, mebibytes_max: usize, error: TooLarge) -> Result<(), TooLarge> {
    if bytes > mebibytes_max * MEBIBYTE {
        return Err(error);
    }
    Ok(())
}

// === impl LimitedBody ===

impl<B> Body for LimitedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(frame)) => frame.map_err(Into::into),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(Some(frame.and_then(|frame| {
            if let Some(data) = frame.data_ref() {
                self.limit.count(data)?;
            }
            Ok(frame)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit_of(uri: &str) -> Limit {
        Limit::of(&uri.parse().unwrap())
    }

    #[test]
    fn every_answer_has_the_limit_of_its_kind() {
        for (uri, limit) in [
            ("/api/v1/pods", Limit::Answer { read: 0 }),
            ("/api/v1/pods?watch=false", Limit::Answer { read: 0 }),
            ("/api/v1/pods?limit=5&watch=true", Limit::Frames { line: 0 }),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", Limit::None),
        ] {
            assert_eq!(limit_of(uri), limit, "{uri}");
        }
    }

    #[test]
    fn a_watch_may_last_and_a_frame_may_not() {
        let chunk = vec![b'x'; MEBIBYTE - 1];
        let mut watch = limit_of("/api/v1/pods?watch=1");
        for _ in 0..100 {
            watch.count(&chunk).unwrap();
            watch.count(b"\n").unwrap();
        }
        for _ in 0..FRAME_MEBIBYTES_MAX {
            watch.count(&chunk).unwrap();
        }
        assert_eq!(watch.count(&chunk), Err(TooLarge::Frame));
        let mut answer = limit_of("/api/v1/pods");
        for _ in 0..ANSWER_MEBIBYTES_MAX {
            answer.count(&chunk).unwrap();
        }
        assert_eq!(answer.count(&chunk), Err(TooLarge::Answer));
        let mut log = limit_of("/api/v1/namespaces/a/pods/b/log");
        assert!((0..100).all(|_| log.count(&chunk).is_ok()));
    }

    proptest! {
        #[test]
        fn fuzz_frames_are_counted_however_they_are_cut(
            lines in prop::collection::vec(0..40_usize, 1..20), at in 1..30_usize,
        ) {
            let text: Vec<u8> = lines.iter().flat_map(|count| {
                let mut line = vec![b'x'; *count];
                line.push(b'\n');
                line
            }).collect();
            let (mut whole, mut parts) = (Limit::Frames { line: 0 }, Limit::Frames { line: 0 });
            whole.count(&text).unwrap();
            for part in text.chunks(at) {
                parts.count(part).unwrap();
            }
            prop_assert_eq!(&whole, &parts);
            prop_assert_eq!(whole, Limit::Frames { line: 0 });
        }
    }
}
