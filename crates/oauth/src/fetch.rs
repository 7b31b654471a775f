//! Requests to issuers: within a deadline, answers to a limit, and no redirects, because the
//! answer of another host is not the issuer's.

use std::{
    error::Error as StdError,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// An issuer that takes longer is away.
const DEADLINE: Duration = Duration::from_secs(5);

/// Keys and metadata of the largest issuers are a tenth of it.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// An API server gives its keys only to who accepts their own media type.
const ACCEPTED: &str = "application/json, application/jwk-set+json, */*;q=0.1";

const AGENT: &str = concat!("kubecrier/", env!("CARGO_PKG_VERSION"));

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Sends requests to issuers.
#[derive(Debug)]
pub(crate) struct Fetcher {
    ca_file: Option<PathBuf>,
    /// With what is in the file of authorities, which may change. Held to look, not to connect.
    client: Mutex<Option<(Vec<u8>, HttpClient)>>,
}

/// Why an issuer gave no answer that can be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// It cannot be connected to.
    #[error("cannot reach {origin}: {cause}")]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        cause: String,
    },
    /// It takes too long.
    #[error("{origin} did not answer within 5 s")]
    Timeout {
        /// Scheme, host and port.
        origin: String,
    },
    /// It answers with an error.
    #[error("{url} answers with {status}")]
    Status {
        /// What was asked.
        url: String,
        /// The status.
        status: StatusCode,
    },
    /// Its answer is not what it has to be.
    #[error("the answer of {url} {why}")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The authorities that sign certificates, or a secret, cannot be read.
    #[error("{0}")]
    File(String),
}

// === impl Fetcher ===

impl Fetcher {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self {
            ca_file,
            client: Mutex::new(None),
        }
    }

    pub(crate) async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = url.clone();
        self.send(request).await
    }

    /// Posts a form with the credentials of this server.
    pub(crate) async fn post_form(
        &self,
        url: &Uri,
        authorization: HeaderValue,
        form: String,
    ) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Full::new(Bytes::from(form)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, authorization);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        self.send(request).await
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
        let url = request.uri().clone();
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        let exchange = async {
            let client = self.client().await?;
            let unreachable = |cause: String| FetchError::Unreachable {
                origin: origin(&url),
                cause,
            };
            let answer = client.request(request).await.map_err(|error| {
                let cause = root_cause(&error);
                let hint = if self.ca_file.is_none() && cause.contains("UnknownIssuer") {
                    "; name the authority that signed its certificate with --oauth-ca-file"
                } else {
                    ""
                };
                unreachable(format!("{cause}{hint}"))
            })?;
            let status = answer.status();
            if status.is_redirection() {
                return Err(FetchError::Answer {
                    url: url.to_string(),
                    why: format!("is a redirect ({status}), which is not followed"),
                });
            }
            if status != StatusCode::OK {
                let url = url.to_string();
                return Err(FetchError::Status { url, status });
            }
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
            let body = body.collect().await.map_err(|error| {
                let cause = root_cause(&*error);
                unreachable(format!("its answer breaks off: {cause}"))
            })?;
            Ok(body.to_bytes())
        };
        match tokio::time::timeout(DEADLINE, exchange).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(FetchError::Timeout {
                origin: origin(&url),
            }),
        }
    }

    /// The client for the authorities of now.
    async fn client(&self) -> Result<HttpClient, FetchError> {
        let pem = match &self.ca_file {
            None => Vec::new(),
            Some(path) => tokio::fs::read(path).await.map_err(|error| {
                let path = path.display();
                FetchError::File(format!("cannot read --oauth-ca-file `{path}`: {error}"))
            })?,
        };
        if let Some((of, client)) = &*self.client.lock()
            && *of == pem
        {
            return Ok(client.clone());
        }
        let builder = HttpsConnectorBuilder::new();
        let builder = match &self.ca_file {
            Some(path) => builder.with_tls_config(trusting(path, &pem)?),
            None => builder.with_native_roots().map_err(|error| {
                FetchError::File(format!(
                    "the system has no certificates to trust: {error}; name some with --oauth-ca-file"
                ))
            })?,
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        let connector = builder
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let mut client = Client::builder(TokioExecutor::new());
        client
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(2);
        let client: HttpClient = client.build(connector);
        *self.client.lock() = Some((pem, client.clone()));
        Ok(client)
    }
}

/// Trusts only the authorities in the file.
fn trusting(path: &Path, pem: &[u8]) -> Result<ClientConfig, FetchError> {
    let wrong = |error: String| {
        let path = path.display();
        FetchError::File(format!("in --oauth-ca-file `{path}`: {error}"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|one| roots.add(one).map_err(|error| error.to_string()));
        added.map_err(wrong)?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate (PEM)".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Scheme, host and port.
pub(crate) fn origin(url: &Uri) -> String {
    let host = url.authority().map_or("", |host| host.as_str());
    format!("{}://{host}", url.scheme_str().unwrap_or_default())
}

/// The text of the innermost error: the layers above it only say where it happened.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}
