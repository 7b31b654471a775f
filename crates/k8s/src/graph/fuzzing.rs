//! A watch of one kind of a graph for the fuzz targets.

use std::sync::Arc;

use futures_util::StreamExt;
use kubecrier_topology::{Graph, GraphScope, Kind};

use tokio::time::Duration;

use super::{deleted, read};
use crate::{
    Contexts,
    client::Cluster,
    kind_watch::{Decoder, KindSource, OBJECTS_MAX, ObjectChange, Scope},
    watch::source::WatchFrame,
};

/// The graph after one watch of a kind, up to its end or its first error.
pub(crate) async fn watch_graph(contexts: &Arc<Contexts>, cluster: &Cluster, kind: Kind) -> Graph {
    let (kind, decoder) = match kind {
        Kind::Namespace => (kind, Decoder::of::<read::Namespace>()),
        Kind::Node => (kind, Decoder::of::<read::Node>()),
        Kind::Ingress => (kind, Decoder::of::<read::Ingress>()),
        Kind::Service => (kind, Decoder::of::<read::Service>()),
        Kind::HorizontalPodAutoscaler => (kind, Decoder::of::<read::Autoscaler>()),
        Kind::CronJob => (kind, Decoder::of::<read::CronJob>()),
        Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => {
            (kind, Decoder::of::<read::ReplicaWorkload>())
        }
        Kind::DaemonSet => (kind, Decoder::of::<read::DaemonSet>()),
        Kind::Job => (kind, Decoder::of::<read::Job>()),
        Kind::Pod | Kind::ConfigMap | Kind::Secret | Kind::PersistentVolumeClaim => {
            (Kind::Pod, Decoder::of::<read::Pod>())
        }
    };
    let scope = Scope {
        context: cluster.context().to_owned(),
        namespace: None,
    };
    let renewal = Duration::from_mins(1);
    let source = KindSource::new(Arc::clone(contexts), &scope, kind, decoder, renewal);
    let mut graph = Graph::new(GraphScope::Cluster, OBJECTS_MAX);
    graph.track_changes();
    let strict = source.watch(cluster.clone(), "0", false).await;
    let lenient = source.watch(cluster.clone(), "0", true).await;
    for frames in [strict, lenient] {
        let Ok(mut frames) = frames else { continue };
        while let Some(Ok(frame)) = frames.next().await {
            match frame {
                WatchFrame::Item(ObjectChange::Applied(object), _) => {
                    graph.apply(object);
                }
                WatchFrame::Item(ObjectChange::Deleted(name), _) => {
                    graph.delete(&deleted(kind, &name));
                }
                WatchFrame::Skipped(_) | WatchFrame::Bookmark(_) => {}
            }
        }
    }
    graph
}
