use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;
use crate::{address::AllowedAddresses, secret::SecretSource};

/// Answers one request after the other with the same bytes, and returns what it was sent.
#[expect(clippy::disallowed_methods, reason = "the test ends the task itself")]
async fn server(answer: impl Into<Vec<u8>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = answer.into();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let number = stream.read(&mut buffer).await.unwrap();
            request.extend_from_slice(&buffer[..number]);
            if number == 0 || request.ends_with(b"the end") || request.starts_with(b"GET") {
                break;
            }
        }
        // The client may have read enough before the end.
        let _cut = stream.write_all(&answer).await;
        String::from_utf8_lossy(&request).into_owned()
    });
    (address, task)
}

fn target(url: &str, allowed: &[&str]) -> HttpTarget {
    let allowed: Vec<_> = allowed.iter().map(|&one| one.to_owned()).collect();
    HttpTarget {
        url: TargetUrl::Known(TargetUrl::parse(url).unwrap()),
        credentials: None,
        signing_secrets: None,
        ca_file: None,
        allowed: AllowedAddresses::new(&allowed).unwrap(),
    }
}

fn client(target: HttpTarget) -> HttpClient {
    HttpClient::new(target, Duration::from_secs(20), Redactor::default())
}

fn message() -> Message {
    Message {
        id: "i-web.opened.1".to_owned(),
        headers: HeaderMap::new(),
        body: b"the end".to_vec(),
    }
}

