//! Traceability: every requirement has a row, and every row names tests that exist.

use std::{collections::BTreeSet, fs};

use regex::Regex;

use crate::tree::{File, files, files_named, root};

/// How many requirements each of the five documents has.
const COUNTS: [usize; 5] = [31, 35, 56, 79, 55];

struct Row {
    id: String,
    proof: String,
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/requirements.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (S\d-\d+) \| ([^|]+) \| ([^|]+) \|$").unwrap();
    row.captures_iter(&text)
        .map(|found| Row {
            id: found[1].to_owned(),
            proof: found[3].trim().to_owned(),
        })
        .collect()
}

fn all_ids() -> Vec<String> {
    let of = |(document, count): (usize, &usize)| {
        (1..=*count).map(move |number| format!("S{document}-{number}"))
    };
    COUNTS.iter().enumerate().flat_map(of).collect()
}

#[test]
fn every_requirement_has_exactly_one_row() {
    let listed: Vec<_> = rows().into_iter().map(|row| row.id).collect();
    assert_eq!(listed, all_ids());
}

#[test]
fn every_named_proof_exists() {
    let mut missing = Vec::new();
    for Row { id, proof } in rows() {
        if proof == "open" {
            continue;
        }
        let (proofs, reason) = with_reason(&proof);
        if reason.is_some_and(|reason| reason.split(' ').count() < 5) {
            missing.push(format!("{id}: by review, and no reason: {reason:?}"));
        }
        for one in proofs.split(", ").filter(|one| !one.is_empty()) {
            if let Err(why) = check(one.trim_matches('`')) {
                missing.push(format!("{id}: {one}: {why}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The named proofs, and why the rest is left to a review.
fn with_reason(proof: &str) -> (&str, Option<&str>) {
    match proof.split_once("by review") {
        Some((proofs, reason)) => (
            proofs.trim_end_matches("; "),
            Some(reason.trim_start_matches(": ")),
        ),
        None => (proof, None),
    }
}

/// `path#name`: a test of that name in the file, or a heading in the document.
fn check(proof: &str) -> Result<(), String> {
    let (path, name) = proof.split_once('#').ok_or("not of the form path#name")?;
    let text = fs::read_to_string(root().join(path)).map_err(|error| error.to_string())?;
    let found = if path.rsplit('.').next() == Some("md") {
        text.lines()
            .filter(|line| line.starts_with('#'))
            .any(|line| slug(line) == name)
    } else {
        is_test(&text, name)
    };
    if found {
        Ok(())
    } else {
        Err("nothing of that name".to_owned())
    }
}

/// Whether a function of that name is a test: it has an attribute, or stands in
/// `proptest!`.
fn is_test(text: &str, name: &str) -> bool {
    let function = Regex::new(&format!(r"fn {}\b", regex::escape(name))).unwrap();
    let lines: Vec<_> = text.lines().collect();
    lines.iter().enumerate().any(|(at, line)| {
        function.is_match(line)
            && lines[at.saturating_sub(6)..at].iter().any(|line| {
                let line = line.trim_start();
                line.starts_with("#[test]") || line.starts_with("#[tokio::test")
            })
    })
}

/// A heading as a link names it.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `cargo xtask test` runs every test, so that no change breaks what passed before.
#[test]
fn every_test_there_is_runs_for_every_change() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let ci = read(".ci/run");
    assert_eq!(ci.lines().last(), Some("exec cargo xtask test"));
    let run = read("xtask/src/test.rs");
    assert!(run.contains(r#"cargo(&["test", "--workspace", "--all-features"])"#));
    // A test that is skipped for want of something has failed.
    assert!(run.contains(r#"tests.env("TESTBED_REQUIRED", "1")"#));
    for word in ["--exclude", "--skip", "continue-on-error"] {
        assert!(!ci.contains(word) && !run.contains(word), "{word}");
    }
    for file in files_named("", "Cargo.toml") {
        for switch in ["test = false", "autotests = false"] {
            assert!(!file.text.contains(switch), "{}: {switch}", file.path);
        }
    }
    // A file without a `mod` declaration is not compiled, and neither are its tests.
    let sources = files_named("", ".rs");
    let lost: Vec<_> = sources
        .iter()
        .filter(|file| !is_root(&file.path) && !is_named(&file.path, &sources))
        .map(|file| file.path.as_str())
        .collect();
    assert!(lost.is_empty(), "no `mod` names {lost:?}");
}

/// Whether cargo finds the file by itself.
fn is_root(path: &str) -> bool {
    let root_file = Regex::new(
        r"(^|/)(src/(main|lib)|src/bin/\w+|(tests|examples|benches)/\w+|(tests|examples|benches)/\w+/main|build)\.rs$",
    );
    root_file.unwrap().is_match(path)
}

fn is_named(path: &str, sources: &[File]) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap();
    let module = Regex::new(&format!(r"\bmod {};", name.trim_end_matches(".rs"))).unwrap();
    let beside = ["main", "lib", "mod"].map(|root| format!("{folder}/{root}.rs"));
    let above = format!("{folder}.rs");
    let mut parents = sources
        .iter()
        .filter(|file| file.path == above || beside.contains(&file.path));
    parents.any(|parent| module.is_match(&parent.text))
}

#[test]
fn every_id_named_anywhere_is_known() {
    let known: BTreeSet<_> = all_ids().into_iter().collect();
    let id = Regex::new(r"\bS[0-4]-\d+\b").unwrap();
    let mut unknown = Vec::new();
    for file in files("") {
        let lines = file.text.lines().enumerate();
        for (index, line) in lines {
            for found in id
                .find_iter(line)
                .filter(|found| !known.contains(found.as_str()))
            {
                unknown.push(format!("{}:{}: {}", file.path, index + 1, found.as_str()));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn a_proof_that_does_not_exist_is_noticed() {
    assert!(
        check("xtask/tests/tidy/requirements.rs#a_proof_that_does_not_exist_is_noticed").is_ok()
    );
    assert!(
        check("xtask/tests/tidy/requirements.rs#check").is_err(),
        "a function is no test"
    );
    assert!(check("xtask/tests/tidy/requirements.rs#no_such_test").is_err());
    assert!(check("no/such/file.rs#test").is_err());
    assert!(check("docs/requirements.md#requirements-and-their-proofs").is_ok());
    assert!(check("docs/requirements.md#no-such-heading").is_err());
    let reason = "no test can show it";
    for (row, expected) in [
        ("`a#b`, `c#d`", ("`a#b`, `c#d`", None)),
        (
            "`a#b`; by review: no test can show it",
            ("`a#b`", Some(reason)),
        ),
        ("by review: no test can show it", ("", Some(reason))),
    ] {
        assert_eq!(with_reason(row), expected);
    }
}
