//! A project's own tools, resources and prompts, and their `list_changed` notifications.

mod rescans;

use std::{
    fs::{self, FileTimes},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{
    HttpSession, MARKER, Project, Stream, TIMEOUT, before_marker, changed, initialize,
};

const TOOLS: &str = "notifications/tools/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const ALL: [&str; 3] = [PROMPTS, RESOURCES, TOOLS];

async fn changed_lists(stream: &mut Stream, count: usize) -> Vec<String> {
    let mut messages = Vec::new();
    for _ in 0..count {
        messages.push(stream.next().await);
    }
    changed(&messages)
}

/// A session's stream after its first triplet.
async fn settled(session: &HttpSession) -> Stream {
    let mut stream = session.stream(None).await;
    assert_eq!(changed_lists(&mut stream, 3).await, ALL);
    stream
}

/// The fast sequence: all requests at once, as from a pipe. Then a resource is added, and
/// its update ends the sequence.
fn fast_sequence(project: &Project, version: &str) -> Vec<Value> {
    let mut session = project.stdio();
    session.send(&initialize(version));
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    for id in ["l1", "l2"] {
        session.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
    }
    let mut all = Vec::new();
    while all
        .iter()
        .filter(|one: &&Value| one.get("id").is_some())
        .count()
        < 3
    {
        all.push(session.receive());
    }
    project.resource("one", "text");
    let began = Instant::now();
    loop {
        let subscribe = json!({"jsonrpc": "2.0", "id": "s", "method": "resources/subscribe",
            "params": {"uri": MARKER}});
        session.send(&subscribe);
        let answer = loop {
            let message = session.receive();
            if message["id"] == "s" {
                break message;
            }
            all.push(message);
        };
        if answer.get("result").is_some() {
            break;
        }
        assert!(began.elapsed() < TIMEOUT, "{answer}");
    }
    let mut marks = 0;
    project.mark();
    while marks < 2 {
        let message = session.receive();
        if message["params"]["uri"] == MARKER {
            marks += 1;
            project.mark();
        } else {
            all.push(message);
        }
    }
    fs::remove_dir_all(project.path().join("resources")).unwrap();
    all
}

#[test]
fn the_fast_sequence_gives_exactly_three() {
    let with_tool = Project::empty();
    with_tool.tool("test_tool", "echo ok");
    for project in [Project::empty(), with_tool] {
        // A rerun is a new session: no state is kept.
        for _ in 0..2 {
            let methods = changed(&fast_sequence(&project, "2025-11-25"));
            assert_eq!(methods, [PROMPTS, RESOURCES, RESOURCES, TOOLS]);
        }
        let left: Vec<_> = fs::read_dir(project.path()).unwrap().collect();
        assert!(left.len() <= 1, "nothing was written: {left:?}");
    }
}

/// S4-10: the whole frame, on both transports.
#[tokio::test]
async fn a_changed_list_has_empty_parameters_on_the_wire() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut stream = http.stream(None).await;
    let mut stdio = project.stdio();
    stdio.handshake();
    let mut frames = [Vec::new(), Vec::new()];
    for _list in ALL {
        frames[0].push(stream.next().await);
        frames[1].push(stdio.receive());
    }
    for mut received in frames {
        received.sort_by_key(|frame| frame["method"].to_string());
        let expected = ALL.map(|method| json!({"jsonrpc": "2.0", "method": method, "params": {}}));
        assert_eq!(received, expected);
    }
}

#[test]
fn old_versions_are_told_nothing() {
    let project = Project::new();
    for version in ["2025-03-26", "2024-11-05"] {
        let all = fast_sequence(&project, version);
        assert_eq!(changed(&all), [""; 0], "{version}");
        let text = format!("{all:?}");
        assert!(text.contains("test_tool"), "it is served all the same");
        assert!(
            !text.contains("listChanged"),
            "and does not promise: {version}"
        );
    }
}

#[tokio::test]
async fn a_change_is_told_once_and_no_change_is_not() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut stream = settled(&http).await;
    for _ in 0..5 {
        for list in ["tools/list", "resources/list", "prompts/list"] {
            http.rpc(list, json!({})).await;
        }
    }
    // Touched, and written again with the same content.
    let path = project.path().join("tools/test_tool/tool.sh");
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    fs::File::open(&path).unwrap().set_times(times).unwrap();
    project.tool("test_tool", "echo ok");
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    // A to B and back: two, each of the list that changed and of no other.
    project.tool("test_tool", "echo changed");
    assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    project.tool("test_tool", "echo ok");
    assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
    project.prompt("ask", "And {{what}}?");
    assert_eq!(changed_lists(&mut stream, 1).await, [PROMPTS]);
    project.write("resources/one.meta.json", "{\"name\": \"other\"}", 0o644);
    assert_eq!(changed_lists(&mut stream, 1).await, [RESOURCES]);
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    project.tool("another", "true");
    project.resource("another", "text");
    project.prompt("another", "text");
    assert_eq!(changed_lists(&mut stream, 3).await, ALL);
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
}

