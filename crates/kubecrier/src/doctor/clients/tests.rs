use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    super::report::{Report, Verdict},
    entry::{Launch, Token},
    *,
};

/// What stands in for everything that must not be repeated.
const SECRET: &str = "hunter2hunter2";

/// A home, a project in it, and a folder of programs.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["home/.config", "project", "bin"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn with(self, path: &str, text: &str) -> Self {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A program on the PATH.
    fn with_program(self, path: &str) -> Self {
        let desk = self.with(path, "#!/bin/sh\n");
        fs::set_permissions(desk.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        desk
    }

    async fn look(&self) -> Vec<Section> {
        let places = Places {
            home: Some(self.path("home")),
            settings: Some(self.path("home/.config")),
            here: Some(self.path("project")),
            path: vec![self.path("bin")],
        };
        look(&places, &Redactor::new(&[]).unwrap()).await
    }

    /// The report as a person reads it, without what differs from run to run.
    async fn report(&self) -> String {
        let lines = Report::new(self.look().await).lines(false).join("\n");
        let us = env::current_exe().unwrap();
        lines
            .replace(self.dir.path().to_str().unwrap(), "DIR")
            .replace(us.to_str().unwrap(), "US")
    }
}

#[tokio::test]
async fn nothing_there_is_no_failure() {
    let desk = Desk::new();
    let sections = desk.look().await;
    assert_eq!(sections.len(), 1);
    assert_eq!(sections[0].findings[0].verdict, Verdict::Ok);
    // Nor is a file that says nothing of us, however broken.
    let desk = desk
        .with(
            "home/.claude.json",
            r#"{"mcpServers": {"other": {"command": "x"}}}"#,
        )
        .with("project/.mcp.json", "{ not json");
    let report = desk.report().await;
    assert!(report.contains("2 configurations"), "{report}");
    assert!(report.ends_with("all is well"), "{report}");
}

#[tokio::test]
async fn what_is_started_is_judged() {
    let desk = Desk::new()
        .with_program("bin/kubecrier")
        .with("home/not-executable/kubecrier", "")
        .with(
            "home/.claude.json",
            r#"{"mcpServers": {
                 "kubecrier": {"command": "kubecrier", "args": ["--context", "prod"]},
                 "filesystem": {"command": "npx", "args": ["server-filesystem", "/src/kubecrier-notes"]}
               },
               "projects": {"/src/shop": {"mcpServers": {
                 "k8s": {"command": "kubecrier", "args": ["--port", "8080"]}}}}}"#,
        )
        .with(
            "project/.vscode/mcp.json",
            r#"{
                 // Comments are welcome here.
                 "servers": {
                   "typo": {"command": "kubecrier", "args": ["--contxt", "hunter2hunter2"]},
                   "bad value": {"command": "kubecrier", "env": {"KUBECRIER_PORT": "hunter2hunter2"}},
                   "for people": {"command": "kubecrier", "args": ["demo"]},
                   "variables": {"command": "kubecrier", "args": ["--context", "${input:context}"]},
                 },
               }"#,
        )
        .with(
            "home/.cursor/mcp.json",
            r#"{"mcpServers": {
                 "kubecrier": {"command": "~/bin/kubecrier"},
                 "kubecrier-gone": {"command": "/no/such/kubecrier"},
                 "kubecrier-misspelt": {"command": "kubecryer", "env": {"TOKEN": "hunter2hunter2"}},
                 "kubecrier-off": {"command": "/no/such", "disabled": true},
                 "kubecrier-empty": {}}}"#,
        )
        .with(
            "home/.codex/config.toml",
            "[mcp_servers.kubecrier]\ncommand = \"../home/not-executable/kubecrier\"\n",
        )
        .with(
            "home/.config/opencode/opencode.json",
            r#"{"mcp": {"k": {"type": "local", "command": ["env", "A=hunter2hunter2", "kubecrier"]}}}"#,
        );
    let report = desk.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn addresses_that_cannot_be_right_are_said_without_asking_anybody() {
    let desk = Desk::new()
        .with(
            "project/.mcp.json",
            r#"{"mcpServers": {
                 "kubecrier": {"url": "http://127.0.0.1:1/mcp"},
                 "kubecrier-sse": {"type": "sse", "url": "http://127.0.0.1:1/mcp"},
                 "kubecrier-root": {"type": "http", "url": "http://me:hunter2hunter2@127.0.0.1:1"},
                 "kubecrier-none": {"type": "http", "url": "127.0.0.1:8080"},
                 "kubecrier-later": {"type": "http", "url": "http://${HOST}/mcp"}}}"#,
        )
        .with(
            "home/.gemini/settings.json",
            r#"{"mcpServers": {"kubecrier": {"url": "http://127.0.0.1:1/mcp"}}}"#,
        )
        // Nobody is there.
        .with(
            "home/.codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": {"kubecrier": {"serverUrl": "http://me:hunter2hunter2@127.0.0.1:1/mcp?key=hunter2hunter2"}}}"#,
        );
    let report = desk.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

