//! Events are checked by the libraries that receivers use: their signatures by that of Standard
//! Webhooks, their form by that of CloudEvents.

use std::{fs, path::Path, process::Stdio};

use serde_json::Value;
use testbed::{Client, User};

use super::{break_pod, mend_pod, set_up};
use crate::harness::{Server, command, one_context};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The script beside this file: a receiver that knows one secret.
fn verifier(secret: &str, folder: &Path) -> Option<(Server, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sinks/verify.mjs");
    let mut node = Client::Webhooks
        .command(&script, folder)
        .inspect_err(testbed::skip)
        .ok()?;
    let server = Server::start(node.env("SECRET", secret).stdin(Stdio::null()));
    let line = server.wait_for("listening on ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    Some((server, address))
}

/// The next event that the receiver took.
fn taken(verifier: &Server) -> Value {
    let line = verifier.wait_for("taken ");
    serde_json::from_str(line.strip_prefix("taken ").unwrap()).unwrap()
}

#[tokio::test]
async fn events_hold_against_the_published_libraries_and_secrets_can_be_changed() {
    let Some(bed) = testbed::shared() else { return };
    let (cluster, space) = (bed.dev(), "sinks-signed");
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let Some((structured, first)) = verifier(OLD, folders[0].path()) else {
        return;
    };
    let Some((binary, second)) = verifier(OLD, folders[1].path()) else {
        return;
    };
    set_up(cluster, space, &["web", "api"]).await;
    let secrets = folders[0].path().join("secrets");
    // In the middle of a change: the receiver has the old one.
    fs::write(&secrets, format!("{NEW}\n{OLD}\n")).unwrap();
    let config = folders[0].path().join("config.toml");
    let sink = |url: &str, format: &str| {
        format!(
            "[[sink]]\nkind = \"cloudevents\"\nurl = \"http://{url}/hook\"\nformat = \"{format}\"\n\
             namespaces = [\"{space}\"]\nsigning_secret_file = \"{}\"\n",
            secrets.display()
        )
    };
    let text = sink(&first, "structured") + &sink(&second, "binary");
    fs::write(&config, format!("sink_allow = [\"127.0.0.1\"]\n{text}")).unwrap();
    let file = one_context(cluster, User::Admin);
    let server = Server::start(
        command()
            .arg("--config")
            .arg(&config)
            .arg("--kubeconfig")
            .arg(&file.path)
            .args(["--port", "0"])
            .stdin(Stdio::null()),
    );
    for _ in 0..2 {
        server.wait_for("a sink follows incidents");
    }
    break_pod(cluster, space, "web").await;
    let mut opened = Vec::new();
    for verifier in [&structured, &binary] {
        let event = taken(verifier);
        assert_eq!(event["type"], "io.github.kubecrier.incident.opened");
        assert_eq!(event["subject"], "sinks-signed/pod/web");
        assert_eq!(event["source"], "/kubecrier/dev");
        assert_eq!(event["data"]["incident"]["detector"], "image-name");
        assert_eq!(event["webhookId"], event["id"]);
        assert!(!event.to_string().contains(super::SECRET), "{event:#}");
        opened.push(event["id"].clone());
    }
    assert_eq!(opened[0], opened[1]);
    mend_pod(cluster, space, "web").await;
    let resolved = taken(&structured);
    assert_eq!(resolved["type"], "io.github.kubecrier.incident.resolved");
    assert!(resolved["data"]["incident"]["durationSeconds"].is_number());
    // A file that no longer has the receiver's secret counts at once, and so does the next one.
    fs::write(&secrets, NEW).unwrap();
    break_pod(cluster, space, "api").await;
    let line = structured.wait_for("refused ");
    assert!(line.contains("No matching signature"), "{line}");
    fs::write(&secrets, OLD).unwrap();
    assert_eq!(taken(&structured)["subject"], "sinks-signed/pod/api");
    let log = server.log();
    for secret in [OLD, NEW, super::SECRET] {
        assert!(!log.contains(secret), "{log}");
    }
}
