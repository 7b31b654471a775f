//! The connections to the API server, which all callers share.

use serde_json::json;
use testbed::User;

use super::{TokenFile, furnish, grant};
use crate::harness::{Http, HttpSession, Proxy, command, kubeconfig};

const CALLERS: usize = 40;

#[tokio::test]
async fn many_callers_use_few_connections() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "acting-many");
    furnish(cluster, space).await;
    grant(cluster, space, "many", "Group", "many").await;
    let proxy = Proxy::start(&cluster.url()).await;
    let url = format!("https://{}", proxy.address);
    let file = kubeconfig(|file| {
        file.context_at("dev", &url, cluster, User::ActsAsCallers)
            .current("dev")
    });
    let token = |number: usize| format!("0123456789abcdef-{number}");
    let lines: Vec<_> = (0..CALLERS)
        .map(|number| format!("c{number}:{} user=many-{number} groups=many", token(number)))
        .collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let tokens = TokenFile::new(&lines);
    let (_server, base) = Http::launch(
        command()
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--cluster-identity", "impersonate", "--auth-token-file"])
            .arg(&tokens.path),
    );
    for number in 0..CALLERS {
        let session = HttpSession::signed(&base, &token(number)).await;
        let pods = session.call("pods_list", json!({"namespace": space}));
        let pods = pods.await.ok();
        assert!(pods.text.contains("web"), "{}", pods.text);
    }
    let count = proxy.connections();
    assert!((1..=CALLERS / 4).contains(&count), "{count} connections");
}
