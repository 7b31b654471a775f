//! Connections to a target. Each address is checked after DNS, right before it is connected to.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    vec,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use tower_service::Service;

use super::{place, root_cause};
use crate::{
    address::{AllowedAddresses, InternalAddress},
    delivery::DeliveryError,
};

/// The connections to one target, kept for the next message.
#[derive(Debug)]
pub(super) struct Connections {
    allowed: Arc<AllowedAddresses>,
    ca_file: Option<PathBuf>,
    /// With what is in the file of authorities, which may change. Held to look, not to connect.
    client: Mutex<Option<(Vec<u8>, TlsClient)>>,
    plain: PlainClient,
}

type Connector = HttpConnector<CheckedResolver>;
type PlainClient = Client<Connector, Full<Bytes>>;
type TlsClient = Client<HttpsConnector<Connector>, Full<Bytes>>;

/// Resolves names to addresses that may be connected to.
#[derive(Clone, Debug)]
struct CheckedResolver {
    allowed: Arc<AllowedAddresses>,
}

/// Why a name has no address.
#[derive(Debug, thiserror::Error)]
enum ResolveError {
    #[error(transparent)]
    Internal(#[from] InternalAddress),
    #[error("its name cannot be resolved: {0}")]
    Dns(#[from] io::Error),
    #[error("its name has no address")]
    None,
}

// === impl Connections ===

impl Connections {
    pub(super) fn new(allowed: AllowedAddresses, ca_file: Option<PathBuf>) -> Self {
        let allowed = Arc::new(allowed);
        Self {
            plain: client().build(connector(&allowed)),
            allowed,
            ca_file,
            client: Mutex::new(None),
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, DeliveryError> {
        let url = request.uri().clone();
        let host = url.host().unwrap_or_default();
        // Names are checked once they are resolved; an address is not resolved.
        let checked = self.allowed.check_literal(host);
        checked.map_err(|error| DeliveryError::unavailable(error.to_string()))?;
        let answer = if url.scheme_str() == Some("https") {
            let client = self.tls_client().await?;
            client.request(request).await
        } else {
            self.plain.request(request).await
        };
        answer.map_err(|error| {
            let cause = root_cause(&error);
            let hint = match (url.scheme_str(), &self.ca_file) {
                (Some("https"), None) if cause.contains("UnknownIssuer") => {
                    "; name the authority that signed its certificate with ca_file"
                }
                _ => "",
            };
            DeliveryError::unavailable(format!("cannot reach {}: {cause}{hint}", place(&url)))
        })
    }

    /// The client for the authorities of now.
    async fn tls_client(&self) -> Result<TlsClient, DeliveryError> {
        let unusable = |reason: String| DeliveryError::refused(reason);
        let pem = match &self.ca_file {
            None => Vec::new(),
            Some(path) => tokio::fs::read(path).await.map_err(|error| {
                unusable(format!("cannot read ca_file `{}`: {error}", path.display()))
            })?,
        };
        if let Some((of, client)) = &*self.client.lock()
            && *of == pem
        {
            return Ok(client.clone());
        }
        let builder = HttpsConnectorBuilder::new();
        let builder = match &self.ca_file {
            Some(path) => builder.with_tls_config(trusting(path, &pem).map_err(unusable)?),
            None => builder.with_native_roots().map_err(|error| {
                unusable(format!(
                    "the system has no certificates to trust: {error}; name some with ca_file"
                ))
            })?,
        };
        let connector = builder
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector(&self.allowed));
        let made: TlsClient = client().build(connector);
        *self.client.lock() = Some((pem, made.clone()));
        Ok(made)
    }
}

fn client() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(1);
    builder
}

fn connector(allowed: &Arc<AllowedAddresses>) -> Connector {
    let mut connector = HttpConnector::new_with_resolver(CheckedResolver {
        allowed: Arc::clone(allowed),
    });
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector
}

/// Trusts only the authorities in the file.
fn trusting(path: &Path, pem: &[u8]) -> Result<ClientConfig, String> {
    let path = path.display();
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|one| roots.add(one).map_err(|error| error.to_string()));
        added.map_err(|error| format!("in ca_file `{path}`: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("there is no certificate in ca_file `{path}` (PEM)"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

// === impl CheckedResolver ===

impl CheckedResolver {
    /// The addresses of a host that may be connected to.
    async fn resolve(self, host: String) -> Result<vec::IntoIter<SocketAddr>, ResolveError> {
        let mut refused = None;
        let mut addresses = Vec::new();
        for address in tokio::net::lookup_host((&*host, 0)).await? {
            match self.allowed.check(&host, address.ip()) {
                Ok(()) => addresses.push(address),
                Err(error) => refused = Some(error),
            }
        }
        match (addresses.is_empty(), refused) {
            (false, _) => Ok(addresses.into_iter()),
            (true, Some(error)) => Err(error.into()),
            (true, None) => Err(ResolveError::None),
        }
    }
}

impl Service<Name> for CheckedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, host: Name) -> Self::Future {
        Box::pin(self.clone().resolve(host.as_str().to_owned()))
    }
}
