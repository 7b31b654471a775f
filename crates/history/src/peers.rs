//! The seam: what servers that share a store ask of each other.
//!
//! A request is bytes and its answer is bytes that come in parts, such as those of a stream that
//! is open for hours. What they mean is the server's matter.

mod memory;

pub use self::memory::{MemoryNetwork, MemoryPeers};

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc;

/// The answer of another server, part by part; it is complete when the channel closes. Dropping
/// it cancels the request.
pub type PeerAnswer = mpsc::Receiver<Result<Bytes, PeerError>>;

/// What is still to come.
pub type PeerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reaches the other servers by their names.
pub trait Peers: fmt::Debug + Send + Sync {
    /// The name of this server, of letters, digits and `-`: no two that run have the same, and
    /// one that is started again has another.
    fn name(&self) -> &str;

    /// Sends a request. If there is no such server, that is known at once: [`PeerError::Gone`].
    fn send<'a>(
        &'a self,
        peer: &'a str,
        request: Bytes,
    ) -> PeerFuture<'a, Result<PeerAnswer, PeerError>>;

    /// Has the requests of other servers answered, from now on.
    fn serve(&self, handler: Arc<dyn PeerHandler>);
}

/// Answers the requests of other servers.
pub trait PeerHandler: Send + Sync {
    /// Answers one request. Dropping the answer cancels the work for it.
    fn answer(&self, request: Bytes) -> PeerFuture<'static, PeerAnswer>;
}

/// Why another server does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no server of that name any more.
    #[error("there is no server `{0}`")]
    Gone(String),
    /// The answer broke off.
    #[error("the answer of another server broke off: {0}")]
    Lost(String),
    /// Other servers cannot be reached now.
    #[error("other servers cannot be reached: {0}")]
    Unavailable(String),
}
