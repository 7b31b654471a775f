//! Schemas and files that are refused at the scan.

use super::*;

#[test]
fn a_schema_that_cannot_be_enforced_is_rejected() {
    let mut project = Project::new();
    for (name, schema) in [
        ("good", r#"{"properties": {"a": {"type": "string"}}}"#),
        ("kind", r#"{"properties": {"a": {"type": "str"}}}"#),
        ("clash", r#"{"properties": {"a-b": {}, "a_b": {}}}"#),
        (
            "far",
            r#"{"properties": {"a": {"$ref": "https://example.com/a"}}}"#,
        ),
    ] {
        project.tool(name);
        let meta = format!(r#"{{"description": "d", "inputSchema": {schema}}}"#);
        project.write(&format!("tools/{name}/tool.meta.json"), &meta);
    }
    let found = project.scan();
    assert_eq!(found.tools.len(), 1);
    let rejected: Vec<_> = found
        .rejections
        .iter()
        .map(|one| (one.path.as_str(), one.reason.contains("inputSchema")))
        .collect();
    assert_eq!(
        rejected,
        [
            ("tools/clash/tool.meta.json", false),
            ("tools/far/tool.meta.json", true),
            ("tools/kind/tool.meta.json", true),
        ]
    );
    // Nothing flaps: the hash stays the same until a file changes.
    assert_eq!(project.scan().hashes, found.hashes);
}

#[test]
fn hidden_files_are_no_resources() {
    let mut project = Project::new();
    project.write(".env", "x");
    project.write("resources/.git/config", "x");
    for (name, meta) in [
        ("a", r#"{"uri": "file://./.env"}"#),
        ("b", r#"{"uri": "x://b", "path": ".git/config"}"#),
        (
            "c",
            r#"{"name": "c", "uriTemplate": "x://{n}", "path": "../{n}"}"#,
        ),
        (
            "d",
            r#"{"name": "d", "uriTemplate": "x://{n}", "path": ".git/{n}"}"#,
        ),
        (
            "e",
            r#"{"name": "e", "uriTemplate": "x://{n}/{N}", "provider": "p"}"#,
        ),
    ] {
        project.write(&format!("resources/{name}.meta.json"), meta);
    }
    executable(project.dir.path(), "providers/p", "#!/bin/sh\n");
    let found = project.scan();
    assert!(found.resources.is_empty() && found.templates.is_empty());
    assert_eq!(found.rejections.len(), 5, "{:#?}", found.rejections);
}
