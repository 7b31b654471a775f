//! Opening a watch, where the cluster may be another one or may have fallen silent.

use tokio::time::{Duration, timeout};

use crate::{
    error::{ClusterError, ErrorKind},
    watch::source::{WatchError, WatchSource},
};

/// The deadline for the first attempt after a silence: an API server that is frozen accepts
/// connections and answers nothing. With the default renewal of 20 s, a watch is open again or
/// known to be degraded within 29 s.
const SILENCE_DEADLINE: Duration = Duration::from_secs(5);

/// Opens a watch; with `verify`, only if the cluster has reached the version.
pub(super) async fn open<S: WatchSource>(
    source: &S,
    version: &str,
    verify: bool,
) -> Result<S::Frames, WatchError> {
    let frames = source.open(version).await?;
    if verify {
        match source.latest_version().await {
            Ok(latest) if is_older(&latest, version) => return Err(WatchError::ClusterReplaced),
            Err(WatchError::ClusterReplaced) => return Err(WatchError::ClusterReplaced),
            // The watch is open; a failed question is no reason to end it.
            Ok(_) | Err(WatchError::Expired | WatchError::Request(_)) => {}
        }
    }
    Ok(frames)
}

/// The same after a silence, with its own deadline.
pub(super) async fn open_after_silence<S: WatchSource>(
    source: &S,
    version: &str,
    watch: &str,
) -> Result<S::Frames, WatchError> {
    let opening = timeout(SILENCE_DEADLINE, open(source, version, true));
    opening.await.unwrap_or_else(|_elapsed| {
        let seconds = SILENCE_DEADLINE.as_secs();
        Err(WatchError::Request(ClusterError::new(
            ErrorKind::Timeout,
            format!("cannot watch {watch}"),
            format!("the API server has fallen silent, and does not answer within {seconds} s"),
            None,
        )))
    })
}

/// Whether a version is older than another. Versions that are no numbers cannot be
/// compared.
pub(in crate::watch) fn is_older(version: &str, known: &str) -> bool {
    let numbers = version.parse::<u64>().ok().zip(known.parse::<u64>().ok());
    numbers.is_some_and(|(version, known)| version < known)
}
