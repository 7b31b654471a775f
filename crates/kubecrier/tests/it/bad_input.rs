//! Invalid input never stops the server, and the error has a hint.

use std::{fs, net::TcpListener, time::Duration};

use serde_json::json;
use testbed::{Kubeconfig, Options, User, Validity, pod};
use tokio::time::Instant;

use crate::harness::{Http, StdioSession, ToolResult, command, kubeconfig, one_context};

#[tokio::test]
async fn a_missing_kubeconfig_is_reported_by_tools_and_not_by_initialize() {
    let mut session = StdioSession::start(&mut command());
    assert_eq!(
        session.handshake()["result"]["serverInfo"]["name"],
        "kubecrier"
    );
    assert!(
        session.rpc("tools/list", json!({}))["result"]["tools"]
            .as_array()
            .unwrap()
            .len()
            > 3
    );
    session.call("pods_list", json!({})).refused(
        "kubeconfig",
        &["no kubeconfig", ".kube/config", "hint: point --kubeconfig"],
    );
    session
        .call("configuration_contexts_list", json!({}))
        .refused("kubeconfig", &[]);
    assert!(session.server.is_running());
}

#[tokio::test]
async fn a_kubeconfig_that_is_none_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    fs::write(&path, "contexts: [").unwrap();
    let mut session = StdioSession::start(command().arg("--kubeconfig").arg(&path));
    session.handshake();
    let path = path.to_str().unwrap();
    session
        .call("pods_list", json!({}))
        .refused("kubeconfig", &[path, "kubectl config view"]);
    // A corrected file is used at once.
    let mended = Kubeconfig::new()
        .server_context("dev", "https://127.0.0.1:1", "")
        .current("dev");
    mended.write(path.as_ref()).unwrap();
    session.call("configuration_contexts_list", json!({})).ok();
}

#[tokio::test]
async fn without_a_current_context_the_contexts_are_named() {
    let Some(bed) = testbed::shared() else { return };
    let file = kubeconfig(|file| {
        let file = file.context("dev", bed.dev(), User::Reader);
        file.context("dev-2", bed.dev(), User::Reader)
    });
    let http = Http::start(&file.path, &[]).await;
    let asked = http.call("pods_list", json!({})).await;
    asked.refused("context", &["no current context", "dev, dev-2"]);
    http.call("pods_list", json!({"context": "dev"})).await.ok();
    http.call("pods_list", json!({"context": "nope"}))
        .await
        .refused("context", &["`nope`", "dev"]);
    // Where there is no choice, none has to be made.
    let file = kubeconfig(|file| file.context("dev", bed.dev(), User::Reader));
    Http::start(&file.path, &[])
        .await
        .call("pods_list", json!({}))
        .await
        .ok();
}

/// A call that timed out. It says how long it waited, which is its limit without what
/// getting at the client took: a tenth of a second on a busy machine.
fn timed_out(answer: ToolResult, limit: f64, words: &[&str]) {
    let text = answer.refused("timeout", words).text;
    let (_, rest) = text.split_once("no answer within ").unwrap();
    let waited: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((limit - 1.0..=limit).contains(&waited), "{text}");
}

#[tokio::test]
async fn a_dead_cluster_costs_its_own_call_five_seconds_and_nothing_else() {
    let Some(bed) = testbed::shared() else { return };
    // Refuses at once; accepts and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("https://{}", silent.local_addr().unwrap());
    let pem = bed.dev().authority_pem();
    let file = kubeconfig(|file| {
        file.context("dev", bed.dev(), User::Reader)
            .server_context("refusing", "https://127.0.0.1:1", pem)
            .server_context("silent", &silent_url, pem)
            .current("dev")
    });
    let http = Http::start(&file.path, &[]).await;
    let began = Instant::now();
    let (dead, alive) = tokio::join!(
        async {
            let answer = http.call("pods_list", json!({"context": "silent"})).await;
            (answer, began.elapsed())
        },
        async {
            http.call("pods_list", json!({})).await.ok();
            began.elapsed()
        },
    );
    assert!(dead.1 < Duration::from_secs(5), "took {:?}", dead.1);
    assert!(alive < dead.1, "the living cluster waited for the dead one");
    timed_out(dead.0, 4.0, &["`silent`", "hint:"]);
    http.call("pods_list", json!({"context": "refusing"}))
        .await
        .refused("unreachable", &["`refusing`", "hint: is the cluster up"]);
    http.call("pods_list", json!({})).await.ok();
}

