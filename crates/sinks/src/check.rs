//! Checks a sink without telling it anything: for `kubecrier doctor`.

use http::{Method, StatusCode};
use kubecrier_redact::Redactor;
use serde_json::Value;

use crate::{
    config::{SinkConfig, TargetConfig},
    delivery::DeliveryError,
    http::{Answer, HttpClient},
    signature::SigningKeys,
};

/// What was found on a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkCheck {
    /// It would take incidents, as far as can be seen.
    Ok(String),
    /// Something to know.
    Note(String),
    /// It would not take them.
    Fail(String),
}

/// Asks the target whether it is there, and reads the secrets.
pub async fn check(config: &SinkConfig, redactor: &Redactor) -> Vec<SinkCheck> {
    let TargetConfig::Exec(exec) = &config.target else {
        return check_http(config, redactor).await;
    };
    let is_executable = |meta: &std::fs::Metadata| {
        use std::os::unix::fs::PermissionsExt;
        meta.is_file() && meta.permissions().mode() & 0o111 != 0
    };
    let program = exec.program.display();
    vec![match tokio::fs::metadata(&exec.program).await {
        Ok(meta) if is_executable(&meta) => SinkCheck::Ok(format!("`{program}` can be started")),
        Ok(_) => SinkCheck::Fail(format!("`{program}` is no executable file")),
        Err(error) => SinkCheck::Fail(format!("cannot find `{program}`: {error}")),
    }]
}

async fn check_http(config: &SinkConfig, redactor: &Redactor) -> Vec<SinkCheck> {
    let Some(http) = config.target.http() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if let Some(source) = &http.signing_secrets {
        let keys = source.read().await.and_then(|secrets| {
            let keys = SigningKeys::parse(secrets.expose());
            keys.map_err(|error| source.error(error.to_string()))
        });
        found.push(match keys {
            Ok(_) => SinkCheck::Ok(format!("the signing secrets in {source} can be used")),
            Err(error) => SinkCheck::Fail(error.to_string()),
        });
    }
    let client = HttpClient::new(http.clone(), config.timeout, redactor.clone());
    let asked = match &config.target {
        TargetConfig::Alertmanager { .. } => client.ask(Method::GET, "/api/v2/status").await,
        TargetConfig::A2a { .. } => client.ask_root("/.well-known/agent-card.json").await,
        // No message, and most receivers answer it with something.
        TargetConfig::AlertmanagerWebhook { .. }
        | TargetConfig::CloudEvents { .. }
        | TargetConfig::Exec(_) => client.ask(Method::OPTIONS, "").await,
    };
    found.push(match asked {
        Ok(answer) => judge(&config.target, &answer),
        Err(error) => SinkCheck::Fail(match error {
            DeliveryError::Unavailable { reason, .. }
            | DeliveryError::Refused { reason }
            | DeliveryError::Rejected { reason } => reason,
        }),
    });
    found
}

fn judge(target: &TargetConfig, answer: &Answer) -> SinkCheck {
    let status = answer.status;
    match (target, status) {
        (_, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => SinkCheck::Fail(format!(
            "it answers, and does not take the credentials ({status})"
        )),
        (_, status) if status.is_redirection() => SinkCheck::Fail(format!(
            "it answers with a redirect ({status}), which is not followed: write the URL that it leads to"
        )),
        (TargetConfig::Alertmanager { .. }, StatusCode::OK) => {
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            match said["versionInfo"]["version"].as_str() {
                Some(version) => SinkCheck::Ok(format!("it answers: Alertmanager {version}")),
                None => SinkCheck::Fail("what answers is no Alertmanager".to_owned()),
            }
        }
        (TargetConfig::Alertmanager { .. }, status) => SinkCheck::Fail(format!(
            "it answers {status} for /api/v2/status: the URL has to be the one under which /api/v2 is"
        )),
        (TargetConfig::A2a { .. }, StatusCode::OK) => {
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            match said["name"].as_str() {
                Some(_) => SinkCheck::Ok("it answers, and has the card of an agent".to_owned()),
                None => SinkCheck::Note("it answers, and has no card of an agent".to_owned()),
            }
        }
        (TargetConfig::A2a { .. }, status) => SinkCheck::Note(format!(
            "it answers, and shows no card of an agent ({status})"
        )),
        (_, status) if status.is_server_error() => {
            SinkCheck::Note(format!("it answers with an error of its own ({status})"))
        }
        _ => SinkCheck::Ok(format!(
            "it answers ({status} for OPTIONS); whether it takes messages is seen with the first one"
        )),
    }
}
