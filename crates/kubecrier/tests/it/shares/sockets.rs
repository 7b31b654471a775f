//! Connections, and the descriptors that they leave. Every address of 127.0.0.0/8 is this
//! host, so there can be several.

use std::{
    io::{ErrorKind, Read},
    net::{IpAddr, SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

use serde_json::json;
use testbed::{Options, User, event};

use super::no_cluster;
use crate::harness::{Http, HttpSession, Subscriber, TIMEOUT, one_context};

/// Whether the server has ended a connection; what it said before.
fn is_closed(mut stream: &TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => text.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(String::from_utf8(text).unwrap())
}

/// Opens connections and says nothing; returns those that stay, and what the others got.
async fn open(address: SocketAddr, count: usize, stay: usize) -> (Vec<TcpStream>, Vec<String>) {
    let mut open: Vec<_> = (0..count)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let mut refused = Vec::new();
    let settled = async {
        while open.len() > stay {
            open.retain(|stream| match is_closed(stream) {
                None => true,
                Some(text) => {
                    refused.push(text);
                    false
                }
            });
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, settled).await.unwrap();
    (open, refused)
}

/// A session from another address of this host.
async fn from(address: &str, base: &str) -> HttpSession {
    let address: IpAddr = address.parse().unwrap();
    let client = reqwest::Client::builder().local_address(address).build();
    HttpSession::begin_with(client.unwrap(), base, "2025-11-25", None).await
}

fn address(http: &Http) -> SocketAddr {
    let host = http.base.strip_prefix("http://").unwrap();
    host.parse().unwrap()
}

#[tokio::test]
async fn connections() {
    let file = no_cluster();
    let http = Http::start(&file.path, &["--max-connections", "12"]).await;
    // The first session may have a connection of its own from this address.
    let (open, refused) = open(address(&http), 20, 6).await;
    assert!((4..=6).contains(&open.len()), "{} stay", open.len());
    for text in refused.iter().filter(|text| !text.is_empty()) {
        assert!(text.starts_with("HTTP/1.1 503"), "{text}");
        assert!(text.contains("--max-connections"), "{text}");
    }
    let modest = from("127.0.0.2", &http.base).await;
    for _ in 0..3 {
        modest.rpc("tools/list", json!({})).await;
    }
    assert_eq!(modest.get("/healthz").await.status(), 200);
    drop(open);
    // What is given back can be used again.
    let served = async || {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).build();
        let request = client.unwrap().get(format!("{}/healthz", http.base));
        request
            .send()
            .await
            .is_ok_and(|answer| answer.status() == 200)
    };
    let again = tokio::time::timeout(TIMEOUT, async {
        while !served().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    again.await.unwrap();
}

/// Sockets that say nothing leave the descriptors that watches of clusters need.
#[tokio::test]
async fn idle_sockets_break_no_watch() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("descriptors", Options::default());
    let file = one_context(&cluster, User::Reader);
    // The soft limit is raised to the hard one, which leaves room for few connections.
    let mut command = Command::new("sh");
    let script = "ulimit -Sn 200; ulimit -Hn 900; exec \"$0\" \"$@\"";
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_kubecrier")])
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("NO_COLOR", "1")
        .arg("--kubeconfig")
        .arg(&file.path);
    let http = Http::start_command(&mut command, "2025-11-25").await;
    assert!(
        http.server.log().contains("ulimit -n"),
        "{}",
        http.server.log()
    );
    let (_open, _refused) = open(address(&http), 1000, 30).await;
    let session = from("127.0.0.2", &http.base).await;
    let mut modest = Subscriber::new(&session).await;
    let id = modest.subscribe(json!({"namespace": "default"})).await;
    let one = event("default", "Pod/web-0", "Normal", "Started", "x");
    cluster.create(&one).await.unwrap();
    assert_eq!(modest.event(&id).await["event"]["reason"], "Started");
}
