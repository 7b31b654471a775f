//! Projects in the shapes of mcp-bash, as a checkout of them is.

use super::*;

fn mode(project: &Project, path: &str, mode: u32) {
    let path = project.dir.path().join(path);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_script_without_the_run_bit_is_a_tool_by_its_first_line() {
    let mut project = Project::new();
    for (name, file, text) in [
        ("script", "tool.sh", "#!/usr/bin/env bash\necho hi\n"),
        ("dotted.name", "tool.py", "#!/usr/bin/python3 -I\n"),
        ("text", "tool.md", "Not a script\n"),
        ("relative", "tool.sh", "#!bash\n"),
        ("other", "run.sh", "#!/bin/sh\n"),
    ] {
        project.write(&format!("tools/{name}/{file}"), text);
        project.write(&format!("tools/{name}/tool.meta.json"), "{}");
    }
    // A text beside the executable does not stand for it.
    project.tool("both");
    project.write("tools/both/tool.md", "About it\n");
    let (names, mut rejected) = project.tools();
    assert_eq!(names, ["both", "dotted.name", "script"]);
    rejected.sort();
    assert_eq!(rejected, ["tools/other", "tools/relative", "tools/text"]);
    let before = project.scan().hashes.tools.clone();
    // The content decides, so the run bit changes nothing that clients see.
    mode(&project, "tools/script/tool.sh", 0o755);
    assert_eq!(project.scan().hashes.tools, before);
}

#[test]
fn a_checkout_that_the_group_may_write_says_once_how_to_mend_it() {
    let mut project = Project::new();
    for name in ["a", "b", "c"] {
        project.tool(name);
        mode(&project, &format!("tools/{name}/tool.sh"), 0o775);
        mode(&project, &format!("tools/{name}/tool.meta.json"), 0o664);
    }
    project.tool("good");
    project.write("prompts/p.md", "x");
    mode(&project, "prompts/p.md", 0o664);
    let found = project.scan();
    assert_eq!(found.tools.len(), 1);
    let [only] = &found.rejections[..] else {
        panic!("{:#?}", found.rejections);
    };
    let command = format!("`chmod -R go-w {}`", project.dir.path().display());
    assert!(only.reason.ends_with(&command), "{}", only.reason);
    assert!(
        only.reason.contains("others may write 4 files"),
        "{}",
        only.reason
    );
    // The folder itself, of which then nothing more is read.
    mode(&project, "", 0o775);
    let found = project.scan();
    let [only] = &found.rejections[..] else {
        panic!("{:#?}", found.rejections);
    };
    assert!(only.reason.ends_with(&command), "{}", only.reason);
    mode(&project, "", 0o755);
    // A single one is named.
    for name in ["a", "b", "c"] {
        fs::remove_dir_all(project.dir.path().join("tools").join(name)).unwrap();
    }
    let found = project.scan();
    let command = format!("`chmod go-w {}/prompts/p.md`", project.dir.path().display());
    assert_eq!(found.rejections[0].path, "prompts/p.md");
    assert!(found.rejections[0].reason.ends_with(&command));
}

#[test]
fn providers_of_an_installation_are_used_and_checked() {
    let project = Project::new();
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "providers/echo.sh", "#!/bin/sh\n");
    write(home.path(), "providers/git.sh", "#!/bin/sh\n");
    write(home.path(), "providers/plain.sh", "echo\n");
    write(home.path(), "secret.sh", "#!/bin/sh\n");
    for (name, meta) in [
        ("echo", r#"{"uri": "echo://a", "provider": "echo"}"#),
        (
            "git",
            r#"{"name": "g", "uriTemplate": "git+https://{host}/{+path}"}"#,
        ),
        ("plain", r#"{"uri": "x://plain", "provider": "plain"}"#),
        ("up", r#"{"uri": "x://up", "provider": "../secret"}"#),
        ("none", r#"{"uri": "x://none", "provider": "none"}"#),
    ] {
        project.write(&format!("resources/{name}.meta.json"), meta);
    }
    let Project { dir, scanner } = project;
    let scanner = scanner.with_mcp_bash(Some(home.path().to_owned()));
    let mut project = Project { dir, scanner };
    let found = project.scan();
    let uris: Vec<_> = found.resources.iter().map(|one| one.uri.as_str()).collect();
    assert_eq!((uris, found.templates.len()), (vec!["echo://a"], 1));
    assert_eq!(found.rejections.len(), 3, "{:#?}", found.rejections);
    let ContentSource::Command(program) = &found.templates[0].backing else {
        panic!("{:?}", found.templates[0].backing);
    };
    assert_eq!(program.file, "mcp-bash/providers/git.sh");
    assert_eq!(program.root, home.path());
    // What another user could have written is not run.
    fs::set_permissions(
        home.path().join("providers/echo.sh"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    let found = project.scan();
    assert!(found.resources.is_empty());
    // The project's own comes first.
    executable(project.dir.path(), "providers/echo", "#!/bin/sh\n");
    let found = project.scan();
    let ContentSource::Command(program) = &found.resources[0].backing else {
        panic!("{:?}", found.resources[0].backing);
    };
    assert_eq!(program.file, "providers/echo");
    // Without an installation there is none of them.
    let mut alone = Scanner::new(
        project.dir.path().to_owned(),
        ReservedNames::default(),
        |_, _| Ok(()),
    );
    assert!(alone.scan(&HookResult::default()).templates.is_empty());
}
