//! Calls and reads, with real processes and files.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use super::*;
use crate::{Config, ReadError, ReservedNames};
use kubecrier_lifecycle::Lifecycle;

struct Bench {
    dir: tempfile::TempDir,
    project: Project,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            root: dir.path().to_owned(),
            allow_hook: false,
            ttl: Duration::ZERO,
            hook_ttl: Duration::ZERO,
            processes_max: 4,
            passed: Vec::new(),
        };
        let project = Project::new(
            config,
            ReservedNames::default(),
            |_, _| Ok(()),
            &Lifecycle::default(),
        );
        Self { dir, project }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn call(
        &self,
        script: &str,
        meta: Value,
        arguments: Value,
    ) -> Result<ToolAnswer, CallError> {
        self.write("tools/t/tool", &format!("#!/bin/bash\n{script}\n"));
        self.write("tools/t/tool.meta.json", &meta.to_string());
        let now = self.project.refresh().await;
        let target = CallTarget {
            kubeconfig: Some("/k/config".into()),
            context: Some("dev".to_owned()),
        };
        let tool = now
            .tool("t")
            .unwrap_or_else(|| panic!("{:?}", now.rejections));
        let arguments = arguments.as_object().unwrap();
        let call = self
            .project
            .start_call(Arc::clone(tool), arguments, &target);
        call.await?.answer().await
    }

    async fn text(&self, script: &str, arguments: Value) -> String {
        let answer = self.call(script, json!({}), arguments).await.unwrap();
        answer.content[0]["text"].as_str().unwrap().to_owned()
    }

    async fn read(&self, uri: &str) -> Result<String, ReadError> {
        self.project.refresh().await;
        let body = self
            .project
            .read(uri, &CallTarget::default(), str::to_owned)
            .await?;
        Ok(String::from_utf8(body.bytes).unwrap())
    }
}

#[tokio::test]
async fn arguments_arrive_on_stdin_and_as_variables() {
    let bench = Bench::new();
    let script = "echo $KUBECONFIG $KUBECRIER_CONTEXT $KUBECRIER_ARG_POD_NAME $KUBECRIER_ARG_N; \
                  echo $MCP_TOOL_NAME $MCP_TOOL_ARGS_JSON; cat";
    let text = bench
        .text(script, json!({"pod-name": "a b", "n": [1]}))
        .await;
    let given = r#"{"n":[1],"pod-name":"a b"}"#;
    assert_eq!(text, format!("/k/config dev a b [1]\nt {given}\n{given}"));
}

#[tokio::test]
async fn output_is_text_mcp_content_or_data() {
    let bench = Bench::new();
    let plain = bench
        .call("echo '{\"a\": 1}'", json!({}), json!({}))
        .await
        .unwrap();
    assert_eq!(
        plain.content,
        [json!({"type": "text", "text": "{\"a\": 1}"})]
    );
    assert_eq!(plain.structured, None);
    let data = bench
        .call("echo '{\"a\": 1}'", json!({"outputSchema": {}}), json!({}))
        .await
        .unwrap();
    assert_eq!(data.structured, Some(json!({"a": 1})));
    let whole =
        r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"y":1},"isError":true}"#;
    let whole = bench
        .call(&format!("echo '{whole}'"), json!({}), json!({}))
        .await
        .unwrap();
    let x = json!({"type": "text", "text": "x"});
    assert_eq!(
        whole,
        ToolAnswer {
            content: vec![x.clone()],
            structured: Some(json!({"y": 1})),
            is_error: true
        }
    );
    let list = bench
        .call(
            r#"echo '[{"type":"text","text":"x"}]'"#,
            json!({}),
            json!({}),
        )
        .await
        .unwrap();
    assert_eq!((list.content, list.is_error), (vec![x], false));
    for odd in ["[]", "[1]", r#"{"content": [{"type": "strange"}]}"#] {
        assert_eq!(bench.text(&format!("echo '{odd}'"), json!({})).await, odd);
    }
}

