//! `kubecrier install`: the files of MCP clients, changed and changed back.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Terminal, command, kubeconfig};

/// Not to be repeated.
const TOKEN: &str = "ghp_0123456789abcdefghij0123456789abcdef";

/// The clients, and the file of the user that each reads.
const CLIENTS: [(&str, &str); 10] = [
    ("claude-code", ".claude.json"),
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
    ),
    ("vscode", ".config/Code/User/mcp.json"),
    ("copilot-cli", ".copilot/mcp-config.json"),
    ("cursor", ".cursor/mcp.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
    ("codex", ".codex/config.toml"),
    ("gemini-cli", ".gemini/settings.json"),
    ("zed", ".config/zed/settings.json"),
    ("opencode", ".config/opencode/opencode.json"),
];

/// A home with a project in it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        Self { dir }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command();
        command
            .args(words)
            .env("HOME", self.dir.path())
            .current_dir(self.path("project"));
        command
    }

    fn install(&self, words: &[&str]) -> Output {
        let words = [&["install"][..], words].concat();
        self.command(&words).output().unwrap()
    }

    /// An installation that has to succeed: what it says.
    fn installed(&self, words: &[&str]) -> String {
        let done = self.install(words);
        let (stdout, stderr) = texts(&done);
        assert!(done.status.success(), "{words:?}: {stdout}{stderr}");
        stdout
    }

    /// All files below, and what is in them.
    fn files(&self) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    files.push((path, text));
                }
            }
        }
        files.sort();
        files
    }
}

fn texts(done: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&done.stdout), text(&done.stderr))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn what_is_installed_for_a_client_is_what_doctor_accepts_and_can_be_taken_back() {
    let none = kubeconfig(|file| file);
    for (client, path) in CLIENTS {
        for url in [false, true] {
            if url && client == "claude-desktop" {
                continue;
            }
            let home = Home::new();
            // Nothing answers there, which is a finding of its own.
            let words: &[&str] = if url {
                &["--url", "http://127.0.0.1:1/mcp"]
            } else {
                &["--context", "prod"]
            };
            let shown = home.installed(&[&[client, "--yes"][..], words].concat());
            assert!(shown.contains(path) && shown.contains("--undo"), "{shown}");
            let file = home.path(path);
            let text = read(&file);
            assert!(text.contains("kubecrier"), "{text}");
            let done = home
                .command(&["doctor", "-o", "json", "--kubeconfig"])
                .arg(&none.path)
                .output()
                .unwrap();
            let report: Value = serde_json::from_slice(&done.stdout).unwrap();
            let sections = report["sections"].as_array().unwrap();
            let about = |section: &&Value| section["about"].as_str().unwrap().ends_with(path);
            let section = sections.iter().find(about);
            let section = section.unwrap_or_else(|| panic!("no {path} in {report:#}"));
            let findings = section["findings"].as_array().unwrap();
            let failed: Vec<_> = findings
                .iter()
                .filter(|one| one["verdict"] == "fail")
                .collect();
            if url {
                let text = failed[0]["text"].as_str().unwrap();
                assert!(text.contains("cannot reach"), "{client}: {text}");
            } else {
                assert!(failed.is_empty(), "{client}: {failed:?}");
            }
            let again = home.installed(&[&[client][..], words].concat());
            assert!(again.contains("Nothing to do"), "{again}");
            home.installed(&[client, "--undo", "--yes"]);
            assert!(!file.exists(), "{client}");
            let nothing = home.installed(&[client, "--undo"]);
            assert!(nothing.contains("Nothing to do"), "{nothing}");
        }
    }
}

#[test]
fn nothing_is_written_without_an_answer() {
    let home = Home::new();
    let before = "{\n  // mine\n  \"mcpServers\": {},\n}\n";
    let path = home.write(".cursor/mcp.json", before);
    let files = home.files();
    let done = home.install(&["cursor"]);
    let (stdout, stderr) = texts(&done);
    assert_eq!(done.status.code(), Some(64), "{stderr}");
    assert!(stdout.contains("+     \"kubecrier\": {"), "{stdout}");
    assert!(
        stderr.contains("nothing was written") && stderr.contains("--yes"),
        "{stderr}"
    );
    assert_eq!(home.files(), files);
    for (answer, code, written) in [("", 1, false), ("no", 1, false), ("y", 0, true)] {
        let mut terminal = Terminal::start(&mut home.command(&["install", "cursor"]), 100);
        terminal.wait_for("Do it? [y/N]");
        assert_eq!(home.files(), files);
        terminal.types(answer);
        assert_eq!(terminal.exit().code(), Some(code), "{answer}");
        assert_eq!(read(&path) != before, written, "{answer}");
    }
    let mut terminal = Terminal::start(&mut home.command(&["install", "cursor", "--undo"]), 100);
    terminal.wait_for("Do it? [y/N]");
    assert_eq!(terminal.interrupt().code(), Some(1));
    assert_ne!(read(&path), before);
    home.installed(&["cursor", "--undo", "--yes"]);
    assert_eq!(home.files(), files);
}

