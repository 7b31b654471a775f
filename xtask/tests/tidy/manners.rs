//! Sizes, leftovers, reasons, links.

use regex::Regex;

use crate::tree::{files, files_named, root};

/// A longer file should be split.
const LINES_MAX: usize = 500;

#[test]
fn no_file_is_too_long_to_read() {
    let long: Vec<_> = files_named("", ".rs")
        .iter()
        .map(|file| (file.text.lines().count(), file.path.clone()))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines: {long:?}");
}

#[test]
fn nothing_is_left_for_later() {
    let banned = Regex::new(concat!(
        r"TO",
        r"DO|FIX",
        r"ME|#\[ig",
        r"nore|```ig",
        r"nore"
    ))
    .unwrap();
    let ending = Regex::new(r"\.(rs|toml|md|py|mjs|json|yaml|yml)$").unwrap();
    let mut found = Vec::new();
    for file in files("")
        .into_iter()
        .filter(|file| ending.is_match(&file.path))
    {
        for (index, line) in file.text.lines().enumerate() {
            if banned.is_match(line) {
                found.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "finish it, or leave it out:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let entries: Vec<_> = section
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(" = "))
        .collect();
    assert!(entries.len() > 20);
    let silent: Vec<_> = entries
        .into_iter()
        .filter(|line| !line.contains(" # "))
        .collect();
    assert!(silent.is_empty(), "say what it is for: {silent:#?}");
}

#[test]
fn every_dependency_is_used_by_some_crate() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let section = section.split("\n[").next().unwrap();
    let named = Regex::new(r"(?m)^([\w-]+) = ").unwrap();
    let crates: String = files_named("", "Cargo.toml")
        .into_iter()
        .filter(|file| file.path != "Cargo.toml")
        .map(|file| file.text)
        .collect();
    let idle: Vec<_> = named
        .captures_iter(section)
        .map(|found| found[1].to_owned())
        .filter(|name| {
            let plain = format!("\n{name}.workspace = true");
            let detailed = format!("\n{name} = {{ workspace = true");
            !crates.contains(&plain) && !crates.contains(&detailed)
        })
        .collect();
    assert!(idle.is_empty(), "no crate uses {idle:?}");
}

#[test]
fn dependencies_are_checked_and_every_exception_has_a_reason() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("xtask/src/test.rs").contains("supply_chain::check()?;"));
    let rules = read("deny.toml");
    for strict in [
        "multiple-versions = \"deny\"",
        "wildcards = \"deny\"",
        "unknown-registry = \"deny\"",
        "unknown-git = \"deny\"",
        "yanked = \"deny\"",
    ] {
        assert!(rules.contains(strict), "{strict}");
    }
    // In the line itself, or in a comment above it where cargo-deny takes no reason.
    let lines: Vec<_> = rules.lines().map(str::trim).collect();
    let silent: Vec<_> = lines
        .windows(2)
        .filter(|pair| pair[1].starts_with("{ ") || pair[1].starts_with("\"RUSTSEC"))
        .filter(|pair| !pair[1].contains("reason = \"") && !pair[0].starts_with('#'))
        .map(|pair| pair[1])
        .collect();
    assert!(silent.is_empty(), "say why: {silent:#?}");
}

#[test]
fn every_crate_keeps_the_lints_and_the_shared_versions() {
    let manifests = files_named("", "Cargo.toml");
    let members: Vec<_> = manifests
        .iter()
        // These are workspaces of their own: they link what nothing else may.
        .filter(|file| {
            !matches!(
                file.path.as_str(),
                "Cargo.toml" | "fuzz/Cargo.toml" | "crates/history/engines/Cargo.toml"
            )
        })
        .collect();
    assert!(members.len() >= 4);
    let versions = Regex::new(r#"(?m)^[\w-]+ = ("\d|\{ (version|path|git) =)"#).unwrap();
    for file in members {
        assert!(
            file.text.contains("[lints]\nworkspace = true"),
            "{}: no lints",
            file.path
        );
        let own: Vec<_> = versions
            .find_iter(&file.text)
            .map(|found| found.as_str())
            .collect();
        assert!(
            own.is_empty(),
            "{}: versions stand in the root manifest: {own:?}",
            file.path
        );
    }
}

#[test]
fn no_path_of_any_one_machine_is_in_the_tree() {
    let banned = Regex::new(r"/(root|home/\w+|work|Users/\w+)/").unwrap();
    let mut found = Vec::new();
    for file in files("")
        .iter()
        .filter(|file| !file.path.starts_with("xtask/tests/tidy/"))
    {
        found.extend(
            banned
                .find_iter(&file.text)
                .map(|hit| format!("{}: {}", file.path, hit.as_str())),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)#\s]+)(#[^)]*)?\)").unwrap();
    let mut broken = Vec::new();
    for file in files_named("", ".md") {
        let folder = root().join(&file.path).parent().unwrap().to_owned();
        for found in link.captures_iter(&file.text) {
            let target = &found[1];
            if !target.contains("://") && !folder.join(target).exists() {
                broken.push(format!("{}: {target}", file.path));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
