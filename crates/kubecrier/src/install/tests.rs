use std::fs;

use clap::{Parser, ValueEnum};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{entry::Node, *};
use crate::{
    cli::{Args, Command},
    clients::{CLIENTS, ClientName, FileFormat},
};

fn args(words: &[&str]) -> InstallArgs {
    let words = ["kubecrier", "install"].iter().chain(words);
    match Args::try_parse_from(words).unwrap().command {
        Some(Command::Install(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn name(client: &McpClient) -> String {
    let value = client.id.to_possible_value().unwrap();
    value.get_name().to_owned()
}

fn document(format: FileFormat, key: &'static str) -> Document {
    let client = CLIENTS.iter().flat_map(|client| client.files);
    let mut files = client.filter(|file| file.format == format && file.key == key);
    Document::new(files.next().unwrap())
}

fn jsonc() -> Document {
    document(FileFormat::Jsonc, "mcpServers")
}

fn node(command: &str) -> Node {
    Node::Map(vec![
        ("command", Node::Text(command.to_owned())),
        (
            "args",
            Node::List(vec!["--context".to_owned(), "a \"b\"".to_owned()]),
        ),
        (
            "headers",
            Node::Map(vec![("Authorization", Node::Text("x".to_owned()))]),
        ),
    ])
}

/// The text after an installation, and what is kept for its end.
fn installed(
    document: &Document,
    command: &str,
    before: Option<&str>,
    backup: Option<&str>,
) -> Result<(String, Option<String>), EditError> {
    let node = node(command);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let content = Content::Entry(&node);
    let change = install(document, &content, owned(before), owned(backup))?;
    let backup = match change.backup {
        Backup::Write => change.before,
        Backup::Keep => owned(backup),
        Backup::Remove => None,
    };
    Ok((change.after.unwrap(), backup))
}

fn set(document: &Document, text: &str) -> String {
    let node = node("k");
    document.set(text, Content::Entry(&node)).unwrap()
}

const ENTRY: &str = r#""kubecrier": {
      "command": "k",
      "args": ["--context", "a \"b\""],
      "headers": {
        "Authorization": "x"
      }
    }"#;

#[test]
fn comments_commas_and_blank_lines_of_others_stay() {
    let check = |before: &str, after: &str| {
        let after = after.replace("ENTRY", ENTRY);
        assert_eq!(set(&jsonc(), before), after);
    };
    check(
        "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {}, // one\n\n    /* two */ \"b\": {} // three\n    // four\n\n  }\n}",
        "{\n  // mine\n  \"mcpServers\": {\n    \"a\": {}, // one\n\n    /* two */ \"b\": {}, // three\n    // four\n    ENTRY\n\n  }\n}",
    );
    check(
        "{\n  \"mcpServers\": {\n    \"a\": {},\n  },\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": {},\n    ENTRY,\n  },\n}\n",
    );
    check(
        "{\n  \"mcpServers\": {}\n}\n",
        "{\n  \"mcpServers\": {\n    ENTRY\n  }\n}\n",
    );
    check(
        "{\n  \"theme\": \"dark\"\n}\n",
        "{\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    ENTRY\n  }\n}\n",
    );
    check("", "{\n  \"mcpServers\": {\n    ENTRY\n  }\n}\n");
    check(
        "// nothing yet",
        "// nothing yet\n{\n  \"mcpServers\": {\n    ENTRY\n  }\n}\n",
    );
}

#[test]
fn the_style_of_the_file_is_kept() {
    let flat = r#""kubecrier": { "command": "k", "args": ["--context", "a \"b\""], "headers": { "Authorization": "x" } }"#;
    assert_eq!(
        set(&jsonc(), r#"{"mcpServers": {"a": {}}}"#),
        format!(r#"{{"mcpServers": {{"a": {{}}, {flat}}}}}"#)
    );
    let tabs = set(&jsonc(), "{\n\t\"mcpServers\": {\n\t\t\"a\": {}\n\t}\n}");
    assert!(
        tabs.contains("\n\t\t\"kubecrier\": {\n\t\t\t\"command\""),
        "{tabs}"
    );
    let windows = set(&jsonc(), "\u{feff}{\r\n    \"mcpServers\": {}\r\n}\r\n");
    assert!(windows.starts_with("\u{feff}{\r\n    \"mcpServers\": {\r\n        \"kubecrier\""));
    assert!(!windows.replace("\r\n", "").contains('\n'), "{windows}");
}

#[test]
fn toml_gets_a_table_of_its_own() {
    let codex = document(FileFormat::Toml, "mcp_servers");
    let block = "[mcp_servers.kubecrier]\ncommand = \"k\"\nargs = [\"--context\", 'a \"b\"']\n\
                 headers = { Authorization = \"x\" }\n";
    let before = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = 'a'\n";
    assert_eq!(set(&codex, before), format!("{before}\n{block}"));
    assert_eq!(set(&codex, ""), block);
    // Replaced where it is, and the next table keeps its comment.
    let there = "[mcp_servers.kubecrier]\ncommand = \"old\"\n[mcp_servers.kubecrier.env]\nA = \"1\"\n\n# next\n[b]\n";
    assert_eq!(set(&codex, there), format!("{block}\n# next\n[b]\n"));
    let gone = codex.remove(there).unwrap();
    assert_eq!(gone, "\n# next\n[b]\n");
    // Only by hand, and not at all wrongly.
    for text in [
        "mcp_servers = { a = { command = \"a\" } }\n",
        "mcp_servers.kubecrier.command = \"old\"\n",
        "[mcp_servers]\nkubecrier = { command = \"old\" }\n",
    ] {
        let node = node("k");
        let refused = codex.set(text, Content::Entry(&node));
        assert_eq!(refused, Err(EditError::OnlyByHand), "{text}");
    }
}

#[test]
fn what_is_not_a_configuration_is_refused() {
    let node = node("k");
    let refused = |text: &str| jsonc().set(text, Content::Entry(&node)).unwrap_err();
    assert_eq!(refused("[]"), EditError::NoObject);
    assert_eq!(refused("null"), EditError::NoObject);
    assert_eq!(refused("{\"mcpServers\": []}"), EditError::NoObject);
    assert!(matches!(refused("{\n\"a\": x\n}"), EditError::Parse(error) if error.line == 2));
    // Which of the two would the client take?
    let twice = "{\"mcpServers\": {\"a\": {}}, \"mcpServers\": {\"b\": {}}}";
    assert_eq!(refused(twice), EditError::OnlyByHand);
    let strict = document(FileFormat::Json, "mcpServers");
    let error = strict.set("{} // x", Content::Entry(&node)).unwrap_err();
    assert!(matches!(error, EditError::Parse(_)), "{error:?}");
}

#[test]
fn an_entry_that_says_the_same_is_left_alone() {
    let there = r#"{"mcpServers":{"kubecrier":{"args":["--context","a \"b\""],"headers":{"Authorization":"x"},"command":"k"}}}"#;
    assert_eq!(set(&jsonc(), there), there);
}

#[test]
fn after_changes_by_others_the_entry_is_cut_out() {
    let before = "{\n  \"mcpServers\": {\n    \"a\": {} // one\n  }\n}\n";
    let (text, backup) = installed(&jsonc(), "k", Some(before), None).unwrap();
    let changed = text.replace("\"a\": {}", "\"a\": {\"disabled\": true}");
    let taken = undo(&jsonc(), Some(changed), backup).unwrap();
    let expected = before.replace("\"a\": {}", "\"a\": {\"disabled\": true}");
    assert_eq!(taken.after.as_deref(), Some(expected.as_str()));
    assert_eq!(taken.backup, Backup::Remove);
    // The only one, in the middle, and in front.
    let remove = |text: &str| jsonc().remove(text).unwrap();
    assert_eq!(
        remove("{\"mcpServers\": {\n \"kubecrier\": {}\n}}"),
        "{\"mcpServers\": {}}"
    );
    assert_eq!(
        remove("{\"mcpServers\": {\"a\": 1, \"kubecrier\": {}, \"b\": 2}}"),
        "{\"mcpServers\": {\"a\": 1, \"b\": 2}}"
    );
    // The end of a comment stays.
    assert_eq!(
        remove("{\"mcpServers\": { // mine\n\"kubecrier\": {}}}"),
        "{\"mcpServers\": { // mine\n}}"
    );
    assert_eq!(
        remove("{\"mcpServers\": {\"kubecrier\": {}, \"b\": 2}}"),
        "{\"mcpServers\": { \"b\": 2}}"
    );
}

/// A value, and space and comments around it.
fn jsonc_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("\"//x /* \\\" {\"".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("{}".to_owned()),
        Just("[ ]".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            object(proptest::collection::vec(
                ("[a-d]{1,2}", inner.clone()),
                0..4
            )),
            (proptest::collection::vec(inner, 0..3), space())
                .prop_map(|(all, space)| format!("[{space}{}]", all.join(&format!(",{space}")))),
        ]
    })
}

fn space() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(" "),
        Just("\n"),
        Just("\r\n"),
        Just("\n\n"),
        Just("\t"),
        Just("/* c, } */"),
        Just("// c, {\n"),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|all| all.concat())
}

