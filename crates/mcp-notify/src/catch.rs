//! Catches a panic of a sink and turns it into an error of that one send.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::sink::{SendError, SendFuture};

/// Runs a send. A panic while its future is made or polled becomes
/// [`SendError::Panicked`].
///
/// Unwind safety is the responsibility of the sink: it is shared behind `&self`, so
/// that a panic can leave nothing broken that a plain call could not.
pub(crate) async fn catch_panic<'a>(
    make: impl FnOnce() -> SendFuture<'a>,
) -> Result<(), SendError> {
    let mut send = catch_unwind(AssertUnwindSafe(make)).map_err(|p| panicked(&*p))?;
    std::future::poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| send.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(result),
            Err(panic) => Poll::Ready(Err(panicked(&*panic))),
        },
    )
    .await
}

/// The same for a synchronous send.
pub(crate) fn catch_panic_sync(
    send: impl FnOnce() -> Option<Result<(), SendError>>,
) -> Option<Result<(), SendError>> {
    catch_unwind(AssertUnwindSafe(send)).unwrap_or_else(|panic| Some(Err(panicked(&*panic))))
}

fn panicked(panic: &(dyn Any + Send)) -> SendError {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    SendError::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
}
