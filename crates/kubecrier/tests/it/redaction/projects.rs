//! The corpus of secrets on its way through what a project's folder serves.

use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::corpus::{Pack, Secrets};
use crate::harness::{Http, Project, Stream};

const FILE: &str = r#""$KUBECRIER_PROJECT_ROOT/packs/$KUBECRIER_ARG_PACK""#;

/// Tools by name, and what they do with the file of a pack.
fn scripts() -> Vec<(&'static str, String)> {
    vec![
        ("prints", format!("cat {FILE}.txt")),
        (
            "fails",
            format!("cat {FILE}.txt; cat {FILE}.txt >&2; exit 1"),
        ),
        (
            "prints_a_bad_byte",
            format!("cat {FILE}.txt; printf '\\377\\n'"),
        ),
        ("embeds", format!("cat {FILE}.content.json")),
        ("structures", format!("cat {FILE}.structured.json")),
        (
            "tells",
            format!(
                "cat {FILE}.progress.json {FILE}.messages.json >&$KUBECRIER_PROGRESS; cat {FILE}.txt >&2; \
                 sleep 0.3; echo met"
            ),
        ),
    ]
}

/// Content of every kind that the protocol has for text.
fn content(pack: &Pack) -> Value {
    let text = format!("{}\n{}", pack.marker, pack.text);
    let blob = BASE64_STANDARD.encode(&text);
    let bad = BASE64_STANDARD.encode([text.as_bytes(), b"\xff"].concat());
    json!({"content": [
        {"type": "text", "text": text},
        {"type": "resource", "resource": {"uri": "leak://text", "text": text}},
        {"type": "resource", "resource": {"uri": "leak://blob", "blob": blob}},
        {"type": "resource", "resource": {"uri": "leak://bad", "mimeType": "text/plain", "blob": bad}},
        {"type": "resource_link", "uri": "leak://link", "name": "link", "title": text, "description": text},
    ]})
}

/// A folder that serves every pack in every way.
fn project_of(packs: &[Pack]) -> Project {
    let project = Project::empty();
    let about = &packs[0].text;
    let argument = json!({"type": "object", "properties": {"pack": {"type": "string"}}});
    for (tool, script) in scripts() {
        project.tool(tool, &script);
        let mut meta = json!({"description": about, "title": about, "inputSchema": argument});
        if tool == "structures" {
            meta["outputSchema"] = json!({"type": "object"});
        }
        project.meta(tool, &meta);
    }
    let provider = |name: &str, script: &str| {
        let script = format!("#!/bin/bash\n{script}\n");
        project.write(&format!("providers/{name}.sh"), &script, 0o755);
        let meta = json!({"name": name, "description": about, "uriTemplate": format!("{name}://{{pack}}"), "provider": name});
        let path = format!("resources/{name}.meta.json");
        project.write(&path, &meta.to_string(), 0o644);
    };
    provider("made", &format!("cat {FILE}.txt"));
    provider("badly-made", &format!("cat {FILE}.txt; printf '\\377\\n'"));
    provider("unmade", &format!("cat {FILE}.txt >&2; exit 1"));
    for pack in packs {
        let marker = &pack.marker;
        let text = format!("{marker}\n{}", pack.text);
        let write = |ending: &str, text: &str| {
            project.write(&format!("packs/{marker}.{ending}"), text, 0o644);
        };
        write("txt", &text);
        write("content.json", &content(pack).to_string());
        write("structured.json", &json!({"note": text}).to_string());
        let progress = json!({"progress": 1, "total": 2, "message": text});
        write("progress.json", &format!("{progress}\n"));
        let said = [json!(text), json!({"note": [text]})].map(|data| {
            let params = json!({"level": "info", "logger": "library", "data": data});
            json!({"method": "notifications/message", "params": params}).to_string()
        });
        write("messages.json", &format!("{}\n", said.join("\n")));
        project.resource(marker, &text);
        let bad = project.path().join(format!("resources/bad-{marker}.txt"));
        fs::write(&bad, [text.as_bytes(), b"\xff\n"].concat()).unwrap();
        fs::set_permissions(&bad, fs::Permissions::from_mode(0o644)).unwrap();
        let meta = json!({"name": format!("bad-{marker}"), "description": text}).to_string();
        project.write(&format!("resources/bad-{marker}.meta.json"), &meta, 0o644);
        project.prompt(marker, &text);
        let meta = json!({"description": text}).to_string();
        project.write(&format!("prompts/{marker}.meta.json"), &meta, 0o644);
        let read = json!({"type": "resource", "resource": {"uri": format!("made://{marker}")}});
        let contents = content(pack)["content"].as_array().unwrap().clone();
        let messages: Vec<_> = (contents.iter().chain([&read]))
            .map(|content| json!({"role": "user", "content": content}))
            .collect();
        let messages = json!({"messages": messages}).to_string();
        project.write(&format!("prompts/messages-{marker}.json"), &messages, 0o644);
    }
    project
}

