//! The same subject with other groups: what it has subscribed to is not told with the rights that
//! it had before.

use serde_json::{Value, json};
use testbed::User;
use tokio::time::{Duration, sleep, timeout};

use super::{
    bad_tokens::signed,
    provider::{Guarded, Provider},
};
use crate::{
    harness::{HttpSession, Stream, TIMEOUT, message, one_context},
    impersonation::{furnish, grant},
};

struct Person(HttpSession);

impl Person {
    async fn tool(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.0.modern("tools/call", Some(tool), params).await;
        assert_eq!(answer.status(), 200);
        message(&answer.text().await.unwrap())["result"].clone()
    }

    async fn subscribe(&self, namespace: &str) -> String {
        let filters = json!({"namespace": namespace});
        let made = self.tool("events_subscribe", filters).await;
        let id = made["structuredContent"]["subscriptionId"].as_str();
        id.unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    async fn read(&self, id: &str) -> String {
        let uri = format!("kubecrier://subscriptions/{id}");
        let read = json!({"uri": uri});
        let answer = self.0.modern("resources/read", Some(&uri), read).await;
        answer.text().await.unwrap()
    }

    /// The acknowledgement of a listen.
    async fn listen(&self, id: &str) -> String {
        let uri = format!("kubecrier://subscriptions/{id}");
        let wanted = json!({"notifications": {"resourceSubscriptions": [uri]}});
        let answer = self.0.modern("subscriptions/listen", None, wanted).await;
        Stream::new(answer).next().await.to_string()
    }

    async fn own(&self) -> String {
        let own = self.tool("events_list_subscriptions", json!({})).await;
        own["structuredContent"].to_string()
    }
}

#[tokio::test]
async fn a_feed_is_not_read_with_the_rights_of_the_groups_before() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let (cluster, space) = (bed.dev(), "changed-groups");
    furnish(cluster, space).await;
    grant(cluster, space, "readers", "Group", "oidc:changed-readers").await;
    let file = one_context(cluster, User::Admin);
    let guarded = Guarded::start_as("impersonate", &file.path, &provider.issuer, |command| {
        command.args(["--oauth-content-scopes=false", "--groups-claim", "groups"])
    });
    let with = async |group: &str| {
        let groups = json!({"groups": [group]});
        let token = signed(&provider, &guarded, groups).await;
        Person(HttpSession::begin_as(&guarded.base, &token).await)
    };
    let (before, now) = (with("changed-readers").await, with("leavers").await);
    let read = before.subscribe(space).await;
    let listened = before.subscribe(space).await;
    let polled = before.subscribe(space).await;
    let kept = before.subscribe(space).await;
    let seen = testbed::event(space, "Pod/web", "Warning", "BackOff", "seen by readers");
    cluster.create(&seen).await.unwrap();
    let arrived = async {
        while !before.read(&read).await.contains("seen by readers") {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, arrived).await.expect("it is told");
    assert!(before.listen(&listened).await.contains(&listened));

    let own = now.own().await;
    for id in [&read, &listened, &polled, &kept] {
        assert!(!own.contains(id.as_str()), "{id} in {own}");
    }
    let refused = now.read(&read).await;
    assert!(!refused.contains("seen by readers"), "{refused}");
    assert!(
        refused.contains("groups in Kubernetes have changed"),
        "{refused}"
    );
    let acknowledged = now.listen(&listened).await;
    assert!(!acknowledged.contains(&listened), "{acknowledged}");
    let poll = json!({"subscriptionId": polled});
    let refused = now.tool("events_poll", poll).await.to_string();
    assert!(
        refused.contains("groups in Kubernetes have changed"),
        "{refused}"
    );

    // What was named has ended; what was not is as it was for whom it belongs to.
    let own = before.own().await;
    for id in [&read, &listened, &polled] {
        assert!(!own.contains(id.as_str()), "{id} in {own}");
        assert!(before.read(id).await.contains("no resource"));
    }
    assert!(own.contains(&kept), "{own}");
    assert!(before.read(&kept).await.contains("seen by readers"));
}
