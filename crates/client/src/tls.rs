//! Trust over TLS: the certificate authorities of the system, or those in a file.

use std::{error::Error as StdError, io, path::Path, sync::Arc};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::ClientError;

/// A connector that trusts the authorities in the file. Without a file it trusts the
/// system's, or those that SSL_CERT_FILE and SSL_CERT_DIR name.
pub(crate) fn connector(
    url: &str,
    certificate_authority: Option<&Path>,
) -> Result<HttpsConnector<HttpConnector>, ClientError> {
    let builder = HttpsConnectorBuilder::new();
    let builder = match certificate_authority {
        Some(path) => builder.with_tls_config(client_config(path)?),
        None => builder
            .with_native_roots()
            .map_err(|error| ClientError::Unreachable {
                url: url.to_owned(),
                reason: format!(
                    "the system has no certificates to trust: {error}\n\
                     hint: name those to trust with --certificate-authority FILE"
                ),
            })?,
    };
    Ok(builder.https_only().enable_http1().build())
}

/// Trusts only the authorities in the file, as kubectl does with the flag of that name.
fn client_config(path: &Path) -> Result<ClientConfig, ClientError> {
    let refuse = |reason: String| ClientError::CertificateAuthority {
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

/// What to do about an error, if it is one of TLS.
pub(crate) fn hint(
    error: &(dyn StdError + 'static),
    certificate_authority: Option<&Path>,
) -> Option<String> {
    let error = tls_error(error)?;
    // An authority that was made anew under the same name differs by its signature only.
    let untrusted = matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        )
    );
    match (error, certificate_authority) {
        (_, Some(path)) if untrusted => Some(format!(
            "its certificate is not signed by an authority in `{}` (--certificate-authority)",
            path.display()
        )),
        (_, None) if untrusted => Some(
            "this system does not know who signed its certificate: name the file with that \
             authority (PEM) with --certificate-authority FILE"
                .to_owned(),
        ),
        (rustls::Error::InvalidMessage(_), _) => Some(
            "what is there does not speak TLS: write http://, give the server a certificate \
             (--tls-cert), or write the address of the proxy in front of it"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The TLS error inside another error. I/O errors wrap errors that are not their
/// sources.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => tls_error(wrapped),
        None => tls_error(error.source()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tls_error_is_found_inside_what_wraps_it() {
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, unknown));
        let hinted = |path| hint(&wrapped, path).unwrap();
        assert!(hinted(None).contains("--certificate-authority FILE"));
        assert!(hinted(Some(Path::new("/a/ca.pem"))).contains("`/a/ca.pem`"));
        assert_eq!(hint(&io::Error::other("no"), None), None);
    }
}