#[tokio::test]
async fn a_change_is_published_within_a_second() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut stream = settled(&http).await;
    for round in 0.. {
        let began = Instant::now();
        project.tool("quick", &format!("echo {round}"));
        assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
        let took = began.elapsed();
        if took < Duration::from_secs(1) {
            break;
        }
        assert!(round < 5, "{took:?}, and not only when the machine is busy");
    }
    let list = http.rpc("tools/list", json!({})).await;
    assert!(list.to_string().contains("\"quick\""));
}

#[tokio::test]
async fn rapid_saves_settle_into_one() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let mut stream = settled(&http).await;
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
    for round in 0.. {
        let began = Instant::now();
        for turn in 0..10 {
            project.tool("test_tool", &format!("echo {round} {turn}"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = began.elapsed();
        assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
        // On a busy machine the saves may be far apart and cause more than one notification.
        if took < Duration::from_millis(150) {
            break;
        }
        assert!(round < 20, "ten saves take {took:?}");
        project.before_marker(&http, &mut stream).await;
    }
    project
        .expect_nothing_before_marker(&http, &mut stream)
        .await;
}

#[tokio::test]
async fn sessions_of_different_versions_go_by_their_own_rules() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let old = http.another("2025-03-26").await;
    let mut quiet = old.stream(None).await;
    let mut stream = settled(&http).await;
    // A listener of the newest protocol gets only what it subscribed to.
    let only_tools = json!({"notifications": {
        "toolsListChanged": true, "resourceSubscriptions": [MARKER],
    }});
    let listen = http.modern("subscriptions/listen", None, only_tools).await;
    let mut listening = Stream::new(listen);
    let acknowledged = listening.next().await;
    assert!(
        acknowledged.to_string().contains("acknowledged"),
        "{acknowledged}"
    );
    assert_eq!(changed_lists(&mut listening, 2).await, [TOOLS]);
    project.tool("another", "true");
    project.prompt("another", "text");
    assert_eq!(changed_lists(&mut stream, 2).await, [PROMPTS, TOOLS]);
    assert_eq!(changed_lists(&mut listening, 1).await, [TOOLS]);
    // The listener without the subscription has not consumed the change for the others.
    let late = http.another("2025-06-18").await;
    let mut settled = settled(&late).await;
    for session in [&late, &old, &http] {
        let marker = json!({"uri": MARKER});
        session.rpc("resources/subscribe", marker).await;
    }
    for _ in 0..2 {
        project.mark();
        for stream in [&mut settled, &mut quiet, &mut listening, &mut stream] {
            let next = stream.next().await;
            assert_eq!(next["params"]["uri"], MARKER, "{next}");
        }
    }
}

#[tokio::test]
async fn a_restart_forgets_what_was_told() {
    let project = Project::new();
    for _ in 0..2 {
        let http = project.http(&[]).await;
        let mut stream = settled(&http).await;
        project
            .expect_nothing_before_marker(&http, &mut stream)
            .await;
    }
}

#[tokio::test]
async fn a_folder_that_is_removed_and_restored_is_two_changes() {
    let project = Project::empty();
    let (root, aside) = (project.path().join("p"), project.path().join("aside"));
    let inner = Project::new();
    fs::rename(inner.path(), &root).unwrap();
    let http = project.http_of(root.to_str().unwrap(), &[]).await;
    let mut stream = settled(&http).await;
    let before = before_marker(&root, &http, &mut stream).await;
    assert!(before.is_empty(), "{before:?}");
    fs::rename(&root, &aside).unwrap();
    assert_eq!(changed_lists(&mut stream, 3).await, ALL);
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    assert_eq!(stats["project"]["refused"][0]["path"], ".");
    assert_eq!(stats["project"]["tools"], 0);
    fs::rename(&aside, &root).unwrap();
    assert_eq!(changed_lists(&mut stream, 3).await, ALL);
    let before = before_marker(&root, &http, &mut stream).await;
    assert!(before.is_empty(), "{before:?}");
    // Further changes are noticed as before.
    fs::remove_dir_all(root.join("tools")).unwrap();
    assert_eq!(changed_lists(&mut stream, 1).await, [TOOLS]);
    fs::rename(&root, inner.path()).unwrap();
}

#[tokio::test]
async fn bad_items_are_named_and_hide_nothing() {
    let project = Project::new();
    project.meta("broken", &json!({}));
    project.write("tools/broken/tool.meta.json", "{\"name\": ", 0o644);
    project.write("tools/broken/tool.sh", "", 0o755);
    project.tool("loose", "true");
    project.write("tools/loose/helper.sh", "", 0o666);
    project.tool("twin", "true");
    project.meta("twin", &json!({"name": "test_tool"}));
    project.tool("pods_list", "true");
    std::os::unix::fs::symlink("/etc", project.path().join("tools/etc")).unwrap();
    let http = project.http(&[]).await;
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    let mut refused: Vec<_> = stats["project"]["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            "tools/broken/tool.meta.json",
            "tools/etc",
            "tools/loose/helper.sh",
            "tools/pods_list",
            "tools/twin",
        ]
    );
    assert_eq!(http.call("test_tool", json!({})).await.ok().text, "ok");
    for _ in 0..3 {
        project.prompt("ask", "text");
        http.rpc("tools/list", json!({})).await;
    }
    let log = http.server.log();
    assert!(log.contains("shadowed"), "{log}");
    for file in refused {
        let lines = log.lines().filter(|line| line.contains(file)).count();
        assert_eq!(lines, 1, "{file} is named once:\n{log}");
    }
    // A registration that is far too large is not read, and switches nothing on.
    let large = format!("{{\"version\": 1, \"_meta\": \"{}\"}}", "x".repeat(2 << 20));
    project.write("server.d/register.json", &large, 0o644);
    http.server.wait_for("and may have 1048576");
    let list = http.rpc("tools/list", json!({})).await;
    assert!(!list.to_string().contains("\"test_tool\""));
    assert!(
        list.to_string().contains("\"pods_list\""),
        "what is built in stays"
    );
    fs::remove_file(project.path().join("server.d/register.json")).unwrap();
    http.server
        .wait_for("no longer refused in the project folder path=\"server.d/register.json\"");
    assert_eq!(http.call("test_tool", json!({})).await.ok().text, "ok");
}