#[tokio::test]
async fn a_frozen_cluster_is_given_up_and_found_again() {
    let Some(bed) = testbed::shared() else { return };
    let cluster = bed.fresh("dev", Options::default());
    let file = one_context(&cluster, User::Reader);
    let http = Http::start(&file.path, &["--request-timeout-seconds", "3"]).await;
    http.call("namespaces_list", json!({})).await.ok();
    cluster.freeze_api().unwrap();
    timed_out(http.call("namespaces_list", json!({})).await, 3.0, &[]);
    cluster.thaw_api().unwrap();
    http.call("namespaces_list", json!({})).await.ok();
    cluster.kill_api().unwrap();
    http.call("namespaces_list", json!({}))
        .await
        .refused("unreachable", &[]);
    cluster.start_api().await.unwrap();
    http.call("namespaces_list", json!({})).await.ok();
}

#[tokio::test]
async fn kinds_of_invalid_certificates_are_distinguished() {
    let Some(bed) = testbed::shared() else { return };
    let expired = bed
        .dev()
        .authority()
        .client("admin", "system:masters", Validity::Expired)
        .unwrap();
    // A server with an expired certificate: the node's endpoint will do.
    let old = bed
        .dev()
        .authority()
        .server("old", Validity::Expired)
        .unwrap();
    let node = testbed::NodeEndpoint::start(&old).unwrap();
    let file = kubeconfig(|file| {
        file.certificate_context("expired-client", bed.dev(), &expired)
            .server_context(
                "expired-server",
                &format!("https://{}", node.address()),
                bed.dev().authority_pem(),
            )
            .server_context(
                "other-authority",
                &bed.dev().url(),
                bed.prod().authority_pem(),
            )
            .context("unknown-token", bed.dev(), User::Unknown)
    });
    let http = Http::start(&file.path, &[]).await;
    let ask = async |context: &str| http.call("pods_list", json!({"context": context})).await;
    ask("expired-client")
        .await
        .refused("unauthorized", &["they may have expired"]);
    ask("unknown-token")
        .await
        .refused("unauthorized", &["auth whoami"]);
    ask("expired-server")
        .await
        .refused("certificate", &["xpired", "renew it"]);
    ask("other-authority")
        .await
        .refused("certificate", &["certificate-authority-data"]);
}

#[tokio::test]
async fn what_rbac_forbids_is_named_with_the_missing_right() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("team-a", "quiet", &["app"]))
        .await
        .unwrap();
    let file = kubeconfig(|file| {
        file.context("team-a", bed.dev(), User::TeamA)
            .context("no-logs", bed.dev(), User::NoLogs)
            .current("team-a")
    });
    let http = Http::start(&file.path, &[]).await;
    http.call("pods_list", json!({"namespace": "team-a"}))
        .await
        .ok();
    http.call("pods_list", json!({"namespace": "default"}))
        .await
        .refused(
            "forbidden",
            &[
                "`default`",
                "grant `list` on `pods`",
                "can-i list pods -n default",
            ],
        );
    http.call("events_list", json!({}))
        .await
        .refused("forbidden", &["name a namespace"]);
    let log = json!({"context": "no-logs", "namespace": "team-a", "name": "quiet"});
    http.call("pods_log", log)
        .await
        .refused("forbidden", &["grant `get` on `pods/log`"]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    let Some(bed) = testbed::shared() else { return };
    bed.dev()
        .create(&pod("default", "silent", &["app"]))
        .await
        .unwrap();
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let check = async |tool: &str, arguments: serde_json::Value, words: &[&str]| {
        http.call(tool, arguments).await.refused("invalid", words);
    };
    check("pods_list", json!({"nam": "x"}), &["`nam`", "`namespace`"]).await;
    check(
        "pods_list",
        json!({"limit": 0}),
        &["`limit` is 0", "1 to 1000"],
    )
    .await;
    check("pods_list", json!({"limit": "many"}), &["many"]).await;
    check(
        "pods_list",
        json!({"labelSelector": "a in ("}),
        &["parse", "hint: "],
    )
    .await;
    check(
        "pods_list",
        json!({"fieldSelector": "spec.colour=red"}),
        &["spec.colour"],
    )
    .await;
    check(
        "events_list",
        json!({"types": ["Bad"]}),
        &["`Bad`", "`Warning`"],
    )
    .await;
    check(
        "events_list",
        json!({"since": "yesterday"}),
        &["`yesterday`", "15m"],
    )
    .await;
    check("events_list", json!({"for": "web"}), &["kind/name"]).await;
    check("pods_log", json!({}), &["`name`"]).await;
    check(
        "pods_log",
        json!({"name": "silent", "include": "("}),
        &["`include`"],
    )
    .await;
    check(
        "pods_log",
        json!({"name": "silent", "tail": 0}),
        &["`tail` is 0"],
    )
    .await;
    check(
        "pods_log",
        json!({"name": "silent", "container": "x"}),
        &["no container `x`", "app"],
    )
    .await;
    http.call("pods_log", json!({"name": "gone"}))
        .await
        .refused("not_found", &["`gone`", "pods_list"]);
    // None of these errors stopped the server.
    http.call("pods_list", json!({"namespace": null}))
        .await
        .ok();
    let unknown = http
        .rpc(
            "tools/call",
            json!({"name": "pods_delete", "arguments": {}}),
        )
        .await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("pods_list"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_name_cannot_lead_to_another_path() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Admin);
    let http = Http::start(&file.path, &["--log-level", "trace"]).await;
    let secret = serde_json::from_value(json!({
        "metadata": {"name": "s3", "namespace": "default"}, "stringData": {"key": "PLANTED"},
    }));
    let secret: k8s_openapi::api::core::v1::Secret = secret.unwrap();
    bed.dev().create(&secret).await.unwrap();
    for namespace in [
        "default/secrets/s3?x=",
        "default/secrets?x=",
        "../..",
        "a b",
        "Default",
    ] {
        let answer = http
            .call("pods_list", json!({"namespace": namespace}))
            .await;
        answer.refused("invalid", &["namespace"]);
        http.call("events_list", json!({"namespace": namespace}))
            .await
            .refused("invalid", &[]);
    }
    for pod in ["x?y=", "x/log", ".."] {
        http.call("pods_log", json!({"name": pod}))
            .await
            .refused("invalid", &["pod"]);
    }
    // PLANTED, as the API server would send it.
    assert!(
        !http.server.log().contains("UExBTlRFRA"),
        "a secret in the log"
    );
}