fn answer(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn post(head: &str, body: &str) -> Result<Answer, DeliveryError> {
    let (address, _served) = server(answer(head, body)).await;
    let target = target(&format!("http://{address}/hook"), &["127.0.0.1"]);
    client(target).post("", message()).await
}

#[tokio::test]
async fn the_status_says_whether_a_message_is_tried_again() {
    assert!(post("202 Accepted", "").await.is_ok());
    for (head, part) in [
        (
            "400 Bad Request",
            "does not take the message (400 Bad Request): nope password=",
        ),
        ("413 Content Too Large", "does not take the message"),
    ] {
        let rejected = post(head, "nope\n password=hunter2-verysecret").await;
        let Err(DeliveryError::Rejected { reason }) = rejected else {
            panic!("{head}: {rejected:?}")
        };
        assert!(reason.contains(part), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
    }
    for (head, part) in [
        (
            "401 Unauthorized",
            "wants credentials, and none are configured (401",
        ),
        ("403 Forbidden", "wants credentials"),
        ("404 Not Found", "nothing takes messages at this URL (404"),
        (
            "302 Found\r\nlocation: http://169.254.169.254/latest/?token=s3cret",
            "redirects to http://169.254.169.254 (302",
        ),
        (
            "308 Permanent Redirect\r\nlocation: /other",
            "it redirects to this host (308",
        ),
    ] {
        let refused = post(head, "").await;
        let Err(DeliveryError::Refused { reason }) = refused else {
            panic!("{head}: {refused:?}")
        };
        assert!(reason.contains(part), "{reason}");
        assert!(!reason.contains("s3cret"), "{reason}");
    }
    for (head, seconds) in [
        ("429 Too Many Requests\r\nretry-after: 7", Some(7)),
        ("503 Service Unavailable\r\nretry-after: 99999", Some(300)),
        ("503 Service Unavailable\r\nretry-after: soon", None),
        ("500 Internal Server Error", None),
    ] {
        let Err(DeliveryError::Unavailable { retry_after, .. }) = post(head, "").await else {
            panic!("{head}")
        };
        assert_eq!(retry_after.map(|delay| delay.as_secs()), seconds, "{head}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut() {
    let mut long = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    long.resize(10 << 20, b'x');
    let (address, _served) = server(long).await;
    let client = client(target(&format!("http://{address}"), &["127.0.0.1"]));
    let error = client.post("", message()).await.unwrap_err().to_string();
    assert!(error.len() < 400, "{}", error.len());
    let (address, _served) = server(answer("200 OK", &"x".repeat(10 << 20))).await;
    let client = self::client(target(&format!("http://{address}"), &["127.0.0.1"]));
    let body = client.ask(Method::GET, "").await.unwrap().body;
    assert_eq!(body.len(), ANSWER_BYTES_MAX);
}

#[tokio::test]
async fn internal_addresses_need_to_be_allowed_also_behind_a_name() {
    let (address, _served) = server(answer("200 OK", "")).await;
    let by_name = format!("http://localhost:{}/", address.port());
    for (url, allowed, flag) in [
        (
            &*format!("http://{address}/"),
            &[][..],
            "--sink-allow 127.0.0.1",
        ),
        (&by_name, &["127.0.0.2"], "--sink-allow localhost"),
        // Another spelling of 127.0.0.1, which only the system's resolver takes for an address.
        (
            &format!("http://2130706433:{}/", address.port()),
            &[],
            "--sink-allow 2130706433",
        ),
        (
            "http://169.254.169.254/",
            &[],
            "--sink-allow 169.254.169.254",
        ),
        ("http://[::ffff:169.254.169.254]/", &[], "internal address"),
        ("https://[::1]/", &[], "--sink-allow ::1"),
    ] {
        let client = client(target(url, allowed));
        let error = client.post("", message()).await.unwrap_err();
        assert!(
            matches!(error, DeliveryError::Unavailable { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(flag), "{url}: {error}");
    }
    let allowed = client(target(&by_name, &["localhost"]));
    allowed.post("", message()).await.unwrap();
}

#[tokio::test]
async fn requests_are_signed_and_have_credentials_and_neither_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        SecretSource::File(path)
    };
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let (address, served) = server(answer("200 OK", "")).await;
    let one = client(HttpTarget {
        credentials: Some(Credentials::Basic {
            user: "crier".to_owned(),
            password: file("password", "hunter2\n"),
        }),
        signing_secrets: Some(file("signing", secret)),
        ..target(&format!("http://{address}/prefix/"), &["127.0.0.0/8"])
    });
    one.post("/api/v2/alerts", message()).await.unwrap();
    let request = served.await.unwrap().to_lowercase();
    for expected in [
        "post /prefix/api/v2/alerts http/1.1",
        "authorization: basic y3jpzxi6ahvudgvymg==",
        "webhook-id: i-web.opened.1",
        "webhook-signature: v1,",
        "user-agent: kubecrier/",
    ] {
        assert!(request.contains(expected), "{expected} in {request}");
    }
    let shown = format!("{one:?}");
    assert!(
        !shown.contains("hunter2") && !shown.contains(secret),
        "{shown}"
    );
    let (address, served) = server(answer("200 OK", "")).await;
    let one = client(HttpTarget {
        url: TargetUrl::Secret(file("url", &format!("http://{address}/T0/s3cret?a=b"))),
        credentials: Some(Credentials::Bearer(file("token", "abc"))),
        ..target("http://unused.example", &["127.0.0.1"])
    });
    one.post("", message()).await.unwrap();
    let request = served.await.unwrap();
    assert!(
        request.starts_with("POST /T0/s3cret?a=b HTTP/1.1"),
        "{request}"
    );
    assert!(request.contains("authorization: Bearer abc"), "{request}");
    let broken = client(HttpTarget {
        url: TargetUrl::Secret(file("no-url", "ftp://s3cret")),
        ..target("http://unused.example", &[])
    });
    let error = broken.post("", message()).await.unwrap_err().to_string();
    assert!(error.contains("no-url`: it must be a URL"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_reached_is_named_without_its_path() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/T0/s3cret");
    let client = client(target(&url, &["127.0.0.1"]));
    let error = client.post("", message()).await.unwrap_err();
    assert!(matches!(error, DeliveryError::Unavailable { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot reach http://{address}: ")),
        "{text}"
    );
    assert!(!text.contains("s3cret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_answer_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = client(target(&url, &["127.0.0.1"]));
    let error = client.post("", message()).await.unwrap_err().to_string();
    assert!(error.contains("did not answer within 20 s"), "{error}");
}

#[test]
fn a_url_has_a_scheme_and_a_host_and_no_password() {
    for good in ["http://a", "https://a.b:9093/prefix?x=y", "http://[::1]:80"] {
        assert!(TargetUrl::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a",
        "a:9093",
        "ftp://a",
        "http://",
        "http:///x",
        "/x",
        "http://a b",
    ] {
        assert!(TargetUrl::parse(bad).is_err(), "{bad}");
    }
    let error = TargetUrl::parse("https://user:hunter2@a").unwrap_err();
    assert!(error.to_string().contains("basic_auth_password_file"));
}
