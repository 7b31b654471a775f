//! HTTP to a kubecrier: one address, one token, and errors that a person can act on.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use super::trust;

/// Time for an answer to begin. A subscription asks the API server first.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// More than any tool answers.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// As much of a refusal as fits on a screen.
const SAID_CHARS: usize = 300;

/// Where a kubecrier is, and who we are there.
#[derive(Debug)]
pub(crate) struct Endpoint {
    url: Uri,
    token: Option<HeaderValue>,
    authority: Option<PathBuf>,
    client: Either,
}

/// TLS needs the system's certificates, which not every container has; plain HTTP
/// works without.
#[derive(Debug)]
enum Either {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// What went wrong between us and the server.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The address is none.
    #[error("`{0}` is not the address of a kubecrier; write for example http://127.0.0.1:8080/mcp")]
    Address(String),
    /// The file with the authorities to believe cannot be used.
    #[error("the certificate authority `{path}` cannot be used: {reason}")]
    Authority {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The token cannot be sent.
    #[error("the token has characters that no token has (a line break?)")]
    Token,
    /// Nobody answers.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// It wants to know who we are.
    #[error(
        "{0} asks for a token, and ours is missing or not accepted\n\
         hint: set KUBECRIER_TOKEN, or name a file with --token-file"
    )]
    Unauthorized(String),
    /// The session is over.
    #[error("the server does not know this session any more")]
    SessionGone,
    /// An answer that is none of MCP.
    #[error("{url} answered {status}: {said}")]
    Refused {
        /// Where.
        url: String,
        /// The HTTP status.
        status: StatusCode,
        /// The beginning of what it said.
        said: String,
    },
    /// The server refused a request.
    #[error("{0}")]
    Rpc(String),
    /// A tool failed.
    #[error("{0}")]
    Tool(String),
}

// === impl WireError ===

impl WireError {
    /// Whether the same may work in a moment.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            // A tool may fail because the API server behind it is down for a while.
            Self::Unreachable { .. } | Self::SessionGone | Self::Tool(_) => true,
            Self::Refused { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::Address(_)
            | Self::Authority { .. }
            | Self::Token
            | Self::Unauthorized(_)
            | Self::Rpc(_) => false,
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// An address such as `http://127.0.0.1:8080/mcp`; without a path, `/mcp` is meant.
    pub(crate) fn new(url: &str, token: Option<&str>) -> Result<Self, WireError> {
        Self::believing(url, token, None)
    }

    /// The same; over TLS, only who is signed by an authority in that file is believed.
    pub(crate) fn believing(
        url: &str,
        token: Option<&str>,
        authority: Option<&Path>,
    ) -> Result<Self, WireError> {
        let refuse = || WireError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| refuse())?;
        let host = uri.authority().ok_or_else(refuse)?.clone();
        let path = match uri.path_and_query() {
            Some(path) if path.as_str() != "/" => path.as_str(),
            _ => "/mcp",
        };
        let scheme = uri.scheme_str().unwrap_or_default();
        if let Some(path) = authority.filter(|_| scheme == "http") {
            return Err(WireError::Authority {
                path: path.display().to_string(),
                reason: format!("`{url}` is not https, so there is no certificate to check"),
            });
        }
        let client = match scheme {
            "http" => Either::Plain(
                Client::builder(TokioExecutor::new())
                    .pool_timer(TokioTimer::new())
                    .build(HttpConnector::new()),
            ),
            "https" => Either::Tls(
                Client::builder(TokioExecutor::new())
                    .pool_timer(TokioTimer::new())
                    .build(trust::connector(url, authority)?),
            ),
            _ => return Err(refuse()),
        };
        let url = Uri::builder()
            .scheme(scheme)
            .authority(host)
            .path_and_query(path)
            .build()
            .map_err(|_| refuse())?;
        let token = token
            .map(|token| {
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| WireError::Token)?;
                value.set_sensitive(true);
                Ok(value)
            })
            .transpose()?;
        Ok(Self {
            url,
            token,
            authority: authority.map(Path::to_owned),
            client,
        })
    }

    /// As a person writes it.
    pub(crate) fn url(&self) -> String {
        self.url.to_string()
    }

    /// Sends one request and waits for the head of its answer, which is a success.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, WireError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.clone();
        let in_session = headers.contains_key("mcp-session-id");
        *request.headers_mut() = headers;
        if let Some(token) = &self.token {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, token.clone());
        }
        let sending = match &self.client {
            Either::Plain(client) => client.request(request),
            Either::Tls(client) => client.request(request),
        };
        let unreachable = |reason: String| WireError::Unreachable {
            url: self.url(),
            reason,
        };
        let response = match tokio::time::timeout(ANSWER_WITHIN, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let mut reason = deepest(&error);
                if let Some(advice) = trust::advice(&error, self.authority.as_deref()) {
                    reason.push_str(&format!("\nhint: {advice}"));
                }
                return Err(unreachable(reason));
            }
            Err(_elapsed) => {
                let seconds = ANSWER_WITHIN.as_secs();
                return Err(unreachable(format!("no answer within {seconds} s")));
            }
        };
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED => Err(WireError::Unauthorized(self.url())),
            StatusCode::NOT_FOUND if in_session => Err(WireError::SessionGone),
            status => {
                let said = read(response).await.unwrap_or_default();
                let said: String = String::from_utf8_lossy(&said)
                    .trim()
                    .chars()
                    .take(SAID_CHARS)
                    .collect();
                Err(WireError::Refused {
                    url: self.url(),
                    status,
                    said,
                })
            }
        }
    }

    /// The same, and all of the answer.
    pub(crate) async fn ask(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), WireError> {
        let response = self.send(Method::POST, headers, body).await?;
        let headers = response.headers().clone();
        let body = read(response)
            .await
            .map_err(|reason| WireError::Unreachable {
                url: self.url(),
                reason,
            })?;
        Ok((headers, body))
    }
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let whole = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
    match tokio::time::timeout(ANSWER_WITHIN, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err("the answer did not end in time".to_owned()),
    }
}

/// The layers above only say where.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_read_as_people_write_them() {
        for (text, meant) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/mcp"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/mcp"),
            ("http://crier.example/a/mcp", "http://crier.example/a/mcp"),
        ] {
            assert_eq!(Endpoint::new(text, None).unwrap().url(), meant);
        }
        for text in ["", "127.0.0.1:8080", "localhost", "ftp://x/mcp", "http://"] {
            let error = Endpoint::new(text, None).unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8080/mcp"), "{error}");
        }
        let error = Endpoint::new("http://x", Some("a\nb")).unwrap_err();
        assert!(matches!(error, WireError::Token));
    }

    #[tokio::test]
    async fn nobody_there_is_said_with_the_address() {
        let endpoint = Endpoint::new("http://127.0.0.1:1", None).unwrap();
        let error = (endpoint.ask(HeaderMap::new(), Bytes::new()).await).unwrap_err();
        assert!(error.may_pass());
        let text = error.to_string();
        assert!(
            text.starts_with("cannot reach http://127.0.0.1:1/mcp: "),
            "{text}"
        );
        assert!(text.contains("refused"), "{text}");
    }
}
