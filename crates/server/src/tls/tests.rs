use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
        pki_types::ServerName, version::TLS12, version::TLS13,
    },
};

use super::*;

/// A certificate for `localhost`, and its key, as PEM.
fn pair() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

fn files(dir: &Path, (certificate, key): &(String, String)) -> TlsFiles {
    let files = TlsFiles {
        certificate: dir.join("tls.crt"),
        key: dir.join("tls.key"),
    };
    fs::write(&files.certificate, certificate).unwrap();
    fs::write(&files.key, key).unwrap();
    files
}

/// Whether a client that trusts only this certificate gets through, and what was agreed on.
async fn connects(
    certificate: &Certificate,
    trusted: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Option<(ProtocolVersion, Vec<u8>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = certificate.accept(stream).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await
    };
    let client = async {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap();
        roots.add(trusted).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        assert_eq!(text, "hello");
        let (_, connection) = stream.get_ref();
        let agreed = connection.alpn_protocol().unwrap_or_default().to_vec();
        Some((connection.protocol_version()?, agreed))
    };
    let (_served, connected) = tokio::join!(server, client);
    connected
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken_and_http_1_1_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let pair = pair();
    let (certificate, _) = Certificate::read(&files(dir.path(), &pair)).unwrap();
    for (version, name) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let agreed = connects(&certificate, &pair.0, &[version]).await;
        assert_eq!(agreed, Some((name, b"http/1.1".to_vec())));
    }
}

#[tokio::test]
async fn renewed_files_count_and_broken_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (pair(), pair());
    let (certificate, mut poll) = Certificate::read(&files(dir.path(), &old)).unwrap();
    let gets = async |pair: &(String, String)| {
        let connected = connects(&certificate, &pair.0, &[&TLS13]).await;
        connected.is_some()
    };
    assert!(gets(&old).await && !gets(&new).await);
    let mut renew = |certificate: &Certificate, pair: &(String, String)| {
        files(dir.path(), pair);
        assert!(poll.poll().is_none());
        certificate.replace(poll.poll().unwrap());
    };
    // The certificate is there and the key is not yet.
    renew(&certificate, &(new.0.clone(), old.1.clone()));
    assert!(gets(&old).await && !gets(&new).await);
    renew(&certificate, &new);
    assert!(gets(&new).await && !gets(&old).await);
    renew(&certificate, &(String::new(), String::new()));
    assert!(gets(&new).await);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, _) = Certificate::read(&files(dir.path(), &pair())).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let error = certificate.accept(stream).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn files_that_cannot_be_used_are_named_without_their_content() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (pair(), pair());
    let check = |pair: (&str, &str), part: &str| {
        let pair = (pair.0.to_owned(), pair.1.to_owned());
        let error = files(dir.path(), &pair).check().unwrap_err().to_string();
        assert!(error.contains(part), "{part} in {error}");
        assert!(!error.contains("PRIVATE"), "{error}");
    };
    check(("", &one.1), "no certificate in");
    check(("nonsense", &one.1), "tls.crt");
    check((&one.0, ""), "no private key in");
    check((&one.0, &one.0), "tls.key");
    check((&one.0, &other.1), "does not fit");
    files(dir.path(), &one).check().unwrap();
    fs::remove_file(dir.path().join("tls.key")).unwrap();
    let files = TlsFiles {
        certificate: dir.path().join("tls.crt"),
        key: dir.path().join("tls.key"),
    };
    let error = files.check().unwrap_err().to_string();
    assert!(
        error.contains("cannot read") && error.contains("tls.key"),
        "{error}"
    );
}
