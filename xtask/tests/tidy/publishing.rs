//! The crates that are published: what crates.io and docs.rs need of them, cheaply. That they
//! build from their packages alone is tried by `cargo xtask package`.

use std::{collections::BTreeSet, process::Command};

use regex::Regex;
use serde_json::Value;

use crate::tree::root;

/// Tests, benchmarks and tasks of this repository.
const NOT_PUBLISHED: [&str; 6] = ["bench", "chaos", "eval", "fuzz-targets", "testbed", "xtask"];

fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut metadata = Command::new(cargo);
    metadata.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let done = metadata.current_dir(root()).output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    let all: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{words}"));
    all["packages"].as_array().unwrap().clone()
}

fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

#[test]
fn only_what_is_for_this_repository_is_not_published() {
    let packages = packages();
    let kept: BTreeSet<_> = packages
        .iter()
        .filter(|package| !is_published(package))
        .map(name)
        .collect();
    assert_eq!(kept, BTreeSet::from(NOT_PUBLISHED));
    let foreign: Vec<_> = packages
        .iter()
        .filter(|package| is_published(package))
        .map(name)
        .filter(|name| !name.starts_with("kubecrier") && *name != "mcp-notify")
        .collect();
    assert!(
        foreign.is_empty(),
        "names that say nothing to others: {foreign:?}"
    );
}

#[test]
fn every_published_crate_says_what_it_is() {
    for package in packages().iter().filter(|package| is_published(package)) {
        let name = name(package);
        for key in [
            "description",
            "license",
            "repository",
            "readme",
            "rust_version",
        ] {
            let text = package[key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{name}: no {key}");
        }
        let words = |key: &str| -> Vec<String> {
            let words = package[key].as_array().unwrap().iter();
            words
                .map(|word| word.as_str().unwrap().to_owned())
                .collect()
        };
        let keywords = words("keywords");
        assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        assert!(keywords.iter().all(|word| word.len() <= 20), "{name}");
        assert!((1..=5).contains(&words("categories").len()), "{name}");
        assert!(
            package["metadata"]["docs"]["rs"].is_object(),
            "{name}: docs.rs"
        );
        let manifest = package["manifest_path"].as_str().unwrap();
        let readme = manifest.replace("Cargo.toml", package["readme"].as_str().unwrap());
        let readme = std::fs::read_to_string(&readme).unwrap_or_else(|_| panic!("no {readme}"));
        assert!(
            readme.starts_with(&format!("# {name}\n")),
            "{name}: its README"
        );
    }
}

/// A dependency by path needs a version, except in tests, where cargo leaves it out without one.
#[test]
fn what_is_published_depends_on_what_is_published() {
    for package in packages().iter().filter(|package| is_published(package)) {
        for dependency in package["dependencies"].as_array().unwrap() {
            if dependency["path"].is_null() {
                continue;
            }
            let (user, used) = (name(package), name(dependency));
            let is_for_tests = dependency["kind"] == "dev";
            let has_version = dependency["req"] != "*";
            let is_kept = NOT_PUBLISHED.contains(&used);
            assert!(!is_kept || is_for_tests, "{user} needs {used}");
            assert_eq!(has_version, !is_kept, "{user}: the version of {used}");
        }
    }
}

#[test]
fn packages_hold_the_sources_and_nothing_of_the_machine() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    for package in packages().iter().filter(|package| is_published(package)) {
        let name = name(package);
        let mut list = Command::new(&cargo);
        list.args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            name,
        ]);
        let done = list.current_dir(root()).output().unwrap();
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name}: {words}");
        let text = String::from_utf8(done.stdout).unwrap();
        let files: BTreeSet<_> = text.lines().collect();
        for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            assert!(files.contains(file), "{name}: no {file}");
        }
        let is_stray = |file: &&&str| file.contains("target/") || file.ends_with(".snap.new");
        let stray: Vec<_> = files.iter().filter(is_stray).collect();
        assert!(stray.is_empty(), "{name}: {stray:?}");
    }
}

/// A pin there would be one for every crate of those who use the library.
#[test]
fn the_library_pins_no_version() {
    let packages = packages();
    let library = packages
        .iter()
        .find(|package| name(package) == "mcp-notify")
        .unwrap();
    for dependency in library["dependencies"].as_array().unwrap() {
        let wanted = dependency["req"].as_str().unwrap();
        assert!(!wanted.starts_with('='), "{} {wanted}", name(dependency));
    }
}

