//! Prompts that are written as messages.

use super::*;

const ONE: &str = r#"{"messages": [
    {"role": "assistant", "content": {"type": "text", "text": "about {{what}}"}},
    {"role": "user", "content": {"type": "image", "mimeType": "image/png", "path": "media/a.png"}}]}"#;

#[test]
fn messages_show_files_beside_them() {
    let mut project = Project::new();
    project.write("prompts/show.json", ONE);
    project.write("prompts/media/a.png", "\u{0}PNG");
    project.write("prompts/plain.md", "text");
    let found = project.scan();
    assert!(found.rejections.is_empty(), "{:?}", found.rejections);
    let names: Vec<_> = found.prompts.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["plain", "show"],
        "a file that is shown is no prompt"
    );
    let show = found.prompt("show").unwrap();
    assert_eq!(show.arguments[0].name, "what");
    assert_eq!(show.messages[0]["role"], "assistant");
    assert_eq!(
        show.messages[1]["content"],
        json!({"type": "image", "mimeType": "image/png", "data": "AFBORw=="})
    );
    // Another image is another prompt.
    project.write("prompts/media/a.png", "\u{0}GNP!");
    let changed = project.scan();
    assert_ne!(changed.hashes.prompts, found.hashes.prompts);
    assert_eq!(changed.hashes.tools, found.hashes.tools);
}

#[test]
fn messages_show_no_file_from_elsewhere() {
    let mut project = Project::new();
    project.write("secret", "x");
    for (name, path) in [
        ("up", "../secret"),
        ("gone", "none.png"),
        ("far", "/etc/hostname"),
    ] {
        project.write(
            &format!("prompts/{name}.json"),
            &ONE.replace("media/a.png", path),
        );
    }
    project.write("prompts/text.json", "no JSON");
    let large = "x".repeat((1 << 20) + 1);
    project.write("prompts/large.bin", &large);
    project.write(
        "prompts/large.json",
        &ONE.replace("media/a.png", "large.bin"),
    );
    let found = project.scan();
    assert!(found.prompts.is_empty(), "{:?}", found.prompts);
    assert_eq!(found.rejections.len(), 5, "{:#?}", found.rejections);
}
