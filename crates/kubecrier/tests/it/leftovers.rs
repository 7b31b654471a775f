//! What a server leaves behind: of sessions that ended, and on the disk.

use std::{collections::HashSet, fs, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{User, event, namespace};

use crate::harness::{Http, HttpSession, Subscriber, command, one_context};

const WATCHED: &str = "test://watched-resource";

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// S1-9, S4-55: what waits for a client is in memory, and gone with the server.
#[tokio::test]
async fn what_waits_for_a_client_is_never_on_the_disk() {
    let [home, temporary, working] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut command = command();
    command
        .env("CONFORMANCE_FIXTURES", "1")
        .env("HOME", home.path())
        .env("TMPDIR", temporary.path())
        .current_dir(working.path());
    let mut http = Http::start_command(&mut command, "2025-11-25").await;
    // Without a stream everything waits: three lists, and an update.
    http.rpc("resources/subscribe", json!({"uri": WATCHED}))
        .await;
    for _ in 0..5 {
        http.call("test_trigger_resource_update", json!({}))
            .await
            .ok();
    }
    let places = [&home, &temporary, &working];
    assert!(places.iter().all(|dir| is_empty(dir.path())), "{places:?}");
    http.server.signal(Signal::TERM);
    assert!(http.server.exit().await.success());
    assert!(places.iter().all(|dir| is_empty(dir.path())), "{places:?}");
}

/// A socket of a process, by its ports and its state.
#[derive(Debug)]
struct Socket {
    local: u16,
    remote: u16,
    is_loopback: bool,
    is_listening: bool,
}

/// The sockets of a process over IP.
fn sockets(pid: u32) -> Vec<Socket> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = links.filter_map(|one| fs::read_link(one.unwrap().path()).ok());
    let own: HashSet<String> = links
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?;
            Some(inode.strip_suffix(']')?.to_owned())
        })
        .collect();
    assert!(!own.is_empty());
    let mut sockets = Vec::new();
    for family in ["tcp", "tcp6", "udp", "udp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{family}"));
        for line in table.unwrap_or_default().lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if !own.contains(fields[9]) {
                continue;
            }
            let port = |field: &str| {
                let (_, port) = field.rsplit_once(':').unwrap();
                u16::from_str_radix(port, 16).unwrap()
            };
            sockets.push(Socket {
                local: port(fields[1]),
                remote: port(fields[2]),
                is_loopback: family == "tcp" && fields[2].starts_with("0100007F:"),
                is_listening: family.starts_with("tcp") && fields[3] == "0A",
            });
        }
    }
    sockets
}

/// Without a history and a store of a cluster nothing is kept, and nobody is connected to but the
/// cluster and the clients.
#[tokio::test]
async fn a_server_without_settings_writes_no_file_and_connects_to_its_cluster_alone() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, name) = (bed.dev(), "leaves-nothing");
    cluster.create_cluster_wide(&namespace(name)).await.unwrap();
    let file = one_context(cluster, User::Reader);
    let [home, temporary, working] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let mut command = command();
    command
        .arg("--kubeconfig")
        .arg(&file.path)
        .env("HOME", home.path())
        .env("TMPDIR", temporary.path())
        .current_dir(working.path());
    let mut http = Http::start_command(&mut command, "2025-11-25").await;
    let mut client = Subscriber::new(&http).await;
    let id = client.subscribe(json!({"namespace": name})).await;
    let warning = event(name, "Pod/web-0", "Warning", "Told", "it went wrong");
    cluster.create(&warning).await.unwrap();
    assert_eq!(client.event(&id).await["event"]["reason"], "Told");
    let port = |url: &str| -> u16 { url.rsplit_once(':').unwrap().1.parse().unwrap() };
    let (own, api) = (port(&http.base), port(&cluster.url()));
    let all = sockets(http.server.id());
    let (listening, connected): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.is_listening);
    assert!(listening.iter().all(|one| one.local == own), "{all:?}");
    assert_eq!(listening.len(), 1, "{all:?}");
    for one in &connected {
        let is_known = one.local == own || one.remote == api;
        assert!(is_known && one.is_loopback, "{one:?} of {all:?}");
    }
    // Both are there, so that this looks at what it should.
    assert!(connected.iter().any(|one| one.remote == api), "{all:?}");
    assert!(connected.iter().any(|one| one.local == own), "{all:?}");
    let places = [&home, &temporary, &working];
    assert!(places.iter().all(|dir| is_empty(dir.path())), "{places:?}");
    http.server.signal(Signal::TERM);
    assert!(http.server.exit().await.success());
    assert!(places.iter().all(|dir| is_empty(dir.path())), "{places:?}");
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> i64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.unwrap().trim().trim_end_matches(" kB");
    text.parse().unwrap()
}

async fn come_and_go(http: &Http, client: &reqwest::Client, count: usize) {
    for _ in 0..count {
        let one = HttpSession::begin_with(client.clone(), &http.base, "2025-11-25", None).await;
        one.rpc("logging/setLevel", json!({"level": "debug"})).await;
        one.rpc("resources/subscribe", json!({"uri": WATCHED}))
            .await;
        assert!(one.delete().await.is_success());
    }
}

/// S2-37: sessions that joined every registry, and left something pending.
#[tokio::test]
async fn sessions_that_came_and_went_leave_nothing() {
    let mut command = command();
    command
        .env("CONFORMANCE_FIXTURES", "1")
        .args(["--max-session-rate", "10000"]);
    let http = Http::start_command(&mut command, "2025-11-25").await;
    let client = reqwest::Client::new();
    // The first ones fill what is kept for reuse.
    come_and_go(&http, &client, 250).await;
    let before = resident(http.server.id());
    come_and_go(&http, &client, 500).await;
    let growth = resident(http.server.id()) - before;
    println!("{growth} KiB for 500 sessions");
    assert!(growth < 1024, "{growth} KiB for 500 sessions");
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["sessions"], 1, "{stats}");
}
