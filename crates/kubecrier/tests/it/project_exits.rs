//! What may leave a project folder, and what may reach its programs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::harness::{File, Http, Project, Stream, TIMEOUT, command, kubeconfig};

/// A text that a program prints, and the word of it that must not leave.
const SECRET: &str = "password=swordfish-1";
const WORD: &str = "swordfish";

fn two_contexts() -> File {
    kubeconfig(|file| {
        file.server_context("dev", "https://127.0.0.1:1", "")
            .server_context("prod", "https://127.0.0.1:1", "")
            .current("dev")
    })
}

async fn http(file: &File, project: &Project) -> Http {
    Http::start(&file.path, &["--project-root", project.text()]).await
}

/// Everything that a client can read in a message, base64 included.
fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let decoded = STANDARD.decode(text).unwrap_or_default();
            format!("{text} {} ", String::from_utf8_lossy(&decoded))
        }
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| format!("{key} {}", readable(value)))
            .collect(),
        other => other.to_string(),
    }
}

#[track_caller]
fn is_clean(exit: &str, message: &Value) {
    let text = readable(message);
    assert!(text.contains("[redacted"), "{exit} met nothing: {message}");
    assert!(
        !text.contains(WORD),
        "{exit} lets the secret out: {message}"
    );
}

/// A project that says the secret wherever it can say something.
fn leaky_project() -> Project {
    let project = Project::empty();
    let note = json!({"note": SECRET});
    let foreign = [b"caf\xe9 ", SECRET.as_bytes()].concat();
    let answer = json!({
        "content": [
            {"type": "text", "text": SECRET, "_meta": note},
            {"type": "resource", "resource": {"uri": "x://a", "text": SECRET, "_meta": note}},
            {"type": "resource", "resource": {"uri": "x://a", "blob": STANDARD.encode(&foreign)}},
            {"type": "resource_link", "uri": format!("x://a?{SECRET}"), "name": SECRET,
                "title": SECRET, "description": SECRET},
            {"type": "image", "mimeType": "image/png", "data": STANDARD.encode(&foreign)},
        ],
        "structuredContent": {"said": SECRET, "deep": [note]},
    });
    let speak = format!("echo '{SECRET}' >&2; echo '1/2 {SECRET}' >&$KUBECRIER_PROGRESS;");
    project.tool("whole", &format!("{speak} cat answer.json"));
    project.write("tools/whole/answer.json", &answer.to_string(), 0o644);
    project.tool("foreign", &format!("printf 'caf\\xe9 {SECRET}'"));
    project.tool("failing", &format!("echo '{SECRET}' >&2; exit 4"));
    let about = json!({"title": SECRET, "description": SECRET, "annotations": {"title": SECRET},
        "inputSchema": {"properties": {"a": {"type": "string", "description": SECRET}}}});
    project.meta("whole", &about);
    project.prompt("leaky", &format!("{SECRET} and {{{{what}}}}"));
    project.write("prompts/leaky.meta.json", &about.to_string(), 0o644);
    for (name, script) in [
        ("foreign", format!("printf 'caf\\xe9 {SECRET}'")),
        ("failing", format!("echo '{SECRET}' >&2; exit 4")),
    ] {
        project.write(
            &format!("providers/{name}"),
            &format!("#!/bin/bash\n{script}\n"),
            0o755,
        );
        for kind in ["text/plain", "application/octet-stream", "image/png"] {
            let end = kind.replace('/', "-");
            let meta = json!({"name": format!("{name} {end}"), "uri": format!("{name}://{end}"),
                "provider": name, "mimeType": kind, "title": SECRET, "description": SECRET});
            let path = format!("resources/{name}-{end}.meta.json");
            project.write(&path, &meta.to_string(), 0o644);
        }
    }
    let meta = json!({"name": "t", "uriTemplate": "t://{a}", "provider": "foreign", "description": SECRET});
    project.write("resources/t.meta.json", &meta.to_string(), 0o644);
    project.write(
        "server.d/register.sh",
        &format!("#!/bin/bash\necho '{SECRET}' >&2; exit 1\n"),
        0o755,
    );
    project
}

