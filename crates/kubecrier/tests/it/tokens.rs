//! Tokens that are revoked while the server runs.

use std::{fs, path::PathBuf, time::Duration};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{LogScript, User, event, namespace, pod};

use crate::{
    admin::admin_address,
    harness::{Http, HttpSession, Stream, Subscriber, TIMEOUT, command, kubeconfig, one_context},
};

const ANN: &str = "0123456789abcdef-ann";
const BOB: &str = "0123456789abcdef-bob";
const NEW: &str = "0123456789abcdef-new";

/// A file of tokens that is replaced as careful programs do.
struct TokenFile {
    dir: TempDir,
    path: PathBuf,
}

impl TokenFile {
    fn new(people: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let file = Self { dir, path };
        file.replace(people);
        file
    }

    fn replace(&self, people: &[(&str, &str)]) {
        let lines = people
            .iter()
            .map(|(name, token)| format!("{name}:{token}\n"));
        let next = self.dir.path().join("next");
        fs::write(&next, lines.collect::<String>()).unwrap();
        fs::rename(&next, &self.path).unwrap();
    }
}

/// The answer to a caller that is known, and names no session.
const LET_IN: StatusCode = StatusCode::BAD_REQUEST;

async fn status(base: &str, token: &str) -> StatusCode {
    let request = reqwest::Client::new().get(format!("{base}/mcp"));
    let request = request.header("accept", "text/event-stream");
    let request = request.header("authorization", format!("Bearer {token}"));
    request.send().await.unwrap().status()
}

/// Waits until a token has this answer.
async fn until(base: &str, token: &str, expected: StatusCode) {
    let answered = async {
        while status(base, token).await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, answered)
        .await
        .unwrap_or_else(|_| panic!("{token} never gets {expected}"));
}

#[tokio::test]
async fn a_revoked_token_ends_everything_that_its_caller_has_open() {
    let Some(bed) = testbed::shared() else { return };
    let space = "revoked";
    let created = bed.dev().create_cluster_wide(&namespace(space)).await;
    created.unwrap();
    let slow = bed.dev().create(&pod(space, "slow", &["app"])).await;
    slow.unwrap();
    let script = LogScript::lines(["x"]).delayed(TIMEOUT);
    bed.dev().node().set_log("revoked/slow/app", script);
    let file = one_context(bed.dev(), User::Reader);
    let tokens = TokenFile::new(&[("ann", ANN), ("bob", BOB)]);
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .arg("--auth-token-file")
            .arg(&tokens.path)
            .args(["--admin-address", "127.0.0.1:0"])
            .args(["--request-timeout-seconds", "60"]),
    );
    let url = format!("http://{}/stats", admin_address(&server));
    let counts = async || {
        let stats: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
        let count = |key: &str| stats[key].as_u64().unwrap();
        (count("sessions"), count("subscriptions"))
    };
    let (ann, bob) = (
        HttpSession::signed(&base, ANN).await,
        HttpSession::signed(&base, BOB).await,
    );
    let mut stream = ann.stream(None).await;
    ann.call("events_subscribe", json!({"namespace": space}))
        .await
        .ok();
    let polls = json!({"name": "events_poll", "arguments": {"namespace": "default"}});
    let polled = ann.modern("tools/call", Some("events_poll"), polls).await;
    assert_eq!(polled.status(), StatusCode::OK);
    drop(polled);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listen = Stream::new(ann.modern("subscriptions/listen", None, wanted).await);
    listen.next().await;
    let mut client = Subscriber::new(&bob).await;
    let of_bob = client.subscribe(json!({"namespace": space})).await;
    assert_eq!(counts().await, (3, 3), "two sessions, a listen");
    // A long call of hers is under way.
    let log = json!({"name": "pods_log", "arguments": {"name": "slow", "namespace": space}});
    let waiting = ann.modern("tools/call", Some("pods_log"), log);
    let revoking = async {
        let asked = || {
            let all = bed.dev().node().requests();
            all.iter().any(|one| one.container == "revoked/slow/app")
        };
        while !asked() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokens.replace(&[("bob", BOB), ("ann", NEW)]);
    };
    let (waited, ()) = tokio::join!(waiting, revoking);
    assert_eq!(waited.status(), StatusCode::UNAUTHORIZED);
    stream.rest().await;
    listen.rest().await;
    until(&base, ANN, StatusCode::UNAUTHORIZED).await;
    let ended = async {
        while counts().await != (1, 1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, ended)
        .await
        .expect("sessions and subscriptions end");
    // What is bob's goes on, and the name may call with its new token.
    let happened = event(space, "ConfigMap/settings", "Warning", "After", "look");
    bed.dev().create(&happened).await.unwrap();
    assert_eq!(client.event(&of_bob).await["event"]["reason"], "After");
    let again = HttpSession::signed(&base, NEW).await;
    let own = again
        .call("events_list_subscriptions", json!({}))
        .await
        .ok();
    assert_eq!(own.data["subscriptions"], json!([]));
    let log = server.log();
    assert!(!log.contains("0123456789abcdef"), "a token in the log");
}

#[tokio::test]
async fn what_the_file_says_now_is_what_counts() {
    let file = kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .current("dev")
    });
    let tokens = TokenFile::new(&[("ann", ANN), ("bob", BOB)]);
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .arg("--auth-token-file")
            .arg(&tokens.path),
    );
    assert_eq!(status(&base, ANN).await, LET_IN);
    // A broken line gives nobody access, and the others stay.
    fs::write(&tokens.path, format!("ann {ANN}\nbob:{BOB}\n")).unwrap();
    until(&base, ANN, StatusCode::UNAUTHORIZED).await;
    assert_eq!(status(&base, BOB).await, LET_IN);
    server.wait_for("line 1 of the token file");
    // An empty file is nobody, and so is none.
    fs::write(&tokens.path, "").unwrap();
    until(&base, BOB, StatusCode::UNAUTHORIZED).await;
    tokens.replace(&[("bob", BOB)]);
    until(&base, BOB, LET_IN).await;
    fs::remove_file(&tokens.path).unwrap();
    until(&base, BOB, StatusCode::UNAUTHORIZED).await;
    let line = server.wait_for("nobody may call");
    assert!(line.contains("ERROR") && line.contains("tokens"), "{line}");
    tokens.replace(&[("bob", BOB)]);
    until(&base, BOB, LET_IN).await;
}
