//! The kept inputs: seeds, what a fuzzer found worth keeping, and every input that once showed
//! a bug.

#![expect(clippy::unwrap_used, reason = "tests and what helps them")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use fuzz_targets::TARGETS;

/// The corpus is read by people, too, and cloned by everybody.
const CORPUS_BYTES_MAX: u64 = 200 * 1024;

fn fuzz_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz")
        .join(name)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn stems(folder: &str) -> Vec<String> {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries(&fuzz_folder(folder)).iter().map(stem).collect()
}

#[test]
fn every_target_holds_on_its_corpus() {
    for (name, run) in TARGETS {
        let inputs = entries(&fuzz_folder("corpus").join(name));
        assert!(inputs.len() > 3, "{name} has a corpus");
        for input in inputs {
            let shown = input.file_name().unwrap().display().to_string();
            let bytes = fs::read(&input).unwrap();
            let held = std::panic::catch_unwind(|| run(&bytes));
            assert!(held.is_ok(), "{name} does not hold on {shown}");
        }
    }
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(stems("corpus"), names);
    assert_eq!(stems("src/bin"), names);
    for name in names {
        let program = fuzz_folder("src/bin").join(format!("{name}.rs"));
        let program = fs::read_to_string(program).unwrap();
        assert!(
            program.contains(&format!("fuzz_targets::{name}(input)")),
            "{name}"
        );
    }
}

#[test]
fn the_corpus_stays_small() {
    let folders = entries(&fuzz_folder("corpus"));
    let inputs = folders.iter().flat_map(|folder| entries(folder));
    let bytes: u64 = inputs.map(|input| input.metadata().unwrap().len()).sum();
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes");
}
