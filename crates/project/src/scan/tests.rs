//! Discovery, rejection, and that no item is ever lost.

mod mcp_bash;
mod messages;
mod refused;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::json;
use tokio::time::{Duration, Instant};

use super::*;
use crate::item::ContentSource;

/// The names and texts of prompts.
type Texts = BTreeSet<(String, String)>;

struct Project {
    dir: tempfile::TempDir,
    scanner: Scanner,
}

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let reserved = ReservedNames {
            tools: vec!["pods_list".to_owned()],
            schemes: vec!["k8s".to_owned()],
        };
        let scanner = Scanner::new(dir.path().to_owned(), reserved, |_, _| Ok(()));
        Self { dir, scanner }
    }

    fn write(&self, path: &str, text: &str) {
        write(self.dir.path(), path, text);
    }

    fn tool(&self, name: &str) {
        tool(self.dir.path(), name);
    }

    fn scan(&mut self) -> Arc<Snapshot> {
        self.scanner.scan(&HookResult::default())
    }

    /// The names of the tools, and the paths that are rejected.
    fn tools(&mut self) -> (Vec<String>, Vec<String>) {
        let found = self.scan();
        let names = found.tools.iter().map(|tool| tool.name.clone()).collect();
        let rejected = found
            .rejections
            .iter()
            .map(|one| one.path.clone())
            .collect();
        (names, rejected)
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn executable(root: &Path, path: &str, text: &str) {
    write(root, path, text);
    fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn tool(root: &Path, name: &str) {
    executable(root, &format!("tools/{name}/tool.sh"), "#!/bin/sh\n");
    write(
        root,
        &format!("tools/{name}/tool.meta.json"),
        "{\"description\": \"d\"}",
    );
}

#[test]
fn one_bad_tool_never_hides_the_good_ones() {
    let mut project = Project::new();
    for name in ["good", "broken", "loose", "plain", "linked", "twin"] {
        project.tool(name);
    }
    let root = project.dir.path().to_owned();
    project.write("tools/broken/tool.meta.json", "{");
    project.write("tools/loose/helper", "");
    fs::set_permissions(
        root.join("tools/loose/helper"),
        fs::Permissions::from_mode(0o666),
    )
    .unwrap();
    fs::remove_file(root.join("tools/plain/tool.sh")).unwrap();
    project.write("tools/plain/tool.sh", "echo no first line\n");
    symlink("/bin/sh", root.join("tools/linked/shell")).unwrap();
    project.write("tools/twin/tool.meta.json", "{\"name\": \"good\"}");
    fs::create_dir(root.join("tools/empty")).unwrap();
    executable(&root, "tools/stray.sh", "");
    executable(&root, "tools/nameless/tool", "");
    executable(&root, "tools/b ad/tool", "");
    project.write("tools/b ad/tool.meta.json", "{}");
    project.write("tools/README.md", "");
    let (names, mut rejected) = project.tools();
    assert_eq!(names, ["good"]);
    rejected.sort();
    assert_eq!(
        rejected,
        [
            "tools/b ad/tool.meta.json",
            "tools/broken/tool.meta.json",
            "tools/empty",
            "tools/linked/shell",
            "tools/loose/helper",
            "tools/nameless",
            "tools/plain",
            "tools/stray.sh",
            "tools/twin",
        ]
    );
}

#[test]
fn a_built_in_name_wins_and_the_file_is_reported() {
    let mut project = Project::new();
    project.tool("pods_list");
    let found = project.scan();
    assert!(found.tools.is_empty());
    assert!(
        found.rejections[0].reason.contains("shadowed"),
        "{:?}",
        found.rejections
    );
    project.write(
        "resources/a.meta.json",
        r#"{"name": "a", "uri": "K8S://x", "provider": "file"}"#,
    );
    assert!(project.scan().rejections[1].reason.contains("shadowed"));
}

#[test]
fn the_hash_follows_content_and_nothing_else() {
    let mut project = Project::new();
    project.tool("a");
    let first = project.scan().hashes.clone();
    // Touched, copied, written again, another file beside it: all the same.
    project.tool("a");
    project.write("tools/a/notes.txt", "n");
    assert_eq!(project.scan().hashes, first);
    let path = project.dir.path().join("tools/a/tool.sh");
    fs::rename(&path, path.with_extension("tmp")).unwrap();
    fs::copy(path.with_extension("tmp"), &path).unwrap();
    fs::remove_file(path.with_extension("tmp")).unwrap();
    assert_eq!(project.scan().hashes, first);
    executable(project.dir.path(), "tools/a/tool.sh", "#!/bin/sh\necho\n");
    let second = project.scan().hashes.clone();
    assert_ne!(second.tools, first.tools, "what runs counts");
    assert_eq!(
        (second.prompts, second.resources),
        (first.prompts.clone(), first.resources.clone())
    );
    project.tool("a");
    assert_eq!(project.scan().hashes, first, "and back");
    // Another scanner, another folder: the same content.
    let mut other = Project::new();
    other.tool("a");
    assert_eq!(other.scan().hashes, first);
}

#[test]
fn resources_are_files_templates_or_commands() {
    let mut project = Project::new();
    let root = project.dir.path().to_owned();
    project.write("resources/hello.txt", "hi");
    project.write(
        "resources/hello.meta.json",
        r#"{"name": "h", "uri": "file://./resources/hello.txt"}"#,
    );
    project.write("resources/deep/note.md", "n");
    project.write(
        "resources/deep/note.md.meta.json",
        r#"{"description": "no uri"}"#,
    );
    project.write(
        "resources/book.meta.json",
        r#"{"name": "b", "uriTemplate": "book://{name}", "path": "books/{name}.md"}"#,
    );
    project.write(
        "resources/disk.meta.json",
        r#"{"name": "d", "uri": "disk://all", "provider": "disk", "mimeType": "text/plain"}"#,
    );
    executable(&root, "providers/disk.sh", "");
    // Resources that are rejected.
    project.write(
        "resources/out.meta.json",
        r#"{"name": "o", "uri": "file:///etc/passwd"}"#,
    );
    project.write(
        "resources/up.meta.json",
        r#"{"name": "u", "uri": "file://./../x"}"#,
    );
    project.write(
        "resources/both.meta.json",
        r#"{"name": "2", "uri": "a:b", "uriTemplate": "a:{b}"}"#,
    );
    project.write(
        "resources/git.meta.json",
        r#"{"name": "g", "uri": "git+https://x/y", "provider": "git"}"#,
    );
    project.write(
        "resources/fixed.meta.json",
        r#"{"name": "f", "uriTemplate": "x://y", "path": "z"}"#,
    );
    let found = project.scan();
    let uris: Vec<_> = found.resources.iter().map(|one| one.uri.as_str()).collect();
    assert_eq!(
        uris,
        [
            "disk://all",
            "file://./resources/deep/note.md",
            "file://./resources/hello.txt"
        ]
    );
    assert_eq!(
        found
            .resource("file://./resources/hello.txt")
            .unwrap()
            .backing,
        ContentSource::File(Some("resources/hello.txt".to_owned()))
    );
    assert!(matches!(
        &found.resource("disk://all").unwrap().backing,
        ContentSource::Command(_)
    ));
    assert_eq!(found.templates.len(), 1);
    assert_eq!(found.rejections.len(), 5, "{:#?}", found.rejections);
    // The command's bytes count for the resources' hash.
    let before = found.hashes.clone();
    executable(&root, "providers/disk.sh", "df");
    assert_ne!(project.scan().hashes.resources, before.resources);
}

#[test]
fn prompts_have_a_text_and_a_meta() {
    let mut project = Project::new();
    project.write("prompts/greeting.txt", "Hi {{name}}");
    project.write("prompts/greeting.meta.json", r#"{"name": "prompt.greeting", "arguments": {"type": "object", "required": ["name"], "properties": {"name": {}}}}"#);
    project.write("prompts/deep/bare.md", "{{what}}?");
    project.write("prompts/README.md", "");
    project.write("prompts/bad.txt", "x");
    project.write("prompts/bad.meta.json", r#"{"role": "nobody"}"#);
    let found = project.scan();
    let names: Vec<_> = found.prompts.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["bare", "prompt.greeting"]);
    assert_eq!(
        found.prompt("prompt.greeting").unwrap().definition["arguments"],
        json!([{"name": "name", "required": true}])
    );
    assert_eq!(found.rejections.len(), 1, "{:#?}", found.rejections);
    let before = found.hashes.clone();
    project.write("prompts/greeting.txt", "Hello {{name}}");
    assert_ne!(
        project.scan().hashes.prompts,
        before.prompts,
        "an edited text counts"
    );
}

#[test]
fn a_registration_wins_over_the_folder() {
    let mut project = Project::new();
    project.tool("found");
    executable(project.dir.path(), "tools/by-hand.sh", "");
    project.write("prompts/a.txt", "a");
    project.write(
        "server.d/register.json",
        r#"{"version": 1, "prompts": [], "tools": [
            {"name": "by-hand", "path": "by-hand.sh", "timeoutSecs": 8},
            {"name": "no good", "path": "by-hand.sh"},
            {"name": "gone", "path": "gone.sh"},
            {"name": "up", "path": "../tools/by-hand.sh"},
            {"path": "by-hand.sh"}]}"#,
    );
    let found = project.scan();
    assert_eq!(found.tools.len(), 1);
    assert_eq!(found.tool("by-hand").unwrap().timeout.as_secs(), 8);
    assert!(found.prompts.is_empty(), "an empty list is none");
    assert_eq!(found.rejections.len(), 4, "{:#?}", found.rejections);
    let good = found.hashes.clone();
    // A broken file only adds a rejection.
    project.write("server.d/register.json", "{\"version\": 1, \"tools\": [");
    let broken = project.scan();
    assert_eq!(broken.hashes, good);
    assert_eq!(broken.rejections[0].path, "server.d/register.json");
    // At the start there is nothing to fall back to: better none than too many.
    let mut fresh = Scanner::new(
        project.dir.path().to_owned(),
        ReservedNames::default(),
        |_, _| Ok(()),
    );
    assert!(fresh.scan(&HookResult::default()).tools.is_empty());
    fs::remove_file(project.dir.path().join("server.d/register.json")).unwrap();
    assert!(project.scan().tool("found").is_some());
}

#[test]
fn a_hook_counts_where_there_is_no_register_json() {
    let mut project = Project::new();
    project.tool("found");
    project.write("prompts/a.txt", "a");
    let registration = Registration::parse(br#"{"version": 1, "tools": []}"#).unwrap();
    let hook = HookResult {
        registration: Some(Arc::new(registration)),
        rejection: None,
    };
    let found = project.scanner.scan(&hook);
    assert_eq!((found.tools.len(), found.prompts.len()), (0, 1));
    project.write("server.d/register.json", r#"{"version": 1, "prompts": []}"#);
    let found = project.scanner.scan(&hook);
    assert_eq!((found.tools.len(), found.prompts.len()), (1, 0));
}

#[test]
fn a_folder_that_goes_and_comes_back() {
    let mut project = Project::new();
    project.tool("a");
    let there = project.scan().hashes.clone();
    let (root, aside) = (
        project.dir.path().to_owned(),
        project.dir.path().with_extension("aside"),
    );
    fs::rename(&root, &aside).unwrap();
    let gone = project.scan();
    assert!(gone.tools.is_empty());
    assert_eq!(gone.rejections[0].path, ".");
    assert!(!gone.hashes.tools.is_empty(), "none is known, not unknown");
    fs::rename(&aside, &root).unwrap();
    assert_eq!(project.scan().hashes, there);
}

#[test]
fn a_definition_that_clients_could_not_read_is_rejected() {
    let mut project = Project::new();
    project.tool("a");
    project.scanner.validate = |_, _| Err("no client could".to_owned());
    assert_eq!(project.scan().rejections[0].reason, "no client could");
}

#[test]
fn an_item_added_during_a_scan_is_never_lost() {
    const ROUNDS: usize = 4_000;
    let mut project = Project::new();
    let root = project.dir.path().to_owned();
    let done = AtomicBool::new(false);
    // Prompts are one file each, so thousands of them are quickly made.
    let mut last: Option<(ContentHash, Texts)> = None;
    let mut check = |found: &Snapshot| {
        let text = |one: &Arc<PromptItem>| {
            let text = one.messages[0]["content"]["text"].as_str();
            (one.name.clone(), text.unwrap().to_owned())
        };
        let now: Texts = found.prompts.iter().map(text).collect();
        // A session that compares hashes learns of every item.
        if let Some((hash, before)) = &last {
            let same = *hash == found.hashes.prompts;
            assert_eq!(same, *before == now, "the hash is that of the items");
        }
        let count = now.len();
        last = Some((found.hashes.prompts.clone(), now));
        count
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..ROUNDS {
                write(&root, &format!("prompts/{}/p{turn}.txt", turn % 64), "text");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            check(&project.scanner.scan(&HookResult::default()));
        }
    });
    assert_eq!(check(&project.scanner.scan(&HookResult::default())), ROUNDS);
}

#[test]
fn a_thousand_tools_are_not_read_again() {
    let mut project = Project::new();
    for turn in 0..1_000 {
        project.tool(&format!("t{turn}"));
    }
    let began = Instant::now();
    assert_eq!(project.scan().tools.len(), 1_000);
    let first = began.elapsed();
    // Until the file system's clock has moved on, files are read to be sure.
    let settled = Duration::from_millis(3_100);
    thread::park_timeout(settled);
    project.scan();
    let reads = project.scanner.reads();
    let before = project.scan();
    let again = project.scan();
    // The best of several runs, because the machine may be busy.
    let best = (0..30).map(|_| {
        let began = Instant::now();
        project.scan();
        began.elapsed()
    });
    let best = best.min().unwrap();
    println!("1,000 tools: first scan {first:?}, a rescan without change {best:?}");
    // The limit holds for the release build.
    if !cfg!(debug_assertions) {
        assert!(first < Duration::from_secs(1), "first scan {first:?}");
        assert!(best < Duration::from_millis(20), "rescan {best:?}");
    }
    assert_eq!(
        project.scanner.reads(),
        reads,
        "nothing changed, nothing is read"
    );
    assert_eq!(before.hashes, again.hashes);
    assert!(
        before
            .tools
            .iter()
            .zip(&again.tools)
            .all(|(a, b)| Arc::ptr_eq(a, b))
    );
    project.write("tools/t7/tool.meta.json", "{\"description\": \"e\"}");
    let changed = project.scan();
    assert_eq!(
        project.scanner.reads(),
        reads + 1,
        "one changed, one is read"
    );
    assert_ne!(changed.hashes, again.hashes);
}
