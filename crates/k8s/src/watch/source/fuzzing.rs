//! A watch of events for the fuzz targets.

use futures_util::{StreamExt, TryStreamExt};
use kube::api::WatchParams;
use kubecrier_core::Event;

use super::{WatchFrame, api, frame};
use crate::{client::Cluster, watch::scope::Scope};

/// The events of one watch, up to its end or its first error.
pub(crate) async fn watch(cluster: &Cluster) -> Vec<Event> {
    let scope = Scope {
        context: cluster.context().to_owned(),
        namespace: None,
        selector: None,
    };
    let frames = match api(cluster, &scope)
        .watch(&WatchParams::default(), "0")
        .await
    {
        Ok(frames) => frames.into_stream(),
        Err(_refused) => return Vec::new(),
    };
    let mut frames = std::pin::pin!(frames);
    let mut events = Vec::new();
    while let Some(next) = frames.next().await {
        match frame(&scope, cluster, next) {
            Ok(WatchFrame::Item(event, _version)) => events.push(event),
            Ok(WatchFrame::Skipped(_) | WatchFrame::Bookmark(_)) => {}
            Err(_end) => break,
        }
    }
    events
}
