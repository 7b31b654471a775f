//! A real Alertmanager takes, groups and resolves an incident of the demo, and the webhook of
//! the server is that of Alertmanager.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use testbed::{GoTool, User};
use tokio::time::{Instant, sleep};

use super::{
    break_pod,
    receiver::{Receiver, Request},
    set_up,
};
use crate::harness::{Server, TIMEOUT, command, one_context};

/// A running Alertmanager.
struct Alertmanager {
    _server: Server,
    _folder: tempfile::TempDir,
    base: String,
}

impl Alertmanager {
    /// Starts one that tells a receiver what it is told.
    fn start(receiver: &Receiver) -> Option<Self> {
        let mut command: Command = GoTool::Alertmanager
            .command()
            .inspect_err(testbed::skip)
            .ok()?;
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "route": {
                "receiver": "test", "group_by": ["alertname", "namespace"],
                "group_wait": "1s", "group_interval": "1s",
            },
            "receivers": [{"name": "test", "webhook_configs": [
                {"url": format!("http://{}/real", receiver.address), "send_resolved": true},
            ]}],
        });
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let started = Server::start(
            command
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--storage.path={}", folder.path().display()))
                .args([
                    "--web.listen-address=127.0.0.1:0",
                    "--cluster.listen-address=",
                ])
                .stdin(Stdio::null()),
        );
        let line = started.wait_for("Listening on");
        let address = line.split("address=").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap();
        Some(Self {
            base: format!("http://{address}"),
            _server: started,
            _folder: folder,
        })
    }

    async fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/v2/{path}", self.base);
        reqwest::get(url).await.unwrap().json().await.unwrap()
    }

    /// The first alert that is like this.
    async fn alert(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let alerts = self.get("alerts").await;
            let mut all = alerts.as_array().unwrap().iter();
            if let Some(found) = all.find(|one| is_it(one)) {
                return found.clone();
            }
            assert!(Instant::now() < deadline, "no {what} in {alerts:#}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn is_payment(alert: &Value) -> bool {
    alert["labels"]["name"] == "payment" && alert["labels"]["kind"] == "Deployment"
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[tokio::test]
async fn a_real_alertmanager_takes_groups_and_resolves_an_incident_of_the_demo() {
    let receiver = Receiver::start().await;
    let Some(alertmanager) = Alertmanager::start(&receiver) else {
        return;
    };
    let api = format!("alertmanager+{}", alertmanager.base);
    let webhook = format!("alertmanager-webhook+http://{}/ours", receiver.address);
    let demo = Server::start(
        command()
            .args(["--sink", &api, "--sink", &webhook])
            .args(["--sink-allow", "127.0.0.1", "--log-level", "info"])
            .args(["demo", "--no-client", "--port", "0", "--speed", "2"])
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    );
    demo.wait_for("a sink follows incidents");
    let alert = alertmanager.alert("alert of payment", is_payment).await;
    for (label, value) in [
        ("alertname", "KubernetesCrashLoop"),
        ("namespace", "shop"),
        ("detector", "crash-loop"),
        ("cluster", "demo"),
    ] {
        assert_eq!(alert["labels"][label], value, "{alert:#}");
    }
    let summary = alert["annotations"]["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("shop/deployment/payment: "),
        "{summary}"
    );
    let groups = alertmanager.get("alerts/groups").await;
    let group = groups.as_array().unwrap().iter().find(|group| {
        let mut alerts = group["alerts"].as_array().unwrap().iter();
        alerts.any(is_payment)
    });
    let expected = json!({"alertname": "KubernetesCrashLoop", "namespace": "shop"});
    assert_eq!(group.unwrap()["labels"], expected);

    let of = |path: &str, status: &str| {
        let (path, status) = (format!("post {path} "), status.to_owned());
        move |one: &Request| {
            one.head.starts_with(&path)
                && one.body["alerts"].as_array().is_some_and(|alerts| {
                    alerts
                        .iter()
                        .any(|one| is_payment(one) && one["status"] == *status)
                })
        }
    };
    let ours = receiver
        .wait_for("webhook of ours", of("/ours", "firing"))
        .await;
    let real = receiver.wait_for("webhook", of("/real", "firing")).await;
    assert!(keys(&ours.body).is_subset(&keys(&real.body)));
    // What Alertmanager added since, about its own routes and intervals.
    let more: Vec<_> = keys(&real.body)
        .difference(&keys(&ours.body))
        .copied()
        .collect();
    assert_eq!(more, ["notification_reason", "routeLabels"]);
    assert_eq!(ours.body["version"], real.body["version"]);
    let payment = |request: &Request| {
        let alerts = request.body["alerts"].as_array().unwrap().iter();
        alerts.clone().find(|one| is_payment(one)).unwrap().clone()
    };
    let (ours, real) = (payment(&ours), payment(&real));
    assert_eq!(keys(&ours), keys(&real));
    for same in ["status", "labels", "endsAt", "fingerprint"] {
        assert_eq!(ours[same], real[same], "{same}");
    }
    // It is over once it has been gone for half a minute.
    receiver
        .wait_for("end of ours", of("/ours", "resolved"))
        .await;
    receiver.wait_for("end", of("/real", "resolved")).await;
    let open = alertmanager.get("alerts?active=true").await;
    let mut open = open.as_array().unwrap().iter();
    assert!(!open.any(is_payment), "it does not fire any more");
}

/// What is open when a server starts has to be in Alertmanager: alerts are a state. And what
/// is sent fits the description of its API.
#[tokio::test]
async fn what_is_wrong_at_the_start_is_sent_as_the_api_describes_it() {
    let Some(bed) = testbed::shared() else { return };
    let Ok(api) = GoTool::alertmanager_api().inspect_err(testbed::skip) else {
        return;
    };
    let api = std::fs::read_to_string(api).unwrap();
    let mut api: Value = serde_saphyr::from_str(&api).unwrap();
    api["$ref"] = json!("#/definitions/postableAlerts");
    let schema = jsonschema::validator_for(&api).unwrap();
    let (cluster, space) = (bed.dev(), "sinks-start");
    set_up(cluster, space, &["old"]).await;
    break_pod(cluster, space, "old").await;
    let receiver = Receiver::start().await;
    let file = one_context(cluster, User::Admin);
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "[[sink]]\nurl = \"alertmanager+http://{}/prefix\"\nnamespaces = [\"{space}\"]\n\
         labels = {{ team = \"shop\" }}\n",
        receiver.address
    );
    std::fs::write(config.path(), text).unwrap();
    let _server = Server::start(
        command()
            .arg("--config")
            .arg(config.path())
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--sink-allow", "127.0.0.0/8", "--port", "0"])
            .stdin(Stdio::null()),
    );
    let sent = receiver.wait_for("alert", |one| one.body[0]["labels"]["name"] == "old");
    let Request { head, body } = sent.await;
    assert!(head.starts_with("post /prefix/api/v2/alerts "), "{head}");
    schema.validate(&body).unwrap();
    assert!(schema.validate(&json!([{"labels": 7}])).is_err());
    assert_eq!(body[0]["labels"]["team"], "shop");
    assert!(!body.to_string().contains(super::SECRET), "{body:#}");
}