#[test]
fn comments_other_entries_permissions_and_links_stay_and_secrets_are_not_shown() {
    let home = Home::new();
    let before = format!(
        "// Zed\n{{\n\t\"theme\": \"One Dark\", // dark\n\n\t\"context_servers\": {{\n\t\t\
         \"github\": {{ \"command\": \"x\", \"env\": {{ \"GITHUB_TOKEN\": \"{TOKEN}\" }} }},\n\t}},\n}}\n"
    );
    let real = home.write("dotfiles/zed.json", &before);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir_all(home.path(".config/zed")).unwrap();
    let link = home.path(".config/zed/settings.json");
    symlink(&real, &link).unwrap();
    let shown = home.installed(&["zed", "--yes", "--via", "npx"]);
    assert!(
        !shown.contains(TOKEN) && shown.contains("\"github\""),
        "{shown}"
    );
    let after = read(&real);
    let entry = "\n\t\t\"kubecrier\": {\n\t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\"-y\", \"kubecrier\"]\n\t\t},";
    assert_eq!(after.replace(entry, ""), before);
    assert!(after.contains(entry), "{after}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let backup = home.path(".config/zed/settings.json.kubecrier-backup");
    assert_eq!(read(&backup), before);
    for path in [&real, &backup] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    home.installed(&["zed", "--undo", "--yes"]);
    assert_eq!(read(&real), before);
    assert!(!backup.exists());
}

/// As those have it who keep their settings elsewhere, before a client has ever run.
#[test]
fn a_link_that_leads_to_nothing_yet_stays_one() {
    let home = Home::new();
    fs::create_dir(home.path(".cursor")).unwrap();
    let (link, between) = (home.path(".cursor/mcp.json"), home.path("between.json"));
    symlink("../between.json", &link).unwrap();
    symlink(home.path("dotfiles/cursor.json"), &between).unwrap();
    home.installed(&["cursor", "--yes"]);
    let real = home.path("dotfiles/cursor.json");
    assert!(read(&real).contains("kubecrier"));
    home.installed(&["cursor", "--undo", "--yes"]);
    assert!(!real.exists());
    for link in [&link, &between] {
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    // Links in a circle lead nowhere.
    symlink(&between, &real).unwrap();
    let done = home.install(&["cursor", "--yes"]);
    assert_eq!(done.status.code(), Some(1), "{:?}", texts(&done));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_copy_that_is_of_no_more_use_goes_and_one_that_stays_is_named() {
    let home = Home::new();
    let path = home.write(".cursor/mcp.json", "{}\n");
    let backup = home.path(".cursor/mcp.json.kubecrier-backup");
    home.installed(&["cursor", "--yes"]);
    // Something else has changed since.
    let text = read(&path).replacen('{', "{\n  \"theme\": \"dark\",", 1);
    fs::write(&path, text).unwrap();
    home.installed(&["cursor", "--undo", "--yes"]);
    assert!(read(&path).contains("theme") && !read(&path).contains("kubecrier"));
    assert!(!backup.exists());
    // The entry was taken out by hand.
    home.installed(&["cursor", "--yes"]);
    fs::write(&path, "{}\n").unwrap();
    let said = home.installed(&["cursor", "--undo"]);
    assert!(
        said.contains("Nothing to do") && said.contains("mcp.json.kubecrier-backup"),
        "{said}"
    );
    assert!(backup.exists());
}

#[test]
fn a_broken_file_is_left_as_it_is() {
    let home = Home::new();
    home.write(".claude.json", "{\n  \"mcpServers\": x\n}\n");
    home.write(".codex/config.toml", "a = 1\nb = \n");
    home.write(".cursor/mcp.json", "[]");
    let files = home.files();
    for (client, words) in [
        ("claude-code", "line 2 of"),
        ("codex", "line 2 of"),
        ("cursor", "change it by hand"),
    ] {
        for undo in [&["--undo"][..], &[]] {
            let done = home.install(&[&[client, "--yes"][..], undo].concat());
            let (stdout, stderr) = texts(&done);
            assert_eq!(done.status.code(), Some(1), "{client}: {stdout}");
            assert!(stderr.contains(words) && stdout.is_empty(), "{stderr}");
        }
    }
    assert_eq!(home.files(), files);
}

#[test]
fn a_project_has_its_own_file_and_a_variable_names_another_folder() {
    let home = Home::new();
    home.installed(&["claude-code", "--yes", "--scope", "project", "--via", "uvx"]);
    let text = read(&home.path("project/.mcp.json"));
    let entry: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(entry["mcpServers"]["kubecrier"]["command"], "uvx");
    assert!(!home.path(".claude.json").exists());
    let done = home.install(&["windsurf", "--yes", "--scope", "project"]);
    assert_eq!(done.status.code(), Some(64));
    let mut codex = home.command(&["install", "codex", "--yes"]);
    codex.env("CODEX_HOME", home.path("elsewhere"));
    assert!(codex.output().unwrap().status.success());
    assert!(home.path("elsewhere/config.toml").exists());
    // The comments of a file that is there are taken into account.
    let path = home.write(".config/opencode/opencode.jsonc", "{} // mine\n");
    home.installed(&["opencode", "--yes"]);
    assert!(read(&path).contains("kubecrier") && read(&path).ends_with("} // mine\n"));
    assert!(!home.path(".config/opencode/opencode.json").exists());
}