/// A server that refuses everything and repeats the secret that it was sent, that many
/// bytes after the beginning.
async fn echo(padding: usize) -> (std::net::SocketAddr, tokio::task::JoinSet<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let count = stream.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            // By itself, it does not look like a secret.
            let told = if head.contains(SECRET) {
                SECRET
            } else {
                "nothing"
            };
            let body = format!("{}{told}", "x".repeat(padding));
            let answer = format!(
                "HTTP/1.1 500 Oh\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn a_server_that_repeats_what_it_was_told_is_not_repeated() {
    for (padding, url, headers) in [
        (0, "mcp", true),
        (0, "mcp?key=hunter2hunter2", false),
        // All but the end of it is within what is shown.
        (300 - 9, "mcp", true),
    ] {
        let (address, _tasks) = echo(padding).await;
        let mut server = serde_json::json!({"url": format!("http://{address}/{url}")});
        if headers {
            server["headers"] = serde_json::json!({"Authorization": format!("Bearer {SECRET}")});
        }
        let file = serde_json::json!({"mcpServers": {"kubecrier": server}});
        let desk = Desk::new().with("home/.cursor/mcp.json", &file.to_string());
        let report = desk.report().await;
        assert!(report.contains("[redacted]"), "{report}");
        assert!(!report.contains(&SECRET[..5]), "{report}");
    }
}

#[tokio::test]
async fn a_broken_file_that_names_us_is_said_with_its_line() {
    let desk = Desk::new()
        .with(
            "project/.mcp.json",
            "{\n  \"mcpServers\": {\n    // no comments here\n    \"kubecrier\": {\"command\": \"hunter2hunter2\"}\n  }\n}\n",
        )
        .with(
            "project/.vscode/mcp.json",
            "{\n  \"servers\": {\n    \"kubecrier\": {\"command\": \"hunter2hunter2\"\n  }\n}\n",
        )
        .with(
            "home/.codex/config.toml",
            "[mcp_servers.kubecrier]\ncommand = hunter2hunter2\n",
        );
    let report = desk.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn a_name_cannot_act_on_the_terminal() {
    let entry = r#"{"mcpServers": {"kubecrier\u001b[2J": {"command": "x"}}}"#;
    let desk = Desk::new().with("home/.cursor/mcp.json", entry);
    let report = desk.report().await;
    assert!(
        report.contains("kubecrier") && !report.contains('\u{1b}'),
        "{report:?}"
    );
}

#[test]
fn the_words_of_different_clients_mean_the_same() {
    let only = |text: &str, form, key| {
        let mut servers = entry::read(text, form, key).unwrap();
        assert_eq!(servers.len(), 1, "{text}");
        servers.remove(0).launch
    };
    let start = Launch::Command {
        command: "kubecrier".to_owned(),
        args: vec!["--context".to_owned(), "a".to_owned()],
        env: vec![("KUBECONFIG".to_owned(), "/k".to_owned())],
    };
    for (text, form, key) in [
        (
            r#"{"mcpServers": {"k": {"command": "kubecrier", "args": ["--context", "a"], "env": {"KUBECONFIG": "/k"}}}}"#,
            Form::Json,
            "mcpServers",
        ),
        (
            r#"{"mcp": {"k": {"command": ["kubecrier", "--context", "a"], "environment": {"KUBECONFIG": "/k"}}}}"#,
            Form::Jsonc,
            "mcp",
        ),
        (
            r#"{"context_servers": {"k": {"command": {"path": "kubecrier", "args": ["--context", "a"]}, "env": {"KUBECONFIG": "/k"}}}}"#,
            Form::Jsonc,
            "context_servers",
        ),
        (
            "[mcp_servers.k]\ncommand = \"kubecrier\"\nargs = [\"--context\", \"a\"]\nenv = { KUBECONFIG = \"/k\" }",
            Form::Toml,
            "mcp_servers",
        ),
    ] {
        assert_eq!(only(text, form, key), start, "{text}");
    }
    for (text, form, key, token) in [
        (
            r#"{"servers": {"k": {"url": "http://x/mcp", "headers": {"authorization": "bearer abc"}}}}"#,
            Form::Jsonc,
            "servers",
            Token::Bearer("abc".to_owned()),
        ),
        (
            r#"{"servers": {"k": {"url": "http://x/mcp", "headers": {"Authorization": "Bearer ${input:t}"}}}}"#,
            Form::Jsonc,
            "servers",
            Token::Unknown,
        ),
        (
            "[mcp_servers.k]\nurl = \"http://x/mcp\"\nbearer_token_env_var = \"T\"",
            Form::Toml,
            "mcp_servers",
            Token::Unknown,
        ),
        (
            "[mcp_servers.k]\nurl = \"http://x/mcp\"",
            Form::Toml,
            "mcp_servers",
            Token::None,
        ),
    ] {
        let expected = Launch::Url {
            url: "http://x/mcp".to_owned(),
            key: "url",
            kind: None,
            token,
        };
        assert_eq!(only(text, form, key), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn fuzz_any_file_is_read_or_refused(
        text in "[{}\\[\\]\":,/*a-z0-9 \\n]{0,60}|\\PC{0,40}",
        strict in any::<bool>(),
    ) {
        let form = if strict { Form::Json } else { Form::Jsonc };
        for (form, key) in [(form, "mcpServers"), (Form::Toml, "mcp_servers")] {
            if let Err(broken) = entry::read(&text, form, key) {
                prop_assert!(broken.line >= 1 && broken.line <= text.lines().count() + 1);
            }
        }
    }
}
