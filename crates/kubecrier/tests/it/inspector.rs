//! The MCP Inspector's command line, which people try a server with: it connects,
//! lists, calls, reads, fills in and sets a level, in both eras.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use testbed::Client;

use crate::{
    fixtures,
    harness::{Http, Project, command, kubeconfig},
};

/// `None` when it cannot be had here; else its exit code and what it printed.
fn inspect(url: &str, era: &str, words: &[&str]) -> Option<(i32, Value)> {
    let command = match Client::inspector() {
        Ok(command) => command,
        Err(missing) => {
            testbed::skip(&missing);
            return None;
        }
    };
    let home = tempfile::tempdir().unwrap();
    let mut bounded = Command::new("timeout");
    bounded
        .arg("60")
        .arg(command.get_program())
        .args(command.get_args())
        .args([url, "--transport", "http", "--protocol-era", era, "--quiet"])
        .args(["--format", "json"])
        .args(words)
        .env("HOME", home.path());
    let done = bounded.output().unwrap();
    let output = [done.stdout, done.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    let value = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{words:?}: {output}"));
    Some((done.status.code().unwrap(), value))
}

#[tokio::test]
async fn it_connects_lists_calls_reads_and_sets_a_level() {
    let (_file, http) = fixtures::start().await;
    let url = format!("{}/mcp", http.base);
    for era in ["legacy", "modern"] {
        let ask = |method: &str, words: &[&str]| {
            let mut all = vec!["--method", method];
            all.extend(words);
            inspect(&url, era, &all)
        };
        // Strict: a schema that some client cannot read is an error.
        let Some((code, listed)) = ask("tools/list", &["--strict"]) else {
            return;
        };
        assert_eq!(code, 0, "{era}: {listed}");
        let text = listed.to_string();
        assert!(text.contains("pods_list") && text.contains("test_simple_text"));
        let one = "configuration_contexts_list";
        let (code, answer) = ask("tools/call", &["--tool-name", one]).unwrap();
        // The kubeconfig is empty, and the tool says so.
        assert!(
            answer.to_string().contains("contexts"),
            "{era} {code}: {answer}"
        );
        let read = ask("resources/read", &["--uri", "test://template/77/data"]);
        let (code, read) = read.unwrap();
        assert_eq!(code, 0, "{era}: {read}");
        assert!(read.to_string().contains("77"), "{era}: {read}");
        let (code, refused) = ask("resources/read", &["--uri", "test://none"]).unwrap();
        assert_ne!(code, 0);
        assert!(refused.to_string().contains("no resource `test://none`"));
    }
    for (method, words, expected) in [
        ("resources/list", &[][..], "test://watched-resource"),
        (
            "resources/templates/list",
            &[][..],
            "test://template/{id}/data",
        ),
        ("prompts/list", &[][..], "test_simple_prompt"),
        (
            "prompts/get",
            &[
                "--prompt-name",
                "test_prompt_with_arguments",
                "--prompt-args",
                "arg1=one",
                "arg2=two",
            ][..],
            "'two'",
        ),
    ] {
        let (code, answer) =
            inspect(&url, "legacy", &[&["--method", method], words].concat()).unwrap();
        assert_eq!(code, 0, "{method}: {answer}");
        assert!(answer.to_string().contains(expected), "{method}: {answer}");
    }
    let set = inspect(
        &url,
        "legacy",
        &["--method", "logging/setLevel", "--log-level", "info"],
    );
    assert_eq!(set.unwrap(), (0, json!({"result": {}})));
}

/// S4-31: lists of a project folder stay as they are while nothing changes, and show a
/// change when there is one.
#[tokio::test]
async fn it_sees_stable_lists_of_a_project_folder() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("site");
    let root = root.to_str().unwrap();
    let made = command().args(["init", root]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let file = kubeconfig(|file| file.server_context("dev", "https://127.0.0.1:1", ""));
    let http = Http::start(&file.path, &["--project-root", root]).await;
    let url = format!("{}/mcp", http.base);
    for era in ["legacy", "modern"] {
        for (method, shows) in [
            ("tools/list", "restarts"),
            ("resources/list", "now://utc"),
            ("prompts/list", "name"),
        ] {
            let Some((code, first)) = inspect(&url, era, &["--method", method]) else {
                return;
            };
            assert_eq!(code, 0, "{era} {method}: {first}");
            assert!(first.to_string().contains(shows), "{era} {method}: {first}");
            for _ in 0..2 {
                let (_, again) = inspect(&url, era, &["--method", method]).unwrap();
                assert_eq!(again, first, "{era} {method}");
            }
        }
    }
    std::fs::rename(
        format!("{root}/tools/restarts"),
        format!("{root}/tools/reboots"),
    )
    .unwrap();
    let changed = async {
        loop {
            let (_, tools) = inspect(&url, "legacy", &["--method", "tools/list"]).unwrap();
            if !tools.to_string().contains("\"restarts\"") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_mins(1), changed).await;
    assert!(waited.is_ok(), "the change is never seen");
}

/// S4-31: held open, it is told of each list once, and then only of a change.
#[tokio::test]
async fn its_client_is_told_three_times_and_then_only_of_a_change() {
    let project = Project::new();
    let http = project.http(&[]).await;
    let workplace = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/inspector.mjs");
    let client = match Client::Inspector.command(Path::new(script), workplace.path()) {
        Ok(command) => command,
        Err(missing) => return testbed::skip(&missing),
    };
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(client.get_program())
        .args(client.get_args())
        .arg(format!("{}/mcp", http.base))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut stdin = running.stdin.take().unwrap();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let told = |tools: u64| json!({"tools": tools, "resources": 1, "prompts": 1});
    assert_eq!((next(), next(), next()).2, told(1));
    for _ in 0..3 {
        stdin.write_all(b"list\n").unwrap();
        assert_eq!(next(), told(1), "lists that stay are not told again");
    }
    project.tool("test_tool", "echo changed");
    assert_eq!(next(), told(2));
    stdin.write_all(b"list\n").unwrap();
    assert_eq!(next(), told(2));
    drop(stdin);
    assert!(running.wait().unwrap().success());
}
