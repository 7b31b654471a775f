use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("wrapped")]
struct Wrapped(#[source] BoxError);

fn wrapped(error: impl Into<BoxError>) -> BoxError {
    Box::new(Wrapped(Box::new(Wrapped(error.into()))))
}

fn check(error: impl Into<BoxError>, error_type: ErrorType, retryable: bool) {
    let error = error.into();
    let text = format!("{error:?}");
    let class = SendError::classify(error).class();
    assert_eq!(
        (class.error_type, class.retryable),
        (error_type, retryable),
        "{text}"
    );
}

/// A writer with a closed peer.
struct Broken;
impl io::Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ConnectionReset.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn json_error() -> serde_json::Error {
    serde_json::from_str::<u8>("no").unwrap_err()
}

async fn elapsed() -> tokio::time::error::Elapsed {
    tokio::time::timeout(Duration::ZERO, std::future::pending::<()>())
        .await
        .unwrap_err()
}

#[test]
fn io_errors_are_sorted_by_their_kind() {
    use io::ErrorKind as K;
    for kind in [
        K::ConnectionRefused,
        K::ConnectionReset,
        K::ConnectionAborted,
        K::NotConnected,
        K::BrokenPipe,
        K::HostUnreachable,
        K::NetworkUnreachable,
        K::NetworkDown,
        K::UnexpectedEof,
        K::WriteZero,
        K::Interrupted,
        K::WouldBlock,
    ] {
        check(io::Error::from(kind), ErrorType::Network, true);
        check(
            io::Error::new(kind, "with a text"),
            ErrorType::Network,
            true,
        );
    }
    check(io::Error::from(K::TimedOut), ErrorType::Timeout, true);
    for kind in [
        K::InvalidInput,
        K::InvalidData,
        K::PermissionDenied,
        K::OutOfMemory,
        K::Other,
    ] {
        check(io::Error::from(kind), ErrorType::Other, false);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_a_timeout_and_is_retried() {
    check(elapsed().await, ErrorType::Timeout, true);
    assert!(
        SendError::Deadline(Duration::from_secs(2))
            .class()
            .retryable
    );
}

#[tokio::test]
async fn cancellation_is_other_and_is_not_retried() {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(std::future::pending::<()>());
    tasks.abort_all();
    let error = tasks.join_next().await.unwrap().unwrap_err();
    assert!(matches!(SendError::classify(error), SendError::Cancelled));
    let class = SendError::Cancelled.class();
    assert_eq!(
        (class.error_type, class.retryable),
        (ErrorType::Other, false)
    );
}

#[test]
fn a_json_error_is_serialization_unless_its_writer_failed() {
    check(json_error(), ErrorType::Serialization, false);
    let error = serde_json::to_writer(Broken, "x").unwrap_err();
    check(error, ErrorType::Network, true);
}

#[test]
fn invalid_parameters_are_other_and_are_not_retried() {
    let class = SendError::InvalidParams("no".into()).class();
    assert_eq!(
        (class.error_type, class.retryable),
        (ErrorType::Other, false)
    );
}

#[test]
fn the_cause_is_found_however_deep_it_lies() {
    check(
        wrapped(io::Error::from(io::ErrorKind::ConnectionReset)),
        ErrorType::Network,
        true,
    );
    check(wrapped(json_error()), ErrorType::Serialization, false);
    check(
        io::Error::other(wrapped(json_error())),
        ErrorType::Serialization,
        false,
    );
    check(
        io::Error::from(json_error()),
        ErrorType::Serialization,
        false,
    );
    check(wrapped(SendError::Closed), ErrorType::Network, false);
}

#[test]
fn only_failures_of_the_connection_prune_a_session() {
    let prunes = |error: SendError| error.class().prunes;
    assert!(prunes(SendError::network("reset")));
    assert!(prunes(SendError::Deadline(Duration::from_secs(2))));
    assert!(prunes(SendError::Timeout(Arc::from(BoxError::from(
        "late"
    )))));
    assert!(prunes(SendError::Closed));
    assert!(!prunes(SendError::classify(json_error())));
    assert!(!prunes(SendError::InvalidParams("no".into())));
    assert!(!prunes(SendError::Full));
    assert!(!prunes(SendError::Panicked("no".into())));
    assert!(!prunes(SendError::other("nonsense")));
}

#[cfg(feature = "hyper")]
mod hyper_errors {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::rt::{Read, ReadBufCursor, Write};

    use super::*;

    /// A connection that yields these bytes and then ends; it accepts writes or not.
    struct Peer(&'static [u8], bool);

    impl Read for Peer {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            into.put_slice(std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    impl Write for Peer {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = self.1.then_some(bytes.len());
            Poll::Ready(taken.ok_or_else(|| io::ErrorKind::ConnectionReset.into()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn serve(peer: Peer) -> hyper::Error {
        let answer = hyper::service::service_fn(|_| async {
            Ok::<_, Infallible>(hyper::Response::new("body".to_owned()))
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(peer, answer);
        connection.await.unwrap_err()
    }

    #[tokio::test]
    async fn hypers_errors_are_sorted_by_what_they_are() {
        let incomplete = serve(Peer(b"GET / HTTP/1.1\r\nhos", true)).await;
        assert!(incomplete.is_incomplete_message());
        check(incomplete, ErrorType::Network, true);
        let reset = serve(Peer(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", false)).await;
        check(reset, ErrorType::Network, true);
        let garbage = serve(Peer(b"\0\0\0\r\n\r\n", true)).await;
        assert!(garbage.is_parse());
        check(garbage, ErrorType::Other, false);
    }
}

proptest! {
    #[test]
    fn an_unknown_error_is_other_and_is_not_retried_whatever_its_text(text in any::<String>()) {
        check(text.clone(), ErrorType::Other, false);
        check(wrapped(text), ErrorType::Other, false);
        check("connection reset by peer", ErrorType::Other, false);
    }
}
