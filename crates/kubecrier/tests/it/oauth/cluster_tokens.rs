//! The API server as an issuer of tokens, for programs in the cluster.

use serde_json::json;
use testbed::{User, namespace};

use super::provider::{Guarded, Provider};
use crate::harness::one_context;

#[tokio::test]
async fn the_api_server_is_an_issuer_beside_another() {
    let Some(bed) = testbed::shared() else { return };
    let Some(provider) = Provider::start() else {
        return;
    };
    let space = "issuer";
    let cluster = bed.dev();
    cluster
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    cluster.publish_issuer().await.unwrap();
    let file = one_context(cluster, User::Reader);
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), cluster.authority_pem()).unwrap();
    let issuers = format!("{},{}", provider.issuer, cluster.url());
    let guarded = Guarded::start_with(&file.path, &issuers, |command| {
        command
            .arg("--oauth-ca-file")
            .arg(authority.path())
            .args(["--oauth-required-scope", "none"])
    });
    let resource = guarded.resource();
    let token = cluster.token_for(space, "agent", &resource).await.unwrap();
    assert_eq!(guarded.status(&token).await, 200);
    // The token of every pod is for the API server alone.
    let usual = cluster.bound_token(space, "agent").await.unwrap();
    assert_eq!(guarded.status(&usual.token).await, 401);
    let person = provider.token(&resource, "").await;
    assert_eq!(guarded.status(&person).await, 200);
    let session = guarded.session(&token).await;
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let request = session.request(&request);
    let request = request.header("authorization", format!("Bearer {person}"));
    assert_eq!(
        request.send().await.unwrap().status(),
        404,
        "the session of another"
    );
}
