//! A history that callers read as themselves.

use std::path::Path;

use serde_json::{Value, json};
use testbed::User;
use tokio::time::{Duration, sleep};

use super::{expire, happen, space};
use crate::{
    harness::{Http, HttpSession, Server, command, one_context},
    impersonation::{ANN, BOB, TokenFile, grant, revoke},
};

fn launch(kubeconfig: &Path, folder: &Path, tokens: &TokenFile) -> (Server, String) {
    let (server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path)
            .arg("--history")
            .arg(folder),
    );
    server.wait_for("the history has the events of a context");
    (server, base)
}

async fn reasons(session: &HttpSession, arguments: Value) -> Result<Vec<String>, String> {
    let answer = session.call("events_list", arguments).await;
    if answer.is_error {
        return Err(answer.text);
    }
    let rows = answer.data["events"].as_array().unwrap().iter();
    let mut reasons: Vec<_> = rows
        .map(|row| row["reason"].as_str().unwrap().to_owned())
        .collect();
    reasons.sort();
    Ok(reasons)
}

/// What is kept with the rights of the server is read with those of the caller: by a search, and
/// after a cursor of before a restart.
#[tokio::test]
async fn each_line_of_the_history_is_decided_for_who_reads_it() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, own, other) = (bed.dev(), "kept-own", "kept-other");
    for name in [own, other] {
        space(cluster, name).await;
    }
    for name in [own, other] {
        grant(cluster, name, "keeper", "User", "keeper").await;
    }
    grant(cluster, own, "kept-ann", "User", "kept-ann").await;
    let lines = [
        &*format!("ann:{ANN} user=kept-ann"),
        &*format!("keeper:{BOB} user=keeper"),
    ];
    let (file, tokens) = (one_context(cluster, User::Admin), TokenFile::new(&lines));
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("history");
    let (server, base) = launch(&file.path, &folder, &tokens);
    let ann = HttpSession::signed(&base, ANN).await;
    let keeper = HttpSession::signed(&base, BOB).await;
    // A subscription to both; a warning says that only one of them is told.
    let both = json!({"namespaces": [own, other]});
    let began = ann.call("events_poll", both.clone()).await.ok().data;
    happen(cluster, own, "Pod/web-0", "Mine").await;
    happen(cluster, other, "Pod/web-0", "Theirs").await;
    let kept = async |session: &HttpSession, space: &str| {
        for _ in 0..300 {
            let found = reasons(session, json!({"namespace": space, "since": "2d"})).await;
            if found.as_ref().is_ok_and(|found| !found.is_empty()) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("nothing of {space} is kept");
    };
    kept(&keeper, own).await;
    kept(&keeper, other).await;
    sleep(Duration::from_secs(1)).await;
    expire(cluster, own).await;
    expire(cluster, other).await;
    let since = |space: &str| json!({"namespace": space, "since": "2d"});
    assert_eq!(reasons(&ann, since(own)).await, Ok(vec!["Mine".to_owned()]));
    assert_eq!(
        reasons(&keeper, since(other)).await,
        Ok(vec!["Theirs".to_owned()])
    );
    let refused = reasons(&ann, since(other)).await.unwrap_err();
    assert!(
        refused.contains("forbidden") && !refused.contains("Theirs"),
        "{refused}"
    );
    let refused = reasons(&ann, json!({"since": "2d"})).await.unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");

    // Killed, and started again: what happened meanwhile is in the history.
    drop((server, ann, keeper));
    happen(cluster, own, "Pod/web-0", "MineMeanwhile").await;
    happen(cluster, other, "Pod/web-0", "TheirsMeanwhile").await;
    let (server, base) = launch(&file.path, &folder, &tokens);
    let ann = HttpSession::signed(&base, ANN).await;
    let mut next = both.clone();
    next["cursor"] = began["cursor"].clone();
    next["waitSeconds"] = 10.into();
    let page = ann.call("events_poll", next.clone()).await.ok().data;
    let text = page.to_string();
    assert!(
        text.contains("\"Mine\"") && text.contains("MineMeanwhile"),
        "{text}"
    );
    assert!(!text.contains("Theirs"), "{text}");
    // Without the right, the same cursor leads to nothing.
    revoke(cluster, own, "kept-ann").await;
    drop((server, ann));
    let (_server, base) = launch(&file.path, &folder, &tokens);
    let ann = HttpSession::signed(&base, ANN).await;
    let answer = ann.call("events_poll", next).await;
    let text = format!("{}{}", answer.text, answer.data);
    assert!(!text.contains("Mine") && !text.contains("Theirs"), "{text}");
}
