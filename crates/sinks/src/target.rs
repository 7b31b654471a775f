//! Targets that take messages: webhooks, agents and programs.

use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use kubecrier_redact::Redactor;
use serde_json::Value;

use crate::{
    config::{SinkConfig, TargetConfig},
    delivery::{Deliver, DeliveryError},
    exec::Program,
    http::{HttpClient, Message},
    notice::Notice,
    payload::{
        a2a,
        alert::{self, Labels},
        cloud_event::{ContentMode, cloud_event},
    },
};

/// A target that takes messages.
#[derive(Debug)]
pub(crate) enum MessageTarget {
    Webhook {
        client: HttpClient,
        receiver: String,
        labels: Labels,
    },
    CloudEvents {
        client: HttpClient,
        mode: ContentMode,
    },
    A2a {
        client: HttpClient,
    },
    Exec(Program),
}

// === impl MessageTarget ===

impl MessageTarget {
    /// The target of a sink; none if it takes alerts.
    pub(crate) fn new(config: &SinkConfig, redactor: &Redactor) -> Option<Self> {
        let client = |http: &crate::config::HttpTarget| {
            HttpClient::new(http.clone(), config.timeout, redactor.clone())
        };
        match &config.target {
            TargetConfig::Alertmanager { .. } => None,
            TargetConfig::AlertmanagerWebhook { http, labels } => Some(Self::Webhook {
                client: client(http),
                receiver: config.name.clone(),
                labels: labels.clone(),
            }),
            TargetConfig::CloudEvents { http, mode } => Some(Self::CloudEvents {
                client: client(http),
                mode: *mode,
            }),
            TargetConfig::A2a { http } => Some(Self::A2a {
                client: client(http),
            }),
            TargetConfig::Exec(exec) => {
                let program = Program::new(exec.clone(), config.timeout, redactor.clone());
                Some(Self::Exec(program))
            }
        }
    }
}

impl Deliver for MessageTarget {
    async fn deliver(&self, notice: &Notice) -> Result<(), DeliveryError> {
        let id = notice.message_id();
        match self {
            Self::Webhook {
                client,
                receiver,
                labels,
            } => {
                let body = alert::webhook(notice, receiver, labels);
                client.post("", json(id, &body)).await.map(drop)
            }
            Self::CloudEvents { client, mode } => {
                let (headers, body) = cloud_event(notice, *mode);
                let message = Message { id, headers, body };
                client.post("", message).await.map(drop)
            }
            Self::A2a { client } => {
                let mut message = json(id, &a2a::send_message(notice));
                let version = HeaderName::from_static("a2a-version");
                let value = HeaderValue::from_static(a2a::VERSION);
                message.headers.insert(version, value);
                let answer = client.post("", message).await?;
                match a2a::error(&answer.body) {
                    None => Ok(()),
                    Some(error) => {
                        let said = client.excerpt(error.as_bytes());
                        let text = format!("it does not take the message{said}");
                        Err(DeliveryError::rejected(text))
                    }
                }
            }
            Self::Exec(program) => program.run(notice).await,
        }
    }
}

fn json(id: String, body: &Value) -> Message {
    let json = HeaderValue::from_static("application/json");
    Message {
        id,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: body.to_string().into_bytes(),
    }
}
