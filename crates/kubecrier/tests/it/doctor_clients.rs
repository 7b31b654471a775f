//! `kubecrier doctor` on the configuration files of MCP clients, with servers that are
//! there.

use std::{fs, net::Ipv4Addr, process::Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Demo, Http, Proxy, command, kubeconfig};

/// Not to be repeated.
const TOKEN: &str = "0123456789abcdefSECRET";

/// Of a person at that home, in that project.
async fn doctor(dir: &TempDir, arguments: &[&str]) -> Output {
    // Clusters are not what this is about.
    let none = kubeconfig(|file| file);
    let mut command = command();
    command
        .args(["doctor", "--kubeconfig"])
        .arg(&none.path)
        .args(arguments)
        .env("HOME", dir.path())
        .current_dir(dir.path().join("project"));
    let mut command = tokio::process::Command::from(command);
    command.output().await.unwrap()
}

fn home(path: &str, content: &Value) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(path);
    for folder in [path.parent().unwrap(), &dir.path().join("project")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(path, content.to_string()).unwrap();
    dir
}

/// Verdict and text of what was found in a file.
async fn findings(dir: &TempDir, about: &str) -> Vec<(String, String)> {
    let done = doctor(dir, &["-o", "json"]).await;
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(!text.contains(TOKEN), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let sections = report["sections"].as_array().unwrap();
    let section = sections.iter().find(|section| section["about"] == about);
    let section = section.unwrap_or_else(|| panic!("no {about} in {report:#}"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let finding = |one: &Value| {
        let hint = word(&one["hint"]);
        (
            word(&one["verdict"]),
            format!("{} {hint}", word(&one["text"])),
        )
    };
    section["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(finding)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_a_client_is_sent_to_is_tried() {
    let demo = Demo::start("0", "1");
    let base = demo.url.trim_end_matches("/mcp");
    let elsewhere = Proxy::start_at(Ipv4Addr::new(127, 0, 0, 2), &demo.url).await;
    let dir = home(
        "project/.vscode/mcp.json",
        &json!({"servers": {
            "a kubecrier": {"type": "http", "url": demo.url},
            "b kubecrier": {"type": "http", "url": format!("{base}/metrics")},
            "c kubecrier": {"type": "http", "url": format!("http://{}/mcp", elsewhere.address)},
            "d kubecrier": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
            "e other": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
        }}),
    );
    let found = findings(&dir, "VS Code, .vscode/mcp.json").await;
    let expected = [
        ("ok", "`a kubecrier` reaches", "kubecrier 0"),
        ("ok", "`a kubecrier`: pushes come this far", "events_poll"),
        ("fail", "`b kubecrier`: there is no MCP", "/mcp"),
        ("fail", "`c kubecrier`:", "--allowed-hosts"),
        ("fail", "`d kubecrier`: cannot reach", "is it running?"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((verdict, text), (wanted, begins, part)) in found.iter().zip(expected) {
        assert_eq!(verdict, wanted, "{text}");
        assert!(text.starts_with(begins) && text.contains(part), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_a_file_is_sent_and_never_printed() {
    let tokens = tempfile::tempdir().unwrap();
    let file = tokens.path().join("tokens");
    fs::write(&file, format!("ops:{TOKEN}\n")).unwrap();
    let none = kubeconfig(|file| file);
    let arguments = ["--auth-token-file", file.to_str().unwrap()];
    let http = Http::start_with_token(&none.path, &arguments, TOKEN).await;
    let url = format!("{}/mcp", http.base);
    let with = |header: Value| json!({"type": "http", "url": url, "headers": header});
    let dir = home(
        ".claude.json",
        &json!({"mcpServers": {
            "a kubecrier": with(json!({"Authorization": format!("Bearer {TOKEN}")})),
            "b kubecrier": with(json!({"Authorization": format!("Bearer x{TOKEN}")})),
            "c kubecrier": with(json!({"Authorization": "Bearer ${TOKEN}"})),
            "d kubecrier": with(json!({})),
        }}),
    );
    let found = findings(&dir, "Claude Code, ~/.claude.json").await;
    let expected = [
        ("ok", "`a kubecrier` reaches", ""),
        (
            "note",
            "`a kubecrier`: pushes come this far",
            "shows the model none",
        ),
        ("fail", "`b kubecrier`:", "does not accept its token"),
        ("note", "`c kubecrier`:", "only the client knows"),
        ("fail", "`d kubecrier`:", "none is sent"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((verdict, text), (wanted, begins, part)) in found.iter().zip(expected) {
        assert_eq!(verdict, wanted, "{text}");
        assert!(text.starts_with(begins) && text.contains(part), "{text}");
    }
    // The text for people keeps it, too.
    let done = doctor(&dir, &[]).await;
    assert_eq!(done.status.code(), Some(1));
    let output = [done.stdout, done.stderr].concat();
    assert!(!String::from_utf8(output).unwrap().contains(TOKEN));
}

#[tokio::test]
async fn a_file_that_is_broken_is_an_exit_code() {
    let dir = home("project/.mcp.json", &json!({}));
    let path = dir.path().join("project/.mcp.json");
    fs::write(&path, "{\"mcpServers\": {\n\"kubecrier\": }").unwrap();
    let found = findings(&dir, "Claude Code, .mcp.json").await;
    let (verdict, text) = &found[0];
    assert!(verdict == "fail" && text.starts_with("line 2: "), "{text}");
    // Nothing was written.
    let entries: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
}
