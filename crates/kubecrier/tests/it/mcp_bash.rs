//! Projects in the shapes of mcp-bash: scripts without the run bit, names with dots, a shell
//! library that is installed elsewhere, and hooks that register by its functions.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::{Http, Project, Stream, ToolResult, command};

/// A library as an installation has one: it reports on the streams that its variables name.
const LIBRARY: &str = r#"
report() {
  printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s,"total":100,"message":"%s"}}\n' \
    "$MCP_PROGRESS_TOKEN" "$1" "$2" >>"$MCP_PROGRESS_STREAM"
}
say() {
  printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","logger":"%s","data":%s}}\n' \
    "$1" "$2" "$3" >>"$MCP_LOG_STREAM"
}
"#;

const TOOL: &str = r#"#!/usr/bin/env bash
set -euo pipefail
source "${MCP_SDK:?the library is not there}/library.sh"
source "$(dirname "$0")/../../lib/words.sh"
report 50 half
say warning by.hand '{"text": "careful", "note": "password=swordfish-1"}'
say error by.hand '"a text with password=swordfish-1"'
[ "$MCPBASH_HOME/sdk" = "$MCP_SDK" ]
if [ "$MCPBASH_MODE" = full ]; then "$MCPBASH_JSON_TOOL_BIN" -n 1 >/dev/null; fi
echo "$word $MCP_TOOL_ARGS_JSON"
"#;

const PROVIDER: &str = "#!/usr/bin/env bash\nprintf '%s' \"${1#echo://}\"\n";

fn project() -> Project {
    let project = Project::empty();
    project.write("lib/words.sh", "word=hello\n", 0o644);
    project.write("tools/hello/tool.sh", TOOL, 0o644);
    let meta = json!({"name": "example.hello", "description": "d"}).to_string();
    project.write("tools/hello/tool.meta.json", &meta, 0o644);
    let meta = json!({"uri": "echo://from-elsewhere", "provider": "echo"}).to_string();
    project.write("resources/echo.meta.json", &meta, 0o644);
    project.write("prompts/greeting.txt", "Hello ${name}, ${HOME}", 0o644);
    let meta = json!({"name": "prompt.greeting", "arguments": {"type": "object",
        "required": ["name"], "properties": {"name": {"type": "string"}}}});
    project.write("prompts/greeting.meta.json", &meta.to_string(), 0o644);
    project
}

/// A folder with the library and a provider.
fn installation() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in [("sdk/library.sh", LIBRARY), ("providers/echo.sh", PROVIDER)] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

async fn start(project: &Project, home: &Path, more: &[&str]) -> Http {
    let mut command = command();
    command
        .env("MCP_SDK", home.join("sdk"))
        .args(["--project-root", project.text()])
        .args(more);
    Http::start_command(&mut command, "2025-11-25").await
}