#[tokio::test]
async fn a_hook_runs_only_where_it_may() {
    let project = Project::new();
    let hook = "#!/bin/bash\necho '{\"version\": 1, \"prompts\": []}'\n";
    project.write("server.d/register.sh", hook, 0o755);
    let without = project.http(&[]).await;
    let list = without.rpc("prompts/list", json!({})).await;
    let is_there = |list: &Value| {
        let prompts = list["result"]["prompts"].as_array().unwrap();
        prompts.iter().any(|prompt| prompt["name"] == "ask")
    };
    assert!(is_there(&list), "{list}");
    assert!(without.server.log().contains("--allow-register-hook"));
    let with = project.http(&["--allow-register-hook"]).await;
    let list = with.rpc("prompts/list", json!({})).await;
    assert!(!is_there(&list), "{list}");
    let mut stream = settled(&with).await;
    project.write("server.d/register.sh", "#!/bin/bash\nexit 1\n", 0o755);
    with.server.wait_for("exit code 1");
    project
        .expect_nothing_before_marker(&with, &mut stream)
        .await;
}

#[tokio::test]
async fn hundreds_of_tools_come_page_by_page() {
    let project = Project::empty();
    for turn in 0..120 {
        project.tool(&format!("tool-{turn:03}"), "true");
    }
    let http = project.http(&[]).await;
    let (mut names, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    let mut first = Value::Null;
    loop {
        let params = if cursor.is_null() {
            json!({})
        } else {
            json!({"cursor": cursor})
        };
        let page = http.rpc("tools/list", params).await;
        let tools = page["result"]["tools"].as_array().unwrap();
        assert!(tools.len() <= 50);
        names.extend(
            tools
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        cursor = page["result"]["nextCursor"].clone();
        pages += 1;
        if first.is_null() {
            first = cursor.clone();
        }
        if cursor.is_null() {
            break;
        }
    }
    let files = names
        .iter()
        .filter(|name| name.starts_with("tool-"))
        .count();
    assert_eq!((files, pages), (120, names.len().div_ceil(50)));
    names.sort();
    names.dedup();
    assert!(names.len() > 120, "each once, and what is built in");
    for (list, cursor) in [("prompts/list", &first), ("tools/list", &json!("nonsense"))] {
        let refused = http.rpc(list, json!({"cursor": cursor})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    project.tool("tool-new", "true");
    settled(&http).await;
    let refused = async {
        loop {
            let answer = http.rpc("tools/list", json!({"cursor": first})).await;
            if answer.get("error").is_some() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let stale = tokio::time::timeout(TIMEOUT, refused)
        .await
        .expect("a cursor of a list that has changed is refused");
    assert_eq!(stale["error"]["code"], -32602, "{stale}");
}