/// Calls a tool and checks everything that comes on the stream of its answer.
async fn call(http: &Http, tool: &str, pack: &Pack, secrets: &Secrets) {
    let params = json!({
        "name": tool, "arguments": {"pack": pack.marker}, "_meta": {"progressToken": "t"},
    });
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let mut answer = Stream::at(http.post(&call).await, "2025-11-25");
    let mut progress = 0;
    loop {
        let message = answer.next().await;
        secrets.are_not_in_message(tool, &message);
        if message["method"] == "notifications/progress" {
            progress += 1;
        } else {
            let shows = if tool == "tells" { "met" } else { &pack.marker };
            assert!(message.to_string().contains(shows), "{tool}: {message}");
            break;
        }
    }
    assert_eq!(progress > 0, tool == "tells", "{tool}");
}

/// Everything in all pages of a list.
async fn listed(http: &Http, method: &str, key: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let asked = match &cursor {
            Value::Null => json!({}),
            cursor => json!({"cursor": cursor}),
        };
        let mut page = http.rpc(method, asked).await;
        cursor = page["result"]["nextCursor"].take();
        let Value::Array(items) = page["result"][key].take() else {
            panic!("{method}: {page}")
        };
        all.extend(items);
        if cursor.is_null() {
            return all;
        }
    }
}

#[tokio::test]
async fn nothing_of_a_project_lets_a_secret_of_the_corpus_out() {
    let secrets = Secrets::choose(100);
    let project = project_of(&secrets.packs);
    let http = project.http(&["--log-level", "debug"]).await;
    let mut stream = http.stream(None).await;
    http.rpc("logging/setLevel", json!({"level": "debug"}))
        .await;
    let tools = listed(&http, "tools/list", "tools").await;
    for (tool, _) in scripts() {
        assert!(tools.iter().any(|one| one["name"] == tool), "{tool}");
        for pack in &secrets.packs {
            call(&http, tool, pack, &secrets).await;
        }
    }
    secrets.are_not_in_message("tools/list", &json!(tools));
    // What tools wrote to stderr, as log messages.
    let last = &secrets.packs[secrets.packs.len() - 1].marker;
    let mut awaited = ["fails", "tells", "library"].to_vec();
    while !awaited.is_empty() {
        let message = stream.next().await;
        secrets.are_not_in_message("a log message", &message);
        let params = &message["params"];
        let end = params["data"].to_string().contains(last.as_str());
        awaited.retain(|tool| !(end && params["logger"] == *tool));
    }
    let resources = listed(&http, "resources/list", "resources").await;
    assert!(resources.len() >= 2 * secrets.packs.len(), "{resources:?}");
    let templates = listed(&http, "resources/templates/list", "resourceTemplates").await;
    secrets.are_not_in_message("lists of resources", &json!([resources, templates]));
    let mut uris: Vec<_> = resources
        .iter()
        .map(|one| one["uri"].as_str().unwrap().to_owned())
        .filter(|uri| !uri.starts_with("k8s:"))
        .collect();
    for pack in &secrets.packs {
        let of_providers = ["made", "badly-made", "unmade"];
        uris.extend(of_providers.map(|name| format!("{name}://{}", pack.marker)));
    }
    for uri in uris {
        let read = http.rpc("resources/read", json!({"uri": uri})).await;
        secrets.are_not_in_message(&uri, &read);
    }
    let prompts = listed(&http, "prompts/list", "prompts").await;
    secrets.are_not_in_message("prompts/list", &json!(prompts));
    for pack in &secrets.packs {
        for name in [pack.marker.clone(), format!("messages-{}", pack.marker)] {
            let prompt = http.rpc("prompts/get", json!({"name": name})).await;
            assert!(prompt.to_string().contains(&pack.marker), "{prompt}");
            secrets.are_not_in_message("prompts/get", &prompt);
        }
    }
    let stats = http.get("/stats").await.text().await.unwrap();
    secrets.are_not_in("/stats", &stats);
    secrets.are_not_in("the log", &http.server.log());
}