#[tokio::test]
async fn a_project_runs_unchanged_where_its_library_is_passed_on() {
    let (project, home) = (project(), installation());
    let http = start(&project, home.path(), &["--tool-env", "MCP_SDK"]).await;
    let mut stream = http.stream(None).await;
    http.rpc("logging/setLevel", json!({"level": "warning"}))
        .await;
    let params = json!({"name": "example.hello", "arguments": {"a": 1},
        "_meta": {"progressToken": "mine"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
    let progress = answer.next().await;
    assert_eq!(
        progress["params"],
        json!({"progressToken": "mine", "progress": 50.0, "total": 100.0, "message": "half"})
    );
    let result = ToolResult::read(&answer.next().await).ok();
    assert_eq!(result.text, "hello {\"a\":1}");
    let mut messages: Vec<Value> = Vec::new();
    while messages.len() < 2 {
        let message = stream.next().await;
        if message["method"] == "notifications/message" {
            messages.push(message["params"].clone());
        }
    }
    let levels: Vec<_> = messages.iter().map(|one| &one["level"]).collect();
    assert_eq!(levels, ["warning", "error"]);
    assert_eq!(messages[0]["logger"], "by.hand");
    assert_eq!(messages[0]["data"]["text"], "careful");
    let log = http.server.wait_for("a text with");
    let all = format!("{messages:?}{}{log:?}", http.server.log());
    assert!(!all.contains("swordfish"), "{all}");
    let read = http
        .rpc("resources/read", json!({"uri": "echo://from-elsewhere"}))
        .await;
    assert_eq!(read["result"]["contents"][0]["text"], "from-elsewhere");
    let asked = json!({"name": "prompt.greeting", "arguments": {"name": "Ann"}});
    let prompt = http.rpc("prompts/get", asked).await;
    let text = &prompt["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Hello Ann, ${HOME}");
}

#[tokio::test]
async fn a_library_that_is_not_passed_on_is_not_used() {
    let (project, home) = (project(), installation());
    let http = start(&project, home.path(), &[]).await;
    let answer = http.call("example.hello", json!({})).await;
    assert!(answer.is_error);
    assert!(
        answer.text.contains("MCP_SDK: the library is not there"),
        "{}",
        answer.text
    );
    let stats: Value = http.get("/stats").await.json().await.unwrap();
    let refused = stats["project"]["refused"].to_string();
    assert!(refused.contains("--tool-env MCP_SDK"), "{refused}");
}

#[tokio::test]
async fn a_hook_registers_by_the_functions_of_mcp_bash() {
    let project = Project::empty();
    let hook = r#"#!/usr/bin/env bash
set -euo pipefail
mcp_register_tool '{"name": "manual.tool", "path": "by-hand.sh"}'
mcp_prompts_manual_begin
mcp_prompts_manual_finalize
"#;
    project.write("server.d/register.sh", hook, 0o644);
    project.write("tools/by-hand.sh", "#!/bin/sh\necho by hand\n", 0o644);
    project.tool("found", "echo found");
    project.prompt("found", "text");
    let names = async |http: &Http, list: &str| {
        let answer = http.rpc(&format!("{list}/list"), json!({})).await;
        answer["result"][list].to_string()
    };
    let http = project.http(&["--allow-register-hook"]).await;
    let answer = http.call("manual.tool", json!({})).await.ok();
    assert_eq!(answer.text, "by hand");
    assert!(!names(&http, "tools").await.contains("\"found\""));
    assert!(!names(&http, "prompts").await.contains("\"found\""));
    let http = project.http(&[]).await;
    let tools = names(&http, "tools").await;
    assert!(tools.contains("\"found\"") && !tools.contains("manual.tool"));
    assert!(names(&http, "prompts").await.contains("\"found\""));
}

#[tokio::test]
async fn a_clone_that_the_group_may_write_is_served_after_the_command_in_its_log() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new();
    // As `git clone` leaves a folder under the umask 002.
    let made = Command::new("chmod")
        .args(["-R", "g+w", project.text()])
        .status();
    assert!(made.unwrap().success());
    let http = project.http(&[]).await;
    let tools = http.rpc("tools/list", json!({})).await;
    assert!(!tools.to_string().contains("test_tool"), "{tools}");
    // The first scan is before the line that says where the server listens.
    let log = http.server.log();
    let said: Vec<_> = log
        .lines()
        .filter(|line| line.contains("not served from the project folder"))
        .collect();
    assert_eq!(said.len(), 1, "{log}");
    let start = said[0].find("`chmod").expect("a command") + 1;
    let shown = said[0][start..].split('`').next().unwrap();
    assert!(shown.starts_with("chmod -R go-w /"), "{shown}");
    let mended = Command::new("sh").args(["-c", shown]).status();
    assert!(mended.unwrap().success());
    let mode = fs::metadata(project.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o022, 0);
    let answer = loop {
        let tools = http.rpc("tools/list", json!({})).await;
        if tools.to_string().contains("test_tool") {
            break http.call("test_tool", json!({})).await.ok();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(answer.text, "ok");
}
