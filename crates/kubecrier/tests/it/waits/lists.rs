//! A listen is told of a list only if it is another than the one that its client has.

use serde_json::json;

use super::Modern;
use crate::harness::{MARKER, Project, Stream};

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";

/// Opens a listen; returns it with what it is told at its beginning. The update of the marker
/// comes after the lists.
async fn listen(client: &Modern) -> (Stream, Vec<String>) {
    let wanted = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": [MARKER]}});
    let mut stream = Stream::new(client.send("subscriptions/listen", None, wanted).await);
    let acknowledged = stream.next().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    let mut told = Vec::new();
    loop {
        let next = stream.next().await;
        if next["params"]["uri"] == MARKER {
            told.sort();
            return (stream, told);
        }
        told.push(next["method"].as_str().unwrap().to_owned());
    }
}

#[tokio::test]
async fn a_listen_is_told_of_what_changed_since_its_client_fetched() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let client = |name: &str| Modern::new(&http.base, name, "1");
    let stranger = listen(&client("stranger")).await.1;
    assert_eq!(
        stranger,
        [PROMPTS, TOOLS],
        "it may have lists of before a restart"
    );

    let claude = client("claude-code");
    claude.rpc("server/discover", None, json!({})).await;
    assert_eq!(listen(&claude).await.1, [""; 0], "it has just come");
    for method in ["tools/list", "prompts/list"] {
        claude.rpc(method, None, json!({})).await;
    }
    let (mut listening, told) = listen(&claude).await;
    assert_eq!(told, [""; 0], "it has fetched them");

    project.tool("another", "true");
    let next = listening.next().await;
    assert_eq!(next["method"], TOOLS, "what changes is told");
    assert_eq!(
        listen(&claude).await.1,
        [TOOLS],
        "it has not fetched it yet"
    );
    assert_eq!(listen(&client("stranger")).await.1, [PROMPTS, TOOLS]);
}
