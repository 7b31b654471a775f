//! The requests of the server as the API server counts them.

use std::time::Duration;

use testbed::{Cluster, User};

/// The number of event watches, from the metrics of the API server.
pub(crate) async fn open_watches(cluster: &Cluster) -> usize {
    let client = cluster.client(User::Admin).await.unwrap();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let counts = text.lines().filter_map(|line| {
        let (labels, count) = line.rsplit_once(' ')?;
        let ours = labels.starts_with("apiserver_longrunning_requests{")
            && labels.contains("resource=\"events\"")
            && labels.contains("verb=\"WATCH\"");
        ours.then(|| count.parse::<f64>().unwrap())
    });
    let sum: f64 = counts.sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small count"
    )]
    let sum = sum as usize;
    sum
}

pub(crate) async fn until_watches(cluster: &Cluster, count: usize) {
    let there = async {
        while open_watches(cluster).await != count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), there).await;
    assert!(
        waited.is_ok(),
        "{} watches, not {count}",
        open_watches(cluster).await
    );
}
