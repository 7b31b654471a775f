//! When a folder is scanned again, and what counts as a change.

use std::{
    fs::{self, FileTimes},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{PROMPTS, TOOLS, changed_lists, settled};
use crate::harness::{Project, TIMEOUT};

/// S4-13, S4-14, S4-22: only content decides, whatever the file says about itself.
#[tokio::test]
async fn a_change_with_the_same_size_and_time_is_told_once() {
    let project = Project::new();
    // A file that changed within the resolution of file times is read each time, so only an
    // older one shows that its content is not taken from a cache.
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    let http = project.http(&[]).await;
    let mut stream = settled(&http).await;
    let path = project.path().join("tools/test_tool/tool.sh");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("echo ok", "echo no")).unwrap();
    let times = FileTimes::new().set_modified(modified);
    fs::File::open(&path).unwrap().set_times(times).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), modified);
    assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
}

/// S4-37, S4-42, S4-43: a request looks and the poll after it too, the poll at most once a
/// second; the hook has a time of its own.
#[tokio::test]
async fn a_request_looks_and_so_does_the_poll_after_it() {
    let project = Project::new();
    let outside = tempfile::tempdir().unwrap();
    let prompts = outside.path().join("prompts");
    fs::write(&prompts, "[]").unwrap();
    let hook = format!(
        "#!/bin/bash\necho \"{{\\\"version\\\": 1, \\\"prompts\\\": $(cat {})}}\"\n",
        prompts.display()
    );
    project.write("server.d/register.sh", &hook, 0o755);
    let arguments = [
        "--allow-register-hook",
        "--register-hook-ttl",
        "1s",
        "--project-ttl",
        "1h",
    ];
    let http = project.http(&arguments).await;
    let mut stream = settled(&http).await;
    let count = async |name: &str| {
        let stats: Value = http.get("/stats").await.json().await.unwrap();
        stats["project"][name].as_u64().unwrap()
    };
    let (hooks, polls) = (count("hookRuns").await, count("polls").await);
    let began = Instant::now();
    let mut asked = 0;
    while asked < 10 || began.elapsed() < Duration::from_millis(1_100) {
        http.rpc("prompts/list", json!({})).await;
        asked += 1;
    }
    let counted = async {
        while count("polls").await == polls {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, counted).await).expect("a poll follows the requests");
    let most = began.elapsed().as_secs() + 1;
    let polled = count("polls").await - polls;
    assert!(polled <= most, "{polled} polls after {asked} requests");
    let ran = count("hookRuns").await - hooks;
    assert!((1..=most).contains(&ran), "{ran}: as its own time says");
    // The folder is as it was, and its time is not over: the hook's is.
    fs::write(&prompts, r#"[{"name": "late", "path": "ask.txt"}]"#).unwrap();
    let late = async {
        loop {
            let list = http.rpc("prompts/list", json!({})).await;
            if list.to_string().contains("\"late\"") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    (tokio::time::timeout(TIMEOUT, late).await).expect("the hook runs without a changed file");
    assert_eq!(changed_lists(&mut stream, 1).await, [PROMPTS]);
}
