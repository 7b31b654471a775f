//! Users of the same machine. Only root can act as others, so these tests need root, as CI is.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
    thread,
};

use rustix::{process::Uid, thread::set_thread_res_uid};
use tempfile::TempDir;

use crate::harness::{Http, Server};

const OWNER: u32 = 41_001;
const OTHER: u32 = 41_002;
const ROOT: u32 = 0;
const TOKEN: &str = "0123456789abcdef-ann";

/// A server of one user.
struct OwnedServer {
    server: Server,
    address: String,
    _dir: TempDir,
}

impl OwnedServer {
    /// `None` without root: the test prints that and is skipped, but not in CI.
    fn start(owner: u32, arguments: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip();
            return None;
        }
        // The folder of the build may be closed to other users.
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("kubecrier");
        // By a process of its own: what starts in this one meanwhile would inherit the open file, and
        // a program that is open for writing cannot be started.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_kubecrier"))
            .arg(&program)
            .status();
        assert!(copied.unwrap().success());
        let tokens = dir.path().join("tokens");
        fs::write(&tokens, format!("ann:{TOKEN}\n")).unwrap();
        for path in [dir.path(), &program, &tokens] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new(program);
        command.env_clear().env("HOME", "/nonexistent");
        command.current_dir(&dir).uid(owner).args(arguments);
        let (server, base) = Http::launch(&mut command);
        let address = base.strip_prefix("http://").unwrap().to_owned();
        Some(Self {
            server,
            address,
            _dir: dir,
        })
    }

    /// Sends requests over one connection as a user; the answers as they came.
    fn ask(&self, uid: u32, requests: &[&str]) -> String {
        let address = self.address.clone();
        let mut text: String = requests[..requests.len() - 1]
            .iter()
            .map(|head| format!("{head}\r\nHost: {address}\r\n\r\n"))
            .collect();
        let last = requests[requests.len() - 1];
        text += &format!("{last}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        // On Linux a thread has a user of its own, and a socket belongs to that user.
        let asking = thread::spawn(move || {
            let uid = Uid::from_raw(uid);
            set_thread_res_uid(uid, uid, uid).unwrap();
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            // A refused connection may be reset after its answer.
            let _ended = stream.read_to_string(&mut answer);
            answer
        });
        asking.join().unwrap()
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test reports its reason")]
fn skip() {
    assert!(
        std::env::var_os("CI").is_none(),
        "CI runs as root, nothing is skipped there"
    );
    eprintln!("skipped: only root can be another user");
}

/// The status codes of all answers.
fn statuses(answer: &str) -> Vec<&str> {
    answer
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|status| &status[..3])
        .collect()
}

#[test]
fn another_user_is_refused_and_the_owner_notices_nothing() {
    let Some(server) = OwnedServer::start(OWNER, &[]) else {
        return;
    };
    for page in ["GET /stats HTTP/1.1", "GET /metrics HTTP/1.1"] {
        for uid in [OWNER, ROOT] {
            assert_eq!(statuses(&server.ask(uid, &[page])), ["200"], "{uid} {page}");
        }
    }
    // 400: it has got as far as the protocol.
    let mcp = "GET /mcp HTTP/1.1\r\nAccept: text/event-stream";
    assert_eq!(statuses(&server.ask(OWNER, &[mcp])), ["400"]);
    for request in [
        mcp,
        "POST /mcp HTTP/1.1\r\nContent-Length: 0",
        "DELETE /mcp HTTP/1.1",
        "GET /stats HTTP/1.1",
        "GET /metrics HTTP/1.1",
        "GET /stats HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef-ann",
    ] {
        let answer = server.ask(OTHER, &[request]);
        assert_eq!(statuses(&answer), ["403"], "{request}: {answer}");
        for part in ["user 41002", "(41001)", "--allow-other-users"] {
            assert!(answer.contains(part), "{part} in {answer}");
        }
    }
    // Probes have no content; and what is decided for a connection stays.
    let (healthy, stats) = ("GET /healthz HTTP/1.1", "GET /stats HTTP/1.1");
    let answer = server.ask(OTHER, &[healthy, stats]);
    assert_eq!(statuses(&answer), ["200", "403"], "{answer}");
    let answer = server.ask(OWNER, &[healthy, stats, stats]);
    assert_eq!(statuses(&answer), ["200", "200", "200"], "{answer}");
    assert!(server.server.log().contains("another user"));
}

#[test]
fn other_users_are_served_when_a_flag_says_so() {
    let Some(server) = OwnedServer::start(OWNER, &["--allow-other-users"]) else {
        return;
    };
    for uid in [OWNER, OTHER, ROOT] {
        let answer = server.ask(uid, &["GET /stats HTTP/1.1"]);
        assert_eq!(statuses(&answer), ["200"], "{uid}");
    }
}

#[test]
fn a_token_counts_whoever_presents_it() {
    let Some(server) = OwnedServer::start(OWNER, &["--auth-token-file", "tokens"]) else {
        return;
    };
    let signed = format!("GET /stats HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
    assert_eq!(statuses(&server.ask(OTHER, &[&signed])), ["200"]);
    for uid in [OWNER, OTHER, ROOT] {
        let answer = server.ask(uid, &["GET /stats HTTP/1.1"]);
        assert_eq!(statuses(&answer), ["401"], "{uid}");
    }
}

/// Everyone on the machine can write a header.
#[test]
fn the_header_of_a_proxy_is_taken_only_from_the_own_user() {
    let arguments = [
        "--trusted-user-header",
        "X-User",
        "--trusted-proxies",
        "127.0.0.1",
    ];
    let Some(server) = OwnedServer::start(OWNER, &arguments) else {
        return;
    };
    let named = "GET /stats HTTP/1.1\r\nX-User: ann";
    let answer = server.ask(OWNER, &[named]);
    assert_eq!(statuses(&answer), ["200"]);
    assert!(answer.contains("\"user:ann\""), "{answer}");
    assert_eq!(statuses(&server.ask(OTHER, &[named])), ["403"]);
}

#[test]
fn the_admin_address_is_closed_to_other_users_too() {
    let arguments = [
        "--auth-token-file",
        "tokens",
        "--admin-address",
        "127.0.0.1:0",
    ];
    let Some(mut server) = OwnedServer::start(OWNER, &arguments) else {
        return;
    };
    server.address = crate::admin::admin_address(&server.server);
    let page = "GET /stats HTTP/1.1";
    assert_eq!(statuses(&server.ask(OWNER, &[page])), ["200"]);
    assert_eq!(statuses(&server.ask(OTHER, &[page])), ["403"]);
    assert_eq!(
        statuses(&server.ask(OTHER, &["GET /healthz HTTP/1.1"])),
        ["200"]
    );
}