/// An object whose members do not share names.
fn object(members: impl Strategy<Value = Vec<(String, String)>>) -> impl Strategy<Value = String> {
    (members, space(), space(), any::<bool>()).prop_map(|(mut members, one, two, comma)| {
        members.sort();
        members.dedup_by(|one, other| one.0 == other.0);
        let comma = if comma && !members.is_empty() {
            ","
        } else {
            ""
        };
        let members: Vec<_> = members
            .into_iter()
            .map(|(key, value)| format!("{one}\"{key}\"{two}:{value}"))
            .collect();
        format!("{{{}{comma}{two}}}", members.join(&format!("{two},")))
    })
}

/// A configuration with other servers, with ours, with none, or with nothing.
fn configuration() -> impl Strategy<Value = String> {
    let servers = object(proptest::collection::vec(
        (
            prop_oneof!["[a-d]{1,2}", Just("kubecrier".to_owned())],
            jsonc_value(),
        ),
        0..4,
    ));
    let members = (
        proptest::collection::vec(("[a-d]{1,2}", jsonc_value()), 0..3),
        proptest::option::of(servers),
    )
        .prop_map(|(mut members, servers)| {
            members.extend(servers.map(|servers| ("mcpServers".to_owned(), servers)));
            members
        });
    let root = (space(), object(members), space())
        .prop_map(|(before, root, after)| format!("{before}{root}{after}"));
    prop_oneof![8 => root, 1 => space(), 1 => Just(String::new())]
}

