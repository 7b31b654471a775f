//! A sink of servers that work together: one of them delivers, and another one goes on.

use rustix::process::Signal;
use testbed::{NatsOptions, pod};

use super::{Fleet, PATIENCE};
use crate::{
    harness::Http,
    sinks::{break_pod, receiver::Receiver},
};

/// Waits until one of two servers delivers; its place.
async fn deliverer(servers: &[&Http]) -> usize {
    let found = async {
        loop {
            let delivers = |http: &&Http| {
                let log = http.server.log();
                let said = |text: &str| log.rfind(text);
                said("this server delivers for all") > said("another server delivers")
            };
            if let Some(place) = servers.iter().position(delivers) {
                return place;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap()
}

/// How often the target was told of a pod.
fn told(receiver: &Receiver, pod: &str) -> usize {
    let requests = receiver.requests();
    let is_it = |object: &str| object == format!("fleet-sinks/pod/{pod}");
    let objects = requests
        .iter()
        .filter_map(|one| one.body["data"]["incident"]["object"].as_str());
    objects.filter(|object| is_it(object)).count()
}

async fn start(fleet: &Fleet, receiver: &Receiver) -> Http {
    let sink = format!("cloudevents+http://{}/hook", receiver.address);
    let mut command = fleet.command(&fleet.nats.url());
    command.args(["--sink", &sink, "--sink-allow", "127.0.0.1"]);
    let http = Http::start_command(&mut command, "2025-11-25").await;
    http.server.wait_for("a sink follows incidents");
    http
}

#[tokio::test]
async fn one_server_delivers_and_without_it_or_nats_another_does() {
    let Some(mut fleet) = Fleet::new("fleet-sinks", NatsOptions::default()).await else {
        return;
    };
    for name in ["a", "b", "c"] {
        let pod = pod(fleet.space, name, &["app"]);
        fleet.cluster.create(&pod).await.unwrap();
    }
    let receiver = Receiver::start().await;
    let servers = [
        start(&fleet, &receiver).await,
        start(&fleet, &receiver).await,
    ];
    let holder = deliverer(&[&servers[0], &servers[1]]).await;
    break_pod(fleet.cluster, fleet.space, "a").await;
    let about = |pod: &'static str| {
        let object = format!("fleet-sinks/pod/{pod}");
        move |one: &crate::sinks::receiver::Request| {
            one.body["data"]["incident"]["object"] == object.as_str()
        }
    };
    receiver.wait_for("a", about("a")).await;
    // It vanishes, and what happens before that is noticed is told.
    servers[holder].server.signal(Signal::KILL);
    break_pod(fleet.cluster, fleet.space, "b").await;
    receiver.wait_for("b", about("b")).await;
    assert_eq!(told(&receiver, "b"), 1, "one server was left");
    let other = &servers[1 - holder];
    assert_eq!(deliverer(&[other]).await, 0);
    // Without NATS it is told as well.
    fleet.nats.kill().unwrap();
    super::until_ready(other, "--cluster-store cannot be reached").await;
    break_pod(fleet.cluster, fleet.space, "c").await;
    receiver.wait_for("c", about("c")).await;
}