#[tokio::test]
async fn nothing_of_a_project_lets_a_secret_out() {
    let project = leaky_project();
    let http = project.http(&["--allow-register-hook"]).await;
    let mut stream = http.stream(None).await;
    http.rpc("logging/setLevel", json!({"level": "info"})).await;
    for list in [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ] {
        is_clean(list, &http.rpc(list, json!({})).await);
    }
    for tool in ["whole", "foreign", "failing"] {
        let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": tool}});
        let call = json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params});
        let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
        loop {
            let message = answer.next().await;
            is_clean(tool, &message);
            if message.get("id").is_some() {
                break;
            }
        }
    }
    let whole = http
        .rpc("tools/call", json!({"name": "whole", "arguments": {}}))
        .await;
    let blocks = whole["result"]["content"].as_array().unwrap();
    for block in blocks {
        is_clean("a block", block);
    }
    assert_eq!(blocks.len(), 5, "{whole}");
    is_clean("structured content", &whole["result"]["structuredContent"]);
    loop {
        let message = stream.next().await;
        if message["method"] == "notifications/message" {
            is_clean("a log message", &message);
            break;
        }
    }
    let prompt = json!({"name": "leaky", "arguments": {"what": SECRET}});
    is_clean("a prompt", &http.rpc("prompts/get", prompt).await);
    for provider in ["foreign", "failing"] {
        for kind in ["text-plain", "application-octet-stream", "image-png"] {
            let uri = format!("{provider}://{kind}");
            is_clean(&uri, &http.rpc("resources/read", json!({"uri": uri})).await);
        }
    }
    is_clean(
        "a template",
        &http.rpc("resources/read", json!({"uri": "t://a"})).await,
    );
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    is_clean("/stats", &stats["project"]["refused"]);
    is_clean("the log", &json!(http.server.log()));
}

#[tokio::test]
async fn only_arguments_that_fit_and_a_known_context_reach_a_tool() {
    let (file, project) = (two_contexts(), Project::empty());
    project.tool("ran", "echo ran on $KUBECRIER_CONTEXT");
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "context": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}}});
    project.meta("ran", &json!({"inputSchema": schema}));
    project.tool("clash", "true");
    let clash = json!({"inputSchema": {"properties": {"a-b": {}, "a_b": {}}}});
    project.meta("clash", &clash);
    let http = http(&file, &project).await;
    for (arguments, says) in [
        (json!({}), "ran on dev"),
        (json!({"lines": 3, "context": "prod"}), "ran on prod"),
    ] {
        assert_eq!(http.call("ran", arguments).await.ok().text, says);
    }
    for (arguments, says) in [
        (
            json!({"context": "prod; rm -rf /"}),
            "contexts are: dev, prod",
        ),
        (
            json!({"context": "elsewhere"}),
            "cannot use context `elsewhere`",
        ),
        (
            json!({"lines": 0}),
            "`lines`: it is less than the minimum of 1",
        ),
        (
            json!({"lines": "3"}),
            "`lines`: it is not of type \"integer\"",
        ),
        (json!({"more": 1}), "'more' was unexpected"),
    ] {
        let answer = http.call("ran", arguments).await;
        assert!(
            answer.is_error && answer.text.contains(says),
            "{}",
            answer.text
        );
        assert!(!answer.text.contains("ran on"), "{}", answer.text);
    }
    let log = http.server.log();
    assert!(log.contains("`a-b` and `a_b`"), "{log}");
}

