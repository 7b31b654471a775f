//! TLS: a certificate and its key, read again when they are renewed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

use super::file_poll::{Contents, FilePoll};

/// A client that takes longer is not on its way.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// The files of a server certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and then those that lead to its authority (PEM).
    pub certificate: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
}

/// The certificate that new connections get.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    // A lock because a renewal replaces what every connection reads; held to copy a pointer.
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// There is no certificate in the file, or a broken one.
    #[error("there is no certificate in `{}` (--tls-cert): {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no private key in the file, or a broken one.
    #[error("there is no private key in `{}` (--tls-key): {reason}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The two cannot be used together.
    #[error(
        "the key `{}` (--tls-key) does not fit the certificate `{}` (--tls-cert): {source}",
        files.key.display(), files.certificate.display()
    )]
    Pair {
        /// Both files.
        files: TlsFiles,
        /// The reason.
        source: rustls::Error,
    },
}

// === impl TlsFiles ===

impl TlsFiles {
    /// Checks whether a server could use the files.
    pub fn check(&self) -> Result<(), TlsFileError> {
        Certificate::read(self).map(drop)
    }

    fn config(&self, contents: Contents) -> Result<Arc<ServerConfig>, TlsFileError> {
        let mut contents = contents.into_iter();
        let mut next = |path: &Path| {
            let missing = || Err(io::ErrorKind::NotFound.into());
            let content = contents.next().unwrap_or_else(missing);
            content.map_err(|source| TlsFileError::Read {
                path: path.to_owned(),
                source,
            })
        };
        let (chain, key) = (next(&self.certificate)?, next(&self.key)?);
        let broken = |reason: String| TlsFileError::Certificate {
            path: self.certificate.clone(),
            reason,
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
        let chain = chain.map_err(|error| broken(error.to_string()))?;
        if chain.is_empty() {
            return Err(broken("it has no PEM section of that kind".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| TlsFileError::Key {
            path: self.key.clone(),
            reason: error.to_string(),
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = builder
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|source| TlsFileError::Pair {
            files: self.clone(),
            source,
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

// === impl Certificate ===

impl Certificate {
    /// Reads the files for the first time.
    pub(crate) fn read(files: &TlsFiles) -> Result<(Self, FilePoll), TlsFileError> {
        let (poll, contents) = FilePoll::open(&[&files.certificate, &files.key]);
        let current = Arc::new(RwLock::new(files.config(contents)?));
        let files = files.clone();
        Ok((Self { files, current }, poll))
    }

    /// Takes renewed files. Broken ones are reported, and the certificate of before stays:
    /// it may be valid for weeks.
    pub(crate) fn replace(&self, contents: Contents) {
        let file = self.files.certificate.display();
        match self.files.config(contents) {
            Ok(config) => {
                *self.current.write() = config;
                tracing::info!(%file, "certificate renewed");
            }
            Err(error) => tracing::error!(
                %error,
                "the certificate cannot be renewed: new connections get the one of before"
            ),
        }
    }

    /// Makes a TLS stream of a connection.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.read()));
        match tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
            Ok(accepted) => accepted,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests;
