//! Whom to believe over TLS: the authorities of the system, or those in a file.

use std::{error::Error as StdError, io, path::Path, sync::Arc};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::wire::WireError;

/// Connects over TLS. Without a file, the system's authorities are believed, or those
/// that SSL_CERT_FILE and SSL_CERT_DIR name.
pub(super) fn connector(
    url: &str,
    authority: Option<&Path>,
) -> Result<HttpsConnector<HttpConnector>, WireError> {
    let builder = HttpsConnectorBuilder::new();
    let builder = match authority {
        Some(path) => builder.with_tls_config(believing(path)?),
        None => builder
            .with_native_roots()
            .map_err(|error| WireError::Unreachable {
                url: url.to_owned(),
                reason: format!(
                    "the system has no certificates to trust: {error}\n\
                     hint: name those to trust with --certificate-authority FILE"
                ),
            })?,
    };
    Ok(builder.https_only().enable_http1().build())
}

/// Only the authorities in the file, as kubectl takes the flag of that name.
fn believing(path: &Path) -> Result<ClientConfig, WireError> {
    let refuse = |reason: String| WireError::Authority {
        path: path.display().to_string(),
        reason,
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
    for certificate in certificates {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|one| roots.add(one).map_err(|error| error.to_string()));
        added.map_err(refuse)?;
    }
    if roots.is_empty() {
        return Err(refuse("there is no certificate in it (PEM)".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// What to do about a failure of TLS, if it is one.
pub(super) fn advice(error: &(dyn StdError + 'static), authority: Option<&Path>) -> Option<String> {
    let failure = failure(error)?;
    // One that was made anew under the same name is told by its signature only.
    let stranger = matches!(
        failure,
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        )
    );
    match (failure, authority) {
        (_, Some(path)) if stranger => Some(format!(
            "its certificate is not signed by an authority in `{}` (--certificate-authority)",
            path.display()
        )),
        (_, None) if stranger => Some(
            "this system does not know who signed its certificate: name the file with that \
             authority (PEM) with --certificate-authority FILE"
                .to_owned(),
        ),
        (rustls::Error::InvalidMessage(_), _) => Some(
            "what is there does not speak TLS: write http://, as kubecrier itself does, or the \
             address of the proxy in front of it"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The failure of TLS under an error. Errors of I/O wrap others that are not their
/// sources.
fn failure<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => failure(wrapped),
        None => failure(error.source()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_tls_is_found_under_what_wraps_it() {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, unknown));
        let advice = |path| advice(&wrapped, path).unwrap();
        assert!(advice(None).contains("--certificate-authority FILE"));
        assert!(advice(Some(Path::new("/a/ca.pem"))).contains("`/a/ca.pem`"));
        assert_eq!(super::advice(&io::Error::other("no"), None), None);
    }
}
