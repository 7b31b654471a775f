//! HTTP requests to one server, with one token.

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

use crate::{ClientError, tls};

/// Time until the head of a response arrives. A subscription asks the API server first.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// More than any tool answers.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// As much of an error's body as fits on a screen.
const ERROR_BODY_CHARS: usize = 300;

/// The URL of a server and the token for it.
#[derive(Debug)]
pub struct Endpoint {
    url: Uri,
    token: Option<HeaderValue>,
    certificate_authority: Option<PathBuf>,
    client: HttpClient,
}

/// TLS needs the system's certificates, which not every container has; plain HTTP
/// works without.
#[derive(Debug)]
enum HttpClient {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

// === impl Endpoint ===

impl Endpoint {
    /// A server at a URL such as `http://127.0.0.1:8080/mcp`; a URL without a path gets
    /// the path `/mcp`.
    ///
    /// # Errors
    ///
    /// The URL is invalid, or the token cannot stand in a header.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        Self::with_certificate_authority(url, token, None)
    }

    /// The same; over TLS, only certificates signed by an authority in that file are
    /// trusted.
    ///
    /// # Errors
    ///
    /// As for [`Endpoint::new`], or the file cannot be used.
    pub fn with_certificate_authority(
        url: &str,
        token: Option<&str>,
        certificate_authority: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let refuse = || ClientError::InvalidUrl(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| refuse())?;
        let host = uri.authority().ok_or_else(refuse)?.clone();
        let path = match uri.path_and_query() {
            Some(path) if path.as_str() != "/" => path.as_str(),
            _ => "/mcp",
        };
        let scheme = uri.scheme_str().unwrap_or_default();
        if let Some(path) = certificate_authority.filter(|_| scheme == "http") {
            return Err(ClientError::CertificateAuthority {
                path: path.display().to_string(),
                reason: format!("`{url}` is not https, so there is no certificate to check"),
            });
        }
        let client = match scheme {
            "http" => HttpClient::Plain(
                Client::builder(TokioExecutor::new())
                    .pool_timer(TokioTimer::new())
                    .build(HttpConnector::new()),
            ),
            "https" => HttpClient::Tls(
                Client::builder(TokioExecutor::new())
                    .pool_timer(TokioTimer::new())
                    .build(tls::connector(url, certificate_authority)?),
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
                    .map_err(|_| ClientError::InvalidToken)?;
                value.set_sensitive(true);
                Ok(value)
            })
            .transpose()?;
        Ok(Self {
            url,
            token,
            certificate_authority: certificate_authority.map(Path::to_owned),
            client,
        })
    }

    /// The URL, with its path.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    /// Sends a request and waits for the head of a successful response.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
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
            HttpClient::Plain(client) => client.request(request),
            HttpClient::Tls(client) => client.request(request),
        };
        let unreachable = |reason: String| ClientError::Unreachable {
            url: self.url(),
            reason,
        };
        let response = match tokio::time::timeout(RESPONSE_TIMEOUT, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let mut reason = root_cause(&error);
                let hint = match &self.client {
                    HttpClient::Tls(_) => tls::hint(&error, self.certificate_authority.as_deref()),
                    HttpClient::Plain(_) => not_http(&error).then(|| {
                        "what is there does not speak plain HTTP: if it has a certificate, write \
                         https://"
                            .to_owned()
                    }),
                };
                if let Some(hint) = hint {
                    reason.push_str(&format!("\nhint: {hint}"));
                }
                return Err(unreachable(reason));
            }
            Err(_elapsed) => {
                let seconds = RESPONSE_TIMEOUT.as_secs();
                return Err(unreachable(format!("no answer within {seconds} s")));
            }
        };
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED => Err(ClientError::Unauthorized(self.url())),
            StatusCode::NOT_FOUND if in_session => Err(ClientError::SessionExpired),
            status => {
                let body = read(response).await.unwrap_or_default();
                let body: String = String::from_utf8_lossy(&body)
                    .trim()
                    .chars()
                    .take(ERROR_BODY_CHARS)
                    .collect();
                Err(ClientError::Status {
                    url: self.url(),
                    status,
                    body,
                })
            }
        }
    }

    /// Sends a POST request and reads the whole response.
    pub(crate) async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), ClientError> {
        let response = self.send(Method::POST, headers, body).await?;
        let headers = response.headers().clone();
        let body = read(response)
            .await
            .map_err(|reason| ClientError::Unreachable {
                url: self.url(),
                reason,
            })?;
        Ok((headers, body))
    }
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let whole = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect();
    match tokio::time::timeout(RESPONSE_TIMEOUT, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err("the answer did not end in time".to_owned()),
    }
}

/// Whether the answer was not one of HTTP.
fn not_http(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_parse)
}

/// The text of the innermost error: the layers above it only say where it happened.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn urls_are_read_as_people_write_them() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/mcp"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/mcp"),
            ("http://crier.example/a/mcp", "http://crier.example/a/mcp"),
        ] {
            assert_eq!(Endpoint::new(text, None).unwrap().url(), expected);
        }
        for text in ["", "127.0.0.1:8080", "localhost", "ftp://x/mcp", "http://"] {
            let error = Endpoint::new(text, None).unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8080/mcp"), "{error}");
        }
        let error = Endpoint::new("http://x", Some("a\nb")).unwrap_err();
        assert!(matches!(error, ClientError::InvalidToken));
    }

    #[tokio::test]
    async fn an_unreachable_server_is_reported_with_its_url() {
        let endpoint = Endpoint::new("http://127.0.0.1:1", None).unwrap();
        let error = (endpoint.post(HeaderMap::new(), Bytes::new()).await).unwrap_err();
        assert!(error.is_transient());
        let text = error.to_string();
        assert!(
            text.starts_with("cannot reach http://127.0.0.1:1/mcp: "),
            "{text}"
        );
        assert!(text.contains("refused"), "{text}");
    }
}
