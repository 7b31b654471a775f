//! A NATS that is there and does not do what it is asked for.

use testbed::NatsOptions;

use super::{Fleet, reasons_until, until_ready, until_role};

#[tokio::test]
async fn jetstream_that_is_gone_is_said_although_there_is_a_connection() {
    let Some(mut fleet) = Fleet::new("fleet-failing", NatsOptions::default()).await else {
        return;
    };
    let http = fleet.start().await;
    let mut stream = http.stream(None).await;
    let level = serde_json::json!({"level": "info"});
    http.rpc("logging/setLevel", level).await;
    let subscribed = http.call(
        "events_subscribe",
        serde_json::json!({"namespace": fleet.space}),
    );
    drop(subscribed.await.ok());
    until_ready(&http, "ok\n").await;
    fleet.nats.stop().unwrap();
    fleet.nats.set_jetstream(false);
    fleet.nats.start_again().unwrap();
    http.server.wait_for("the shared store does not work");
    until_ready(&http, "--cluster-store cannot be reached").await;
    let metrics = http.get("/metrics").await.text().await.unwrap();
    assert!(
        metrics.contains("kubecrier_cluster_store_up{} 0"),
        "{metrics}"
    );
    fleet.happen("Alone").await;
    assert_eq!(reasons_until(&mut stream, "Alone").await, ["Alone"]);
    fleet.nats.stop().unwrap();
    fleet.nats.set_jetstream(true);
    fleet.nats.start_again().unwrap();
    until_ready(&http, "ok\n").await;
    http.server.wait_for("the shared store works again");
    until_role(&http, &["holder"]).await;
    let said = http.server.log();
    for once in ["does not work", "works again"] {
        let count = said.matches(once).count();
        assert_eq!(count, 1, "{once}: {said}");
    }
}