#[tokio::test]
async fn a_template_reads_below_resources_only() {
    let (file, project) = (two_contexts(), Project::empty());
    let meta = json!({"name": "r", "uriTemplate": "runbook://{name}", "path": "books/{name}.md"});
    project.write("resources/r.meta.json", &meta.to_string(), 0o644);
    let meta = json!({"name": "f", "uriTemplate": "file://{+path}"});
    project.write("resources/f.meta.json", &meta.to_string(), 0o644);
    project.write("resources/books/disk.md", "clean up", 0o644);
    for path in [
        "README.md",
        ".env",
        ".git/config",
        "resources/.env",
        "resources/books/.env.md",
    ] {
        project.write(path, WORD, 0o644);
    }
    let http = http(&file, &project).await;
    let read = async |uri: &str| http.rpc("resources/read", json!({"uri": uri})).await;
    for good in ["runbook://disk", "file://./resources/books/disk.md"] {
        assert_eq!(
            read(good).await["result"]["contents"][0]["text"],
            "clean up",
            "{good}"
        );
    }
    let root = project.text();
    for (bad, says) in [
        (
            "runbook://..%2F..%2FREADME".to_owned(),
            "`/` is not allowed",
        ),
        ("runbook://..%5C..%5CREADME".to_owned(), "`\\\\`"),
        ("runbook://.env".to_owned(), "hidden"),
        ("file://./README.md".to_owned(), "`resources/` only"),
        (format!("file://{root}/README.md"), "`resources/` only"),
        ("file://./.env".to_owned(), "hidden"),
        ("file://./.git/config".to_owned(), "hidden"),
        ("file://./resources/../.env".to_owned(), "`..`"),
        ("file://./resources/%2e%2e/.env".to_owned(), "`..`"),
    ] {
        let answer = read(&bad).await.to_string();
        assert!(
            !answer.contains(WORD) && answer.contains(says),
            "{bad}: {answer}"
        );
        let answer = http.rpc("resources/subscribe", json!({"uri": bad})).await;
        assert!(answer.get("error").is_some(), "{bad}: {answer}");
    }
}

#[tokio::test]
async fn a_folder_that_others_could_replace_is_not_served() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::empty();
    project.write("site/tools/t/tool.sh", "#!/bin/bash\necho ran\n", 0o755);
    project.write("site/tools/t/tool.meta.json", "{}", 0o644);
    let root = format!("{}/site", project.text());
    let http = project.http_of(&root, &["--project-ttl", "1s"]).await;
    assert_eq!(http.call("t", json!({})).await.ok().text, "ran");
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = http
        .rpc("tools/call", json!({"name": "t", "arguments": {}}))
        .await;
    assert!(!refused.to_string().contains("ran"), "{refused}");
    http.server.wait_for("chmod go-w");
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let served = async {
        let call = json!({"name": "t", "arguments": {}});
        while !http
            .rpc("tools/call", call.clone())
            .await
            .to_string()
            .contains("ran")
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let served = tokio::time::timeout(TIMEOUT, served).await;
    assert!(served.is_ok(), "{}", http.server.log());
}

/// The entry of a process of the server's own namespace.
fn entry_of(server: u32, process: &str) -> PathBuf {
    let namespace = Path::new("/proc").join(server.to_string()).join("root");
    namespace.join("proc").join(process)
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let done = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(TIMEOUT, done).await;
    assert!(done.is_ok(), "{what}");
}

#[tokio::test]
async fn as_the_first_process_of_a_container_it_leaves_no_zombies() {
    // A namespace of processes needs root. Without it, the same is shown by
    // `kubecrier_lifecycle`, with a subreaper instead.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (file, project) = (two_contexts(), Project::empty());
    project.tool("linger", "sleep 1000 & echo $!");
    project.tool("code", "exit 7");
    let server = command();
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(server.get_program())
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .arg("--kubeconfig")
        .arg(&file.path)
        .args(["--project-root", project.text()]);
    let http = Http::start_command(&mut command, "2025-11-25").await;
    let parent = http.server.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let server: u32 = children.trim().parse().unwrap();
    assert!(entry_of(server, "1").exists(), "it is process 1");
    for _ in 0..3 {
        let orphan = http.call("linger", json!({})).await.ok().text;
        let answer = http.call("code", json!({})).await;
        assert!(answer.text.contains("exit code 7"), "{}", answer.text);
        let entry = entry_of(server, &orphan);
        until("a zombie stays", || !entry.exists()).await;
    }
}
