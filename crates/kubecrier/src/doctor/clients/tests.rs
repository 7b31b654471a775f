use std::{env, fs, os::unix::fs::PermissionsExt};

use proptest::prelude::*;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    super::report::{Report, Verdict},
    entry::{Connection, Token},
    *,
};
use crate::clients::FileFormat;

/// A secret that must not be repeated.
const SECRET: &str = "hunter2hunter2";

/// A home, a project in it, and a folder of programs.
struct Machine {
    dir: TempDir,
}

impl Machine {
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
        let machine = self.with(path, "#!/bin/sh\n");
        fs::set_permissions(machine.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        machine
    }

    async fn check(&self) -> Vec<Section> {
        let paths = SearchPaths {
            home: Some(self.path("home")),
            config: Some(self.path("home/.config")),
            xdg: Some(self.path("home/.config")),
            claude_code: Some(self.path("home")),
            codex: Some(self.path("home/.codex")),
            zed: Some(self.path("home/.config/zed")),
            project: Some(self.path("project")),
            programs: vec![self.path("bin")],
        };
        check_clients(&paths, &Redactor::new(&[]).unwrap()).await
    }

    /// The report as a person reads it, without what differs from run to run.
    async fn report(&self) -> String {
        let lines = Report::new(self.check().await).lines(false).join("\n");
        let program = env::current_exe().unwrap();
        lines
            .replace(self.dir.path().to_str().unwrap(), "DIR")
            .replace(program.to_str().unwrap(), "US")
    }
}

#[tokio::test]
async fn no_configuration_is_no_failure() {
    let machine = Machine::new();
    let sections = machine.check().await;
    assert_eq!(sections.len(), 1);
    assert_eq!(sections[0].findings[0].verdict, Verdict::Ok);
    // Nor is a file without an entry for kubecrier, however broken.
    let machine = machine
        .with(
            "home/.claude.json",
            r#"{"mcpServers": {"other": {"command": "x"}}}"#,
        )
        .with("project/.mcp.json", "{ not json");
    let report = machine.report().await;
    assert!(report.contains("2 configurations"), "{report}");
    assert!(report.ends_with("all is well"), "{report}");
}

#[tokio::test]
async fn commands_are_checked() {
    let machine = Machine::new()
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
    let report = machine.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn urls_that_cannot_work_are_reported_without_a_request() {
    let machine = Machine::new()
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
        // No server listens there.
        .with(
            "home/.codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": {"kubecrier": {"serverUrl": "http://me:hunter2hunter2@127.0.0.1:1/mcp?key=hunter2hunter2"}}}"#,
        );
    let report = machine.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

/// A server that refuses every request and repeats the secret that it was sent, after so
/// many bytes of padding.
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
            // The secret alone does not look like one.
            let repeated = if head.contains(SECRET) {
                SECRET
            } else {
                "nothing"
            };
            let body = format!("{}{repeated}", "x".repeat(padding));
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
async fn a_secret_that_a_server_repeats_is_redacted() {
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
        let machine = Machine::new().with("home/.cursor/mcp.json", &file.to_string());
        let report = machine.report().await;
        assert!(report.contains("[redacted]"), "{report}");
        assert!(!report.contains(&SECRET[..5]), "{report}");
    }
}

#[tokio::test]
async fn a_broken_file_that_names_kubecrier_is_reported_with_its_line() {
    let machine = Machine::new()
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
    let report = machine.report().await;
    assert!(!report.contains(SECRET), "{report}");
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn a_name_cannot_act_on_the_terminal() {
    let entry = r#"{"mcpServers": {"kubecrier\u001b[2J": {"command": "x"}}}"#;
    let machine = Machine::new().with("home/.cursor/mcp.json", entry);
    let report = machine.report().await;
    assert!(
        report.contains("kubecrier") && !report.contains('\u{1b}'),
        "{report:?}"
    );
}

#[test]
fn entries_of_different_clients_mean_the_same() {
    let only = |text: &str, format, key| {
        let mut servers = entry::parse(text, format, key).unwrap();
        assert_eq!(servers.len(), 1, "{text}");
        servers.remove(0).connection
    };
    let start = Connection::Stdio {
        command: "kubecrier".to_owned(),
        args: vec!["--context".to_owned(), "a".to_owned()],
        env: vec![("KUBECONFIG".to_owned(), "/k".to_owned())],
    };
    for (text, format, key) in [
        (
            r#"{"mcpServers": {"k": {"command": "kubecrier", "args": ["--context", "a"], "env": {"KUBECONFIG": "/k"}}}}"#,
            FileFormat::Json,
            "mcpServers",
        ),
        (
            r#"{"mcp": {"k": {"command": ["kubecrier", "--context", "a"], "environment": {"KUBECONFIG": "/k"}}}}"#,
            FileFormat::Jsonc,
            "mcp",
        ),
        (
            r#"{"context_servers": {"k": {"command": {"path": "kubecrier", "args": ["--context", "a"]}, "env": {"KUBECONFIG": "/k"}}}}"#,
            FileFormat::Jsonc,
            "context_servers",
        ),
        (
            "[mcp_servers.k]\ncommand = \"kubecrier\"\nargs = [\"--context\", \"a\"]\nenv = { KUBECONFIG = \"/k\" }",
            FileFormat::Toml,
            "mcp_servers",
        ),
    ] {
        assert_eq!(only(text, format, key), start, "{text}");
    }
    for (text, format, key, token) in [
        (
            r#"{"servers": {"k": {"url": "http://x/mcp", "headers": {"authorization": "bearer abc"}}}}"#,
            FileFormat::Jsonc,
            "servers",
            Token::Bearer("abc".to_owned()),
        ),
        (
            r#"{"servers": {"k": {"url": "http://x/mcp", "headers": {"Authorization": "Bearer ${input:t}"}}}}"#,
            FileFormat::Jsonc,
            "servers",
            Token::Unknown,
        ),
        (
            "[mcp_servers.k]\nurl = \"http://x/mcp\"\nbearer_token_env_var = \"T\"",
            FileFormat::Toml,
            "mcp_servers",
            Token::Unknown,
        ),
        (
            "[mcp_servers.k]\nurl = \"http://x/mcp\"",
            FileFormat::Toml,
            "mcp_servers",
            Token::None,
        ),
    ] {
        let expected = Connection::Http {
            url: "http://x/mcp".to_owned(),
            key: "url",
            transport: None,
            token,
        };
        assert_eq!(only(text, format, key), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn fuzz_any_file_is_read_or_refused(
        text in "[{}\\[\\]\":,/*a-z0-9 \\n]{0,60}|\\PC{0,40}",
        strict in any::<bool>(),
    ) {
        let format = if strict { FileFormat::Json } else { FileFormat::Jsonc };
        for (format, key) in [(format, "mcpServers"), (FileFormat::Toml, "mcp_servers")] {
            if let Err(error) = entry::parse(&text, format, key) {
                prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1);
            }
        }
    }
}
