//! `cargo xtask fuzz`: inputs for whatever parses what a stranger sends. The targets in `fuzz/`
//! are guided by coverage, the tests named `fuzz_...` by their generators.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    step::{cargo, in_root, print_line, root, run},
    tool::Tool,
};

const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    version: "0.13.2",
};

/// An input that takes longer than this is a finding.
const INPUT_SECONDS_MAX: u32 = 10;

/// A target that takes more memory than this is a finding.
const MEMORY_MIB_MAX: u32 = 2048;

/// Runs one target, or all of them and then the property tests.
pub(crate) fn fuzz(target: Option<&str>, minutes: u64, cases: u32) -> Result<()> {
    let targets = targets()?;
    let chosen: Vec<_> = match target {
        None => targets.iter().map(String::as_str).collect(),
        Some(name) if targets.iter().any(|known| known == name) => vec![name],
        Some(name) => bail!("no target `{name}`; there are {}", targets.join(", ")),
    };
    require_compiler()?;
    let program = CARGO_FUZZ.path()?;
    // The same versions as in the server, and the engine beside them.
    fs::copy(root().join("Cargo.lock"), folder("Cargo.lock")).context("cannot copy Cargo.lock")?;
    run("fuzz targets", fuzz_command(&program, "build", target))?;
    for target in chosen {
        run_target(&program, target, minutes)?;
    }
    if target.is_none() {
        properties(cases)?;
    }
    Ok(())
}

/// The targets, by the folders of their kept inputs.
fn targets() -> Result<Vec<String>> {
    let corpus = folder("corpus");
    let entries =
        fs::read_dir(&corpus).with_context(|| format!("cannot read `{}`", corpus.display()))?;
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// libFuzzer is C++, and built with its targets.
fn require_compiler() -> Result<()> {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut version = Command::new(&compiler);
    version.arg("--version");
    version.stdout(Stdio::null()).stderr(Stdio::null());
    if version.status().is_err() {
        bail!("no C++ compiler `{compiler}`: install g++ or clang, or name one in CXX");
    }
    Ok(())
}

fn fuzz_command(program: &Path, what: &str, target: Option<&str>) -> Command {
    let mut command = in_root(program);
    // Sanitizers need a nightly toolchain, and find what unsafe code does: there is none of
    // ours. Guidance by coverage is part of every toolchain.
    command.args([what, "--sanitizer", "none"]);
    command.args(target);
    command
}

fn run_target(program: &Path, target: &str, minutes: u64) -> Result<()> {
    // What is found goes to a folder that git ignores; only a chosen few inputs are kept.
    let found = folder("target").join("corpus").join(target);
    fs::create_dir_all(&found).with_context(|| format!("cannot create `{}`", found.display()))?;
    let mut command = fuzz_command(program, "run", Some(target));
    command.arg(found).arg(folder("corpus").join(target));
    command.arg("--").args([
        format!("-max_total_time={}", minutes * 60),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        "-print_final_stats=1".to_owned(),
    ]);
    let dictionary = folder("dictionaries").join(format!("{target}.dict"));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let done = run(&format!("fuzz {target}, {minutes} min"), command);
    if done.is_err() {
        print_line(&format!(
            "the input is in fuzz/artifacts/{target}; move it to fuzz/corpus/{target} under a name \
             that tells what it shows: then `cargo test -p fuzz-targets` fails until it is mended"
        ));
    }
    done
}

/// Runs the tests that feed arbitrary input to parsers, with many more cases.
fn properties(cases: u32) -> Result<()> {
    let mut tests = cargo(&[
        "test",
        "--quiet",
        "--workspace",
        "--all-features",
        "--lib",
        "fuzz_",
    ]);
    tests.env("PROPTEST_CASES", cases.to_string());
    run(&format!("fuzz_ tests, {cases} cases each"), tests)
}

fn folder(name: &str) -> PathBuf {
    root().join("fuzz").join(name)
}