/// What the jobs of the release may run, by its first words: only `cargo xtask dist` makes
/// anything, the others prepare the machine, sign and upload.
const COMMANDS: [(&str, &[&str]); 2] = [
    (
        "dist",
        &[
            "test",
            "sed",
            "head",
            "brew install gnu-tar",
            "brew --prefix gnu-tar",
            "echo",
            "rustup toolchain install",
            "rustup default",
            "cargo xtask dist",
        ],
    ),
    (
        "upload",
        &[
            "rustup toolchain install",
            "rustup default",
            "cargo xtask dist --out release --merge",
            "cosign sign-blob",
            "cosign sign",
            "gh release create",
            "crane auth login",
            "crane push",
            "crane digest",
            "helm registry login",
            "helm push",
            "npm publish",
            "cargo publish",
            "echo",
        ],
    ),
];

/// The actions of others that the jobs use.
const ACTIONS: [&str; 9] = [
    "actions/attest-build-provenance",
    "actions/checkout",
    "actions/download-artifact",
    "actions/setup-node",
    "actions/upload-artifact",
    "imjasonh/setup-crane",
    "pypa/gh-action-pypi-publish",
    "rust-lang/crates-io-auth-action",
    "sigstore/cosign-installer",
];

/// The commands of a script, also those in other commands.
fn commands(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ").replace("$(", "\n");
    let parts = joined
        .split(['\n', ';', '|'])
        .flat_map(|part| part.split("&&"));
    let words = parts.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let commands = words.map(|words| words.strip_prefix("do ").unwrap_or(&words).to_owned());
    let assignment = Regex::new(r#"^[a-z]+=("|$)"#).unwrap();
    let is_no_command = |words: &String| {
        words.is_empty()
            || words.starts_with('#')
            || words.starts_with("for ")
            || ["do", "done", "{"].contains(&words.as_str())
            || words.starts_with('}')
            || assignment.is_match(words)
    };
    commands.filter(|words| !is_no_command(words)).collect()
}

#[test]
fn the_release_makes_nothing_but_with_the_command_that_is_tried() {
    let path = ".github/workflows/release.yml";
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let workflow: Value = serde_saphyr::from_str(&text).unwrap();
    let jobs = workflow["jobs"].as_object().unwrap();
    assert_eq!(jobs.len(), COMMANDS.len());
    for (job, allowed) in COMMANDS {
        let mut used = BTreeSet::new();
        for step in jobs[job]["steps"].as_array().unwrap() {
            if let Some(action) = step["uses"].as_str() {
                let name = action.split('@').next().unwrap();
                assert!(ACTIONS.contains(&name), "{job} uses {action}");
            }
            let script = step["run"].as_str().unwrap_or_default();
            assert!(!script.contains('`'), "{script}");
            for command in commands(script) {
                let is_it = |one: &&&str| {
                    let rest = command.strip_prefix(**one);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ')']))
                };
                let found = allowed.iter().find(is_it);
                used.insert(found.unwrap_or_else(|| panic!("{job} runs {command}")));
            }
        }
        let unused: Vec<_> = allowed.iter().filter(|one| !used.contains(one)).collect();
        assert!(unused.is_empty(), "{job} does not run {unused:?}");
    }
    assert!(text.contains("Not tried:"), "what nobody has tried is said");
    assert!(
        text.contains("subject-path: \"dist/**\""),
        "all of it is attested"
    );
    for job in ["dist", "upload"] {
        let steps = jobs[job]["steps"].to_string();
        let toolchain = steps.find("rustup toolchain install").unwrap();
        let cargo = steps.find("cargo xtask dist").unwrap();
        assert!(toolchain < cargo, "{job} runs cargo without a toolchain");
    }
}

/// Commands in loops, in others and behind others are found.
#[test]
fn no_command_of_a_script_is_overlooked() {
    let script = "for a in b; do\n  cp \"$a\" c\ndone\nx=\"$(crane digest y)\"\nmkdir z && docker build . | tee d\n";
    let expected = [
        "cp \"$a\" c",
        "crane digest y)\"",
        "mkdir z",
        "docker build .",
        "tee d",
    ];
    assert_eq!(commands(script), expected);
}
