//! `kubecrier watch` and `doctor --url` over connections that break, and over TLS.

use std::{path::PathBuf, process::Output, time::Duration};

use serde_json::Value;
use tempfile::TempDir;
use testbed::{Authority, User, Validity, event, namespace};

use crate::harness::{Demo, Http, Proxy, Watch, command, one_context};

/// An authority, and its file.
struct Trust {
    authority: Authority,
    dir: TempDir,
}

impl Trust {
    fn new(name: &str) -> Self {
        let trust = Self {
            authority: Authority::new(name).unwrap(),
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(trust.file(), trust.authority.pem()).unwrap();
        trust
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A proxy with a certificate of this authority.
    async fn in_front_of(&self, url: &str, when: Validity) -> (Proxy, String) {
        let issued = self.authority.server("proxy", when).unwrap();
        let proxy = Proxy::start_tls(url, &issued).await;
        let url = format!("https://{}/mcp", proxy.address);
        (proxy, url)
    }
}

async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = command();
    command.args(arguments).envs(environment.iter().copied());
    let running = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output();
    tokio::time::timeout(Duration::from_mins(1), running)
        .await
        .expect("it ends by itself")
        .unwrap()
}

fn output(done: &Output) -> String {
    let bytes = [&done.stdout[..], &done.stderr[..]].concat();
    String::from_utf8(bytes).unwrap()
}

/// Messages in flight when the connection broke are delivered after the reconnect, once,
/// and so are those from the time in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_goes_on_where_it_broke() {
    let Some(bed) = testbed::shared() else { return };
    let space = "watch-broken";
    bed.dev()
        .create_cluster_wide(&namespace(space))
        .await
        .unwrap();
    let happen = async |reason: &str| {
        let new_event = event(space, "ConfigMap/settings", "Warning", reason, "look");
        bed.dev().create(&new_event).await.unwrap();
    };
    let file = one_context(bed.dev(), User::Reader);
    let http = Http::start(&file.path, &[]).await;
    let proxy = Proxy::start(&http.base).await;
    let url = format!("http://{}", proxy.address);
    let mut watch =
        Watch::start(command().args(["watch", "-n", space, "--url", &url, "-o", "json"]));
    happen("First").await;
    assert_eq!(watch.json()["event"]["reason"], "First");
    proxy.swallow();
    happen("Lost").await;
    proxy.until_swallowed("\"Lost\"").await;
    proxy.cut();
    watch.server.wait_for("trying again");
    happen("Meanwhile").await;
    proxy.mend();
    watch.server.wait_for("going on where the stream broke");
    happen("Last").await;
    let received: Vec<Value> = (0..3).map(|_| watch.json()).collect();
    let reasons: Vec<_> = received.iter().map(|one| &one["event"]["reason"]).collect();
    assert_eq!(
        reasons,
        ["Lost", "Meanwhile", "Last"],
        "{}",
        watch.server.log()
    );
    let seqs: Vec<_> = received.iter().map(|one| &one["seq"]).collect();
    assert_eq!(seqs, [2, 3, 4]);
    let log = watch.server.log();
    assert!(
        !log.contains("new session") && !log.contains("missed"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_of_ones_own_is_named_by_a_flag_or_by_the_environment() {
    let demo = Demo::start("0", "1");
    let trust = Trust::new("ours");
    let (_proxy, url) = trust.in_front_of(&demo.url, Validity::Current).await;
    let file = trust.file();
    let file = file.to_str().unwrap();
    let by_flag = [
        "watch",
        "-A",
        "--url",
        &url,
        "--certificate-authority",
        file,
    ];
    let watch = Watch::start(command().args(by_flag));
    assert!(watch.note.contains("all namespaces"), "{}", watch.note);
    let watch = Watch::start(
        command()
            .args(["watch", "-A", "--url", &url])
            .env("SSL_CERT_FILE", file),
    );
    assert!(watch.note.contains(&url), "{}", watch.note);
    let done = run(
        &["doctor", "--url", &url, "--certificate-authority", file],
        &[],
    )
    .await;
    assert_eq!(done.status.code(), Some(0), "{}", output(&done));
    assert!(output(&done).contains("pushes arrive"), "{}", output(&done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untrusted_certificate_is_reported_with_a_hint() {
    let demo = Demo::start("0", "1");
    let (trust, other) = (Trust::new("ours"), Trust::new("another"));
    let namesake = Trust::new("ours");
    let (_proxy, url) = trust.in_front_of(&demo.url, Validity::Current).await;
    let (_expired, expired) = trust.in_front_of(&demo.url, Validity::Expired).await;
    let files = [trust.file(), other.file(), namesake.file()];
    let [ours, theirs, old] = files.each_ref().map(|file| file.to_str().unwrap());
    let plain = demo.url.replace("http://", "https://");
    let empty = trust.dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    let empty = empty.to_str().unwrap();
    // The system's authorities have not signed this certificate.
    let system = [("SSL_CERT_FILE", theirs)];
    for (arguments, environment, part) in [
        (
            vec!["--url", &url],
            &system[..],
            "hint: this system does not know who signed",
        ),
        (
            vec!["--url", &url],
            &system[..],
            "--certificate-authority FILE",
        ),
        (
            vec!["--url", &url, "--certificate-authority", theirs],
            &[],
            "not signed by an authority in",
        ),
        (
            vec!["--url", &url, "--certificate-authority", old],
            &[],
            "not signed by an authority in",
        ),
        (
            vec!["--url", &expired, "--certificate-authority", ours],
            &[],
            "xpired",
        ),
        (
            vec!["--url", &plain, "--certificate-authority", ours],
            &[],
            "does not speak TLS",
        ),
        (
            vec!["--url", &url, "--certificate-authority", empty],
            &[],
            "no certificate in it",
        ),
        (
            vec!["--url", &url, "--certificate-authority", "/no/such"],
            &[],
            "/no/such",
        ),
        (
            vec!["--url", &demo.url, "--certificate-authority", ours],
            &[],
            "is not https",
        ),
    ] {
        for command in ["watch", "doctor"] {
            let done = run(&[&[command][..], &arguments].concat(), environment).await;
            assert_eq!(done.status.code(), Some(1), "{command} {arguments:?}");
            let output = output(&done);
            assert!(
                output.contains(part),
                "{command} {arguments:?}: no {part}: {output}"
            );
            assert!(!output.contains("panicked"), "{output}");
        }
    }
    // What is only for an address needs one.
    let done = run(&["watch", "--certificate-authority", ours], &[]).await;
    assert_eq!(done.status.code(), Some(64), "{}", output(&done));
}
