//! Requests to targets: addresses are checked after DNS, redirects are not followed, answers are
//! read to a limit, everything within a deadline.

mod connect;

use std::{error::Error as StdError, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use jiff::Timestamp;
use kubecrier_redact::Redactor;
use tokio::time::timeout;

use self::connect::Connections;
use crate::{
    config::{Credentials, HttpTarget, TargetUrl},
    delivery::DeliveryError,
    secret::SecretError,
    signature::SigningKeys,
};

/// As much of an answer as is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// As much of an answer as a log shows.
const SHOWN_CHARS: usize = 200;

/// The longest delay that a target can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

const AGENT: &str = concat!("kubecrier/", env!("CARGO_PKG_VERSION"));

/// A client of one target.
#[derive(Debug)]
pub(crate) struct HttpClient {
    target: HttpTarget,
    connections: Connections,
    timeout: Duration,
    redactor: Redactor,
}

/// The message of a request.
#[derive(Debug)]
pub(crate) struct Message {
    /// The same for each attempt.
    pub(crate) id: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// An answer; the body may be cut.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn new(target: HttpTarget, timeout: Duration, redactor: Redactor) -> Self {
        Self {
            connections: Connections::new(target.allowed.clone(), target.ca_file.clone()),
            target,
            timeout,
            redactor,
        }
    }

    /// Posts a message; `path` is put after that of the URL.
    pub(crate) async fn post(&self, path: &str, message: Message) -> Result<Answer, DeliveryError> {
        let url = self.url(path).await?;
        let mut headers = message.headers;
        let body = Bytes::from(message.body);
        if let Some(source) = &self.target.signing_secrets {
            let secrets = source.read().await?;
            let keys = SigningKeys::parse(secrets.expose())
                .map_err(|error| source.error(error.to_string()))?;
            let now = Timestamp::now();
            let id = message.id;
            let signature = keys.sign(&id, now, &body);
            let time = now.as_second().to_string();
            for (name, value) in [
                ("webhook-id", id),
                ("webhook-timestamp", time),
                ("webhook-signature", signature),
            ] {
                let value = HeaderValue::try_from(value)
                    .map_err(|_| DeliveryError::rejected("its id cannot stand in a header"))?;
                headers.insert(name, value);
            }
        }
        let answer = self.send(Method::POST, url, headers, body).await?;
        self.judge(answer)
    }

    /// Sends a request without a message and returns the answer, whatever it is.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> Result<Answer, DeliveryError> {
        let url = self.url(path).await?;
        self.send(method, url, HeaderMap::new(), Bytes::new()).await
    }

    /// Asks the root of the server, of which the URL is one place.
    pub(crate) async fn ask_root(&self, path: &str) -> Result<Answer, DeliveryError> {
        let url = with_path(&self.url("").await?, path)?;
        self.send(Method::GET, url, HeaderMap::new(), Bytes::new())
            .await
    }

    async fn url(&self, path: &str) -> Result<Uri, DeliveryError> {
        let url = match &self.target.url {
            TargetUrl::Known(url) => url.clone(),
            TargetUrl::Secret(source) => {
                let secret = source.read().await?;
                TargetUrl::parse(secret.expose())
                    .map_err(|error| source.error(format!("it must be {error}")))?
            }
        };
        if path.is_empty() {
            return Ok(url);
        }
        with_path(&url, &format!("{}{path}", url.path().trim_end_matches('/')))
    }

    async fn send(
        &self,
        method: Method,
        url: Uri,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, DeliveryError> {
        if let Some(credentials) = &self.target.credentials {
            headers.insert(header::AUTHORIZATION, authorization(credentials).await?);
        }
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.clone();
        *request.headers_mut() = headers;
        let exchange = async {
            let response = self.connections.request(request).await?;
            let (head, body) = response.into_parts();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: read(body).await,
            })
        };
        match timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(DeliveryError::unavailable(format!(
                "{} did not answer within {} s",
                place(&url),
                self.timeout.as_secs_f32()
            ))),
        }
    }

    /// Whether a target took a message.
    fn judge(&self, answer: Answer) -> Result<Answer, DeliveryError> {
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        let said = self.excerpt(&answer.body);
        if status.is_redirection() {
            let to = answer.headers.get(header::LOCATION);
            let to = to.and_then(|to| to.to_str().ok()?.parse::<Uri>().ok());
            let to = to
                .as_ref()
                .map_or_else(String::new, |to| format!(" to {}", place(to)));
            return Err(DeliveryError::refused(format!(
                "it redirects{to} ({status}), which is not followed: write the URL that it leads to"
            )));
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let what = match self.target.credentials {
                    Some(_) => "it does not take the credentials",
                    None => "it wants credentials, and none are configured",
                };
                Err(DeliveryError::refused(format!("{what} ({status}){said}")))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
                let text = format!("nothing takes messages at this URL ({status}){said}");
                Err(DeliveryError::refused(text))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Err(DeliveryError::Unavailable {
                    reason: format!("it asks to come back later ({status}){said}"),
                    retry_after: retry_after(&answer.headers),
                })
            }
            status if status.is_client_error() => {
                let text = format!("it does not take the message ({status}){said}");
                Err(DeliveryError::rejected(text))
            }
            status => Err(DeliveryError::Unavailable {
                reason: format!("it answers with {status}{said}"),
                retry_after: retry_after(&answer.headers),
            }),
        }
    }

    /// The beginning of an answer, for a log: without secrets, in one line.
    pub(crate) fn excerpt(&self, body: &[u8]) -> String {
        excerpt(&self.redactor, body)
    }
}

/// The beginning of what a target says, without secrets, in one line; empty if it says nothing.
pub(crate) fn excerpt(redactor: &Redactor, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = redactor.workload(&text);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = words.chars().take(SHOWN_CHARS).collect();
    match &*shown {
        "" => String::new(),
        shown if words.len() > shown.len() => format!(": {shown}…"),
        shown => format!(": {shown}"),
    }
}

/// Scheme, host and port: all of a URL that is shown. The rest may be a secret.
pub(crate) fn place(url: &Uri) -> String {
    let host = url.authority().map_or("this host", |host| {
        host.as_str().rsplit('@').next().unwrap_or_default()
    });
    match url.scheme_str() {
        Some(scheme) => format!("{scheme}://{host}"),
        None => host.to_owned(),
    }
}

fn with_path(url: &Uri, path: &str) -> Result<Uri, DeliveryError> {
    let mut parts = url.clone().into_parts();
    parts.path_and_query = path.parse().ok();
    Uri::from_parts(parts).map_err(|_| DeliveryError::refused("its URL cannot have a path"))
}

async fn authorization(credentials: &Credentials) -> Result<HeaderValue, SecretError> {
    let (source, text) = match credentials {
        Credentials::Bearer(source) => {
            let token = source.read().await?;
            (source, format!("Bearer {}", token.expose()))
        }
        Credentials::Basic { user, password } => {
            let secret = password.read().await?;
            let pair = STANDARD.encode(format!("{user}:{}", secret.expose()));
            (password, format!("Basic {pair}"))
        }
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| source.error("it cannot stand in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads an answer to its end or to the limit. What is missing of it does not matter.
async fn read(mut body: Incoming) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            let room = ANSWER_BYTES_MAX - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
        }
        if read.len() == ANSWER_BYTES_MAX {
            break;
        }
    }
    read
}

/// The delay that a target asks for, in seconds or as a date, within a limit.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let delay = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            at.duration_since(Timestamp::now()).try_into().ok()?
        }
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

/// The text of the innermost error: the layers above it only say where it happened.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
