//! What a server leaves behind: of sessions that ended, and on the disk.

use std::{fs, path::Path};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Http, HttpSession, command};

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