#[tokio::test]
async fn a_failure_has_status_stderr_and_hint() {
    let bench = Bench::new();
    let failed = bench
        .call("echo some; echo why >&2; exit 3", json!({}), json!({}))
        .await
        .unwrap();
    assert!(failed.is_error);
    assert_eq!(
        failed.content[0]["text"],
        "some\nit ended with exit code 3\nwhy"
    );
    let meta = json!({"timeoutSecs": 1, "timeoutHint": "ask for less"});
    let late = bench
        .call("sleep 30", meta, json!({}))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        late.contains("within 1 s") && late.contains("hint: ask for less"),
        "{late}"
    );
    let meta = json!({"inputSchema": {"required": ["pod"]}});
    let missing = bench
        .call("true", meta, json!({"pod": null}))
        .await
        .unwrap_err();
    assert_eq!(missing.to_string(), "the argument `pod` is missing");
    let meta = json!({"inputSchema": {"properties": {"pod": {"type": "string"}}}});
    let number = bench
        .call("true", meta, json!({"pod": 3}))
        .await
        .unwrap_err();
    assert!(matches!(number, CallError::Arguments(_)), "{number}");
    let nul = bench.call("true", json!({}), json!({"pod": "\0"})).await;
    assert!(matches!(nul, Err(CallError::Arguments(_))), "{nul:?}");
}

#[tokio::test]
async fn resources_are_read_and_nothing_outside_is() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    bench.write("resources/a.txt", "A");
    bench.write(
        "resources/a.meta.json",
        r#"{"uri": "file://./resources/a.txt"}"#,
    );
    bench.write("resources/books/full disk.md", "clean up");
    bench.write("resources/b.txt", "B");
    for secret in [
        "README.md",
        ".env",
        "resources/.git/config",
        "resources/books/.secret.md",
    ] {
        bench.write(secret, "never served");
    }
    bench.write(
        "resources/book.meta.json",
        r#"{"name": "b", "uriTemplate": "book://{name}", "path": "books/{name}.md"}"#,
    );
    bench.write(
        "resources/any.meta.json",
        r#"{"name": "any", "uriTemplate": "file://{+path}"}"#,
    );
    bench.write(
        "resources/up.meta.json",
        r#"{"name": "up", "uriTemplate": "up://{team}/{+path}", "provider": "up"}"#,
    );
    bench.write("providers/up.sh", "#!/bin/bash\n[ \"$KUBECRIER_ARG_PATH\" = none ] && exit 3\n\
        [ \"$KUBECRIER_ARG_PATH\" = bad ] && { echo no >&2; exit 5; }\necho \"$1 $KUBECRIER_ARG_TEAM\"\n");
    assert_eq!(bench.read("file://./resources/a.txt").await.unwrap(), "A");
    assert_eq!(bench.read("book://full%20disk").await.unwrap(), "clean up");
    assert_eq!(bench.read("up://db/x/y").await.unwrap(), "up://db/x/y db\n");
    let secret = outside.path().join("secret");
    for gone in [
        "up://db/none".to_owned(),
        "book://none".to_owned(),
        format!("file://{}", secret.display()),
        "file:///etc/passwd".to_owned(),
        "other://x".to_owned(),
    ] {
        let read = bench.read(&gone).await;
        assert!(matches!(read, Err(ReadError::NotFound)), "{gone}: {read:?}");
    }
    for (refused, why) in [
        ("book://..%2F..%2F..%2Fetc%2Fpasswd%00", "NUL"),
        ("book://..%2F..%2FREADME", "`/` is not allowed"),
        ("file://../../etc/passwd", "`..`"),
        ("file://./README.md", "in `resources/` only"),
        ("file://./.env", "hidden"),
        ("file://./resources/.git/config", "hidden"),
        ("book://.secret", "hidden"),
        ("up://..%2F/x", "`/` is not allowed"),
    ] {
        let error = bench.read(refused).await.unwrap_err();
        assert!(matches!(error, ReadError::Uri(_)), "{refused}: {error}");
        assert!(error.to_string().contains(why), "{refused}: {error}");
        assert_eq!(bench.project.stamp(refused), None, "{refused}");
    }
    assert_eq!(bench.read("file://./resources/b.txt").await.unwrap(), "B");
    let failed = bench.read("up://db/bad").await.unwrap_err().to_string();
    assert!(failed.contains("exit code 5: no"), "{failed}");
    std::os::unix::fs::symlink(&secret, bench.dir.path().join("resources/books/link.md")).unwrap();
    assert!(matches!(
        bench.read("book://link").await,
        Err(ReadError::NotFound)
    ));
}
