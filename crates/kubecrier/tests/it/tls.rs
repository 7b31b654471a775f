//! HTTPS: `watch` and `doctor` over the server's own certificate, and its renewal.

use std::{fs, path::PathBuf, process::Output, sync::Arc};

use tempfile::TempDir;
use testbed::{Authority, Issued, User, Validity};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::harness::{Http, Server, Watch, command, one_context};

/// An authority, and a server with a certificate of it.
struct Secured {
    server: Server,
    address: String,
    dir: TempDir,
    authority: Authority,
}

impl Secured {
    fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("ours").unwrap();
        let issued = authority.server("crier", Validity::Current).unwrap();
        write(&dir, &issued);
        trust(&dir, &authority);
        let mut command = command();
        command.current_dir(&dir).args(arguments);
        command.args(["--tls-cert", "tls.crt", "--tls-key", "tls.key"]);
        let (server, base) = Http::launch(&mut command);
        let address = base.strip_prefix("https://").unwrap().to_owned();
        Self {
            server,
            address,
            dir,
            authority,
        }
    }

    fn url(&self) -> String {
        format!("https://{}/mcp", self.address)
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Sends a request over TLS, with this head; the whole answer.
    async fn ask(&self, head: &str) -> String {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap();
        roots.add(trusted).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let request = format!("{head}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

fn write(dir: &TempDir, issued: &Issued) {
    for (name, text) in [("tls.crt", &issued.certificate), ("tls.key", &issued.key)] {
        let next = dir.path().join("next");
        fs::write(&next, text).unwrap();
        fs::rename(&next, dir.path().join(name)).unwrap();
    }
}

fn trust(dir: &TempDir, authority: &Authority) {
    fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
}

async fn doctor(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command();
    command.arg("doctor").args(arguments);
    let running = tokio::process::Command::from(command).output();
    let Output {
        status,
        stdout,
        stderr,
    } = running.await.unwrap();
    let text = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code(), text)
}

#[tokio::test]
async fn a_certificate_serves_clients_that_trust_it() {
    let secured = Secured::start(&[]);
    let (url, ca) = (secured.url(), secured.ca());
    let ca = ca.to_str().unwrap();
    let (code, report) = doctor(&["--url", &url, "--certificate-authority", ca]).await;
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("pushes arrive"), "{report}");
    let plain = url.replace("https://", "http://");
    let (code, report) = doctor(&["--url", &plain]).await;
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains("write https://"), "{report}");
    // The checks behind TLS are those without.
    let host = format!("Host: {}", secured.address);
    let healthy = secured
        .ask(&format!("GET /healthz HTTP/1.1\r\n{host}"))
        .await;
    assert!(healthy.starts_with("HTTP/1.1 200"), "{healthy}");
    for head in [
        "GET /stats HTTP/1.1\r\nHost: evil.example".to_owned(),
        format!("GET /stats HTTP/1.1\r\n{host}\r\nOrigin: https://evil.example"),
    ] {
        let refused = secured.ask(&head).await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let Some(bed) = testbed::shared() else { return };
    let file = one_context(bed.dev(), User::Reader);
    let mut secured = Secured::start(&["--kubeconfig", file.path.to_str().unwrap()]);
    let (url, ca) = (secured.url(), secured.ca());
    let trusting = [
        "--url",
        &url,
        "--certificate-authority",
        ca.to_str().unwrap(),
    ];
    // Connections stay through a renewal.
    let watch = [&["watch", "-A"][..], &trusting].concat();
    let mut watch = Watch::start(command().args(watch));
    let next = Authority::new("next").unwrap();
    let renewed = next.server("crier", Validity::Current).unwrap();
    // Only the certificate is there yet: the one of before is served.
    fs::write(secured.dir.path().join("tls.crt"), &renewed.certificate).unwrap();
    let line = secured.server.wait_for("cannot be renewed");
    assert!(line.contains("ERROR") && line.contains("tls.key"), "{line}");
    let (code, report) = doctor(&trusting).await;
    assert_eq!(code, Some(0), "{report}");
    write(&secured.dir, &renewed);
    secured.server.wait_for("certificate renewed");
    let (code, report) = doctor(&trusting).await;
    assert_eq!(code, Some(1), "{report}");
    trust(&secured.dir, &next);
    let (code, report) = doctor(&trusting).await;
    assert_eq!(code, Some(0), "{report}");
    assert!(watch.server.is_running());
    assert!(secured.server.is_running());
    assert!(!secured.server.log().contains("PRIVATE"));
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (
        Authority::new("one").unwrap(),
        Authority::new("other").unwrap(),
    );
    let issued = one.server("crier", Validity::Current).unwrap();
    let another = other.server("crier", Validity::Current).unwrap();
    write(
        &dir,
        &Issued {
            certificate: issued.certificate,
            key: another.key,
        },
    );
    let run = |arguments: &[&str]| {
        let mut command = command();
        command.current_dir(&dir).args(["--port", "0"]);
        let done = command.args(arguments).output().unwrap();
        let text = String::from_utf8(done.stderr).unwrap();
        assert!(!text.contains("PRIVATE"), "{text}");
        (done.status.code(), text)
    };
    let (code, text) = run(&["--tls-cert", "tls.crt", "--tls-key", "tls.key"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("does not fit"), "{text}");
    let (code, text) = run(&["--tls-cert", "tls.crt", "--tls-key", "none.key"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("none.key"), "{text}");
    let (code, text) = run(&["--tls-cert", "tls.crt"]);
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("tls-key"), "{text}");
}