fn is_subsequence(part: &str, whole: &str) -> bool {
    let mut whole = whole.bytes();
    part.bytes().all(|byte| whole.any(|other| other == byte))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_was_installed_can_be_taken_back_to_the_byte(text in configuration()) {
        let document = jsonc();
        let old = FileFormat::Jsonc.parse(&text).unwrap();
        let (once, backup) = installed(&document, "k", Some(&text), None).unwrap();
        let new = FileFormat::Jsonc.parse(&once).unwrap();
        prop_assert_eq!(&new["mcpServers"]["kubecrier"], &node("k").to_value());
        if old["mcpServers"].get("kubecrier").is_none() {
            prop_assert!(is_subsequence(&text, &once), "{}", once);
        }
        // Twice does nothing more, and with another program it is still the first that is kept.
        let twice = installed(&document, "k", Some(&once), backup.as_deref()).unwrap();
        prop_assert_eq!(&twice.0, &once);
        let (other, backup) = installed(&document, "other", Some(&once), backup.as_deref()).unwrap();
        for changed in [once, other] {
            let taken = undo(&document, Some(changed), backup.clone()).unwrap();
            prop_assert_eq!(taken.after.as_deref(), Some(text.as_str()));
            prop_assert_eq!(taken.backup, Backup::Remove);
        }
    }

    #[test]
    fn without_a_copy_only_the_entry_goes(text in configuration()) {
        let once = set(&jsonc(), &text);
        let cut = jsonc().remove(&once).unwrap();
        let mut expected = FileFormat::Jsonc.parse(&text).unwrap();
        let mut found = FileFormat::Jsonc.parse(&cut).unwrap();
        for side in [&mut expected, &mut found] {
            if let Some(servers) = side.get_mut("mcpServers").and_then(Value::as_object_mut) {
                servers.remove("kubecrier");
            }
            if side.is_null() {
                *side = json!({});
            }
            let root = side.as_object_mut().unwrap();
            root.entry("mcpServers").or_insert_with(|| json!({}));
        }
        prop_assert_eq!(found, expected);
        prop_assert!(!jsonc().has(&cut).unwrap());
    }

    #[test]
    fn a_toml_file_comes_back_to_the_byte(
        lines in proptest::collection::vec(
            prop_oneof![
                Just("# a [comment]"), Just(""), Just("x = [\n  [\"a\"],\n]"), Just("y = '''\n[z]\n'''"),
                Just("\"quoted\" = 1 # why"),
            ],
            0..4,
        ),
        tables in proptest::collection::vec("\\[(b|mcp_servers\\.(a|kubecrier|c\\.env))\\]\n(k = 1\n)?(# of the next\n)?\n?", 0..4),
        newline in prop_oneof![Just("\n"), Just("\r\n")],
        ends in any::<bool>(),
    ) {
        let mut text = format!("{}\n{}", lines.join("\n"), tables.concat());
        if !ends {
            text.truncate(text.trim_end().len());
        }
        let text = text.replace('\n', newline);
        prop_assume!(FileFormat::Toml.parse(&text).is_ok());
        let codex = document(FileFormat::Toml, "mcp_servers");
        let (once, backup) = installed(&codex, "k", Some(&text), None).unwrap();
        let taken = undo(&codex, Some(once.clone()), backup).unwrap();
        prop_assert_eq!(taken.after, Some(text.clone()));
        let old = FileFormat::Toml.parse(&text).unwrap();
        if old["mcp_servers"].get("kubecrier").is_none() {
            prop_assert!(once.starts_with(&text), "{}", once);
        }
    }

    #[test]
    fn fuzz_any_file_is_changed_back_or_refused(text in "[{}\\[\\]\":,/*a-z0-9 \\r\\n]{0,60}|\\PC{0,40}") {
        for document in [jsonc(), document(FileFormat::Toml, "mcp_servers")] {
            if let Ok((once, backup)) = installed(&document, "k", Some(&text), None) {
                let taken = undo(&document, Some(once), backup).unwrap();
                prop_assert_eq!(taken.after.as_deref(), Some(text.as_str()));
            }
        }
    }
}

