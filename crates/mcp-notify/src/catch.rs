//! A panic of foreign code becomes an error of the one send it happened in.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::sink::{SendError, SendFuture};

/// Runs a send; a panic while it is made or polled is [`SendError::Panicked`].
///
/// Unwinding safely is the sink's affair: it is shared behind `&self` anyway,
/// so whatever it may break it could break without a panic too.
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

/// The same for a send that does not wait.
pub(crate) fn catch_panic_now(
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
