//! A watch of one kind of a graph for the fuzz targets.

use std::sync::Arc;

use futures_util::StreamExt;
use kubecrier_topology::{Graph, GraphScope, Kind, ObjectSummary};

use tokio::time::Duration;

use super::{deleted, read};
use crate::{
    Contexts,
    client::Cluster,
    kind_watch::{KindSource, Lenient, OBJECTS_MAX, ObjectChange, Scope, WatchedObject},
    watch::source::WatchFrame,
};

/// The graph after one watch of a kind, up to its end or its first error.
pub(crate) async fn watch_graph(contexts: &Arc<Contexts>, cluster: &Cluster, kind: Kind) -> Graph {
    match kind {
        Kind::Namespace => watch::<read::Namespace>(contexts, cluster, kind).await,
        Kind::Node => watch::<read::Node>(contexts, cluster, kind).await,
        Kind::Ingress => watch::<read::Ingress>(contexts, cluster, kind).await,
        Kind::Service => watch::<read::Service>(contexts, cluster, kind).await,
        Kind::HorizontalPodAutoscaler => watch::<read::Autoscaler>(contexts, cluster, kind).await,
        Kind::CronJob => watch::<read::CronJob>(contexts, cluster, kind).await,
        Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet => {
            watch::<read::ReplicaWorkload>(contexts, cluster, kind).await
        }
        Kind::DaemonSet => watch::<read::DaemonSet>(contexts, cluster, kind).await,
        Kind::Job => watch::<read::Job>(contexts, cluster, kind).await,
        Kind::Pod | Kind::ConfigMap | Kind::Secret | Kind::PersistentVolumeClaim => {
            watch::<read::Pod>(contexts, cluster, Kind::Pod).await
        }
    }
}

async fn watch<T: WatchedObject<Kind = Kind, Kept = ObjectSummary>>(
    contexts: &Arc<Contexts>,
    cluster: &Cluster,
    kind: Kind,
) -> Graph {
    let scope = Scope {
        context: cluster.context().to_owned(),
        namespace: None,
    };
    let renewal = Duration::from_mins(1);
    let source = KindSource::<T>::new(Arc::clone(contexts), &scope, kind, renewal);
    let mut graph = Graph::new(GraphScope::Cluster, OBJECTS_MAX);
    graph.track_changes();
    let strict = source.watch::<T>(cluster.clone(), "0").await;
    let lenient = source.watch::<Lenient<T>>(cluster.clone(), "0").await;
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
