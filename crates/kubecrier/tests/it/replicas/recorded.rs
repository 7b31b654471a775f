//! The audit log of servers that share sessions.

use std::{path::Path, sync::Arc, time::Duration};

use kubecrier_history::{MemoryNetwork, MemoryRegistry, Registry};
use reqwest::StatusCode;
use serde_json::{Value, json};
use testbed::User;

use super::{Extras, start};
use crate::harness::{HttpSession, TIMEOUT, one_context};

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let records = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    records.collect()
}

/// The one that has the session knows how a call ends, and records it; the other one does not
/// know, and does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_recorded_once_where_its_session_is() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
    let network = MemoryNetwork::default();
    let folder = tempfile::tempdir().unwrap();
    let paths = ["first", "second"].map(|name| folder.path().join(name));
    let run = async |at: usize, name: &str| {
        let extras = Extras {
            audit: Some(&paths[at]),
            ..Extras::default()
        };
        start(&file.path, name, &registry, &network, extras).await
    };
    let (first, second) = (run(0, "first").await, run(1, "second").await);
    let client = reqwest::Client::new();
    let mut session = HttpSession::begin_with(client, &first.base, "2025-11-25", None).await;
    let _stream = session.stream(None).await;
    session.base.clone_from(&second.base);
    let none = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                      "params": {"name": "no-such-tool", "arguments": {}}});
    assert_eq!(session.post(&none).await.status(), StatusCode::OK);
    session.call("namespaces_list", json!({})).await.ok();
    let is_call = |record: &Value| record["method"] == "tools/call";
    let recorded = async {
        loop {
            let calls: Vec<_> = records(&paths[0]).into_iter().filter(is_call).collect();
            if calls.len() == 2 {
                return calls;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let calls = tokio::time::timeout(TIMEOUT, recorded).await.unwrap();
    let ends = calls.iter().map(|call| call["outcome"].as_str().unwrap());
    assert_eq!(
        ends.collect::<Vec<_>>(),
        ["refused", "allowed"],
        "{calls:?}"
    );
    assert_eq!(calls[0]["reason"], "invalid", "{calls:?}");
    // Its own are in its file, and nothing of another's before.
    let own = HttpSession::begin_with(reqwest::Client::new(), &second.base, "2025-11-25", None);
    own.await.call("namespaces_list", json!({})).await.ok();
    let recorded = async {
        while records(&paths[1]).is_empty() || !records(&paths[1]).iter().any(is_call) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, recorded).await.unwrap();
    let calls = records(&paths[1]).into_iter().filter(is_call).count();
    assert_eq!(calls, 1, "{:?}", records(&paths[1]));
    first.serving.close();
    second.serving.close();
}