#[test]
fn a_file_that_was_made_is_removed_again() {
    for client in &CLIENTS {
        let document = Document::new(client.files.last().unwrap());
        let (text, backup) = installed(&document, "k", None, None).unwrap();
        assert_eq!(backup, None);
        let taken = undo(&document, Some(text), None).unwrap();
        assert_eq!(taken.after, None, "{}", client.name);
    }
}

#[test]
fn entries_are_as_each_client_writes_them() {
    let check = |words: &[&str], expected: Value| {
        let node = entry::entry(&args(words)).unwrap();
        assert_eq!(node.to_value(), expected, "{words:?}");
    };
    let npx = ["--via", "npx", "--context", "prod"];
    let plain = json!({"command": "npx", "args": ["-y", "kubecrier", "--context", "prod"]});
    let typed = |name: &str| {
        let mut entry = plain.clone();
        entry["type"] = json!(name);
        entry
    };
    for client in [
        "claude-desktop",
        "cursor",
        "windsurf",
        "codex",
        "gemini-cli",
        "zed",
    ] {
        check(&[&[client][..], &npx].concat(), plain.clone());
    }
    check(&[&["claude-code"][..], &npx].concat(), typed("stdio"));
    check(&[&["vscode"][..], &npx].concat(), typed("stdio"));
    let mut copilot = typed("local");
    copilot["tools"] = json!(["*"]);
    check(&[&["copilot-cli"][..], &npx].concat(), copilot);
    check(
        &["opencode", "--via", "uvx"],
        json!({"type": "local", "command": ["uvx", "kubecrier"], "enabled": true}),
    );
    let url = ["--url", "http://h/mcp", "--token-env", "T"];
    let http = |client: &str, expected: Value| check(&[&[client][..], &url].concat(), expected);
    let header = |text: &str| json!({"Authorization": format!("Bearer {text}")});
    http(
        "claude-code",
        json!({"type": "http", "url": "http://h/mcp", "headers": header("${T}")}),
    );
    http(
        "cursor",
        json!({"url": "http://h/mcp", "headers": header("${env:T}")}),
    );
    http(
        "windsurf",
        json!({"serverUrl": "http://h/mcp", "headers": header("${env:T}")}),
    );
    http(
        "codex",
        json!({"url": "http://h/mcp", "bearer_token_env_var": "T"}),
    );
    http(
        "gemini-cli",
        json!({"httpUrl": "http://h/mcp", "headers": header("${T}")}),
    );
    http(
        "opencode",
        json!({
            "type": "remote", "url": "http://h/mcp", "enabled": true, "oauth": false, "headers": header("{env:T}")
        }),
    );
    check(
        &["vscode", "--url", "http://h/mcp"],
        json!({"type": "http", "url": "http://h/mcp"}),
    );
    check(
        &["zed", "--url", "http://h/mcp"],
        json!({"url": "http://h/mcp"}),
    );
    for client in ["vscode", "zed", "copilot-cli"] {
        let refused = entry::entry(&args(&[&[client][..], &url].concat())).unwrap_err();
        assert!(matches!(refused, InstallError::TokenNotTaken { .. }));
    }
    let refused = entry::entry(&args(&["claude-desktop", "--url", "http://h/mcp"])).unwrap_err();
    assert!(matches!(refused, InstallError::UrlNotTaken { .. }));
    assert!(refused.is_usage());
}

#[test]
fn a_file_that_changes_in_between_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mcp.json");
    fs::write(&path, "{}").unwrap();
    let change = plan(&args(&["cursor"]), &CLIENTS[4].files[1], &path).unwrap();
    fs::write(&path, "{\"new\": 1}").unwrap();
    let refused = store::apply(&path, &change).unwrap_err();
    assert!(matches!(refused, InstallError::Changed { .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"new\": 1}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn every_client_has_a_name_and_a_file_of_the_user() {
    let paths = SearchPaths {
        home: Some("/me".into()),
        ..SearchPaths::default()
    };
    for client in &CLIENTS {
        assert!(args(&[&name(client)]).client == client.id);
        let users = client
            .files
            .iter()
            .any(|file| file.base != BaseDir::Project);
        assert!(users, "{}", client.name);
    }
    let desktop = ClientName::ClaudeDesktop.about();
    let refused = target(desktop, InstallScope::Project, &paths).unwrap_err();
    assert!(
        refused.to_string().contains("leave --scope out"),
        "{refused}"
    );
}