#[tokio::test]
async fn credentials_never_reach_an_answer_or_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    let check = |content: &str, words: &[&str]| {
        fs::write(&path, content).unwrap();
        let mut session = StdioSession::start(command().arg("--kubeconfig").arg(&path));
        session.handshake();
        let answer = session
            .call("pods_list", json!({}))
            .refused("kubeconfig", words);
        assert!(!answer.text.contains("PLANTED"), "{}", answer.text);
        assert!(
            !answer.data.to_string().contains("PLANTED"),
            "{}",
            answer.data
        );
        assert!(
            !session.server.log().contains("PLANTED"),
            "{}",
            session.server.log()
        );
    };
    let user = |user: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n\
             users:\n- name: c\n  user:\n{user}\n"
        )
    };
    check(
        &user("    token: PLANTED\n    exec: PLANTED"),
        &["not valid YAML at line"],
    );
    let plugin = |script: &str| {
        user(&format!(
            "    exec: {{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, \
             args: [-c, '{script}', PLANTED], env: [{{name: X, value: PLANTED}}]}}"
        ))
    };
    check(
        &plugin("echo PLANTED; echo no luck >&2; exit 3"),
        &["plugin failed", "no luck"],
    );
    check(&plugin("echo {} PLANTED"), &["plugin"]);
}

#[tokio::test]
async fn a_slow_credential_plugin_is_waited_for_once_and_its_stdin_is_not_ours() {
    let Some(bed) = testbed::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    // Slower than the request timeout; reads stdin, which must be empty.
    let script = format!(
        "cat >/dev/null; echo run >> {}; sleep 1.2; echo \\{{\\\"apiVersion\\\": \
         \\\"client.authentication.k8s.io/v1\\\", \\\"kind\\\": \\\"ExecCredential\\\", \
         \\\"status\\\": \\{{\\\"token\\\": \\\"{}\\\"\\}}\\}}",
        runs.display(),
        User::Reader.token()
    );
    let file = kubeconfig(|file| {
        file.exec_context("dev", bed.dev(), "/bin/sh", &["-c", &script])
            .current("dev")
    });
    let arguments = [
        "--request-timeout-seconds",
        "1",
        "--kubeconfig",
        file.path.to_str().unwrap(),
    ];
    let mut session = StdioSession::start(command().env("PATH", "/usr/bin:/bin").args(arguments));
    session.handshake();
    session
        .call("namespaces_list", json!({}))
        .refused("timeout", &["plugin", "call again"]);
    let mut tries = 0;
    while session.call("namespaces_list", json!({})).is_error {
        tries += 1;
        assert!(
            tries < 30,
            "the plugin's work is thrown away: {}",
            session.server.log()
        );
    }
    // kube runs it up to three times for one client; ours is one client.
    assert!(fs::read_to_string(&runs).unwrap().lines().count() <= 3);
}
