//! `cargo xtask test`: the README's test command and all that CI runs.

use anyhow::Result;

use crate::{
    conformance, load, package,
    step::{cargo, run},
    supply_chain,
};

/// The quick checks come first, then the preparation of a fresh machine, then the tests,
/// so that their summary comes last.
pub(crate) fn run_everything() -> Result<()> {
    run("format", cargo(&["fmt", "--all", "--check"]))?;
    supply_chain::check()?;
    run(
        "control plane and clients",
        cargo(&["run", "--quiet", "--package", "testbed", "--", "prepare"]),
    )?;
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--quiet",
        "--",
    ];
    run(
        "lints",
        cargo(&[&lints[..], &["--deny", "warnings"]].concat()),
    )?;
    let features = [
        "",
        "rmcp",
        "prometheus",
        "hyper",
        "context",
        "observers",
        "debounce",
        "batching",
        "cancellation",
        "roots",
        "phi-accrual",
    ];
    for feature in features {
        let only = [
            "check",
            "--package",
            "mcp-notify",
            "--quiet",
            "--features",
            feature,
        ];
        let name = if feature.is_empty() {
            "no feature"
        } else {
            feature
        };
        run(&format!("mcp-notify with {name} alone"), cargo(&only))?;
    }
    let mut docs = cargo(&[
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--quiet",
    ]);
    docs.env("RUSTDOCFLAGS", "--deny warnings");
    run("docs", docs)?;
    // The crate that others build on; the rest takes too long for every run.
    package::check(&["mcp-notify".to_owned()])?;
    conformance::run_suite()?;
    load::soak(1)?;
    load::eval_live(&["--sample".into(), "12".into()])?;
    let mut tests = cargo(&["test", "--workspace", "--all-features"]);
    // The same property-test cases in each run, so that a failure is due to the change.
    // `cargo xtask fuzz` and every plain `cargo test` search for new cases.
    tests.env("PROPTEST_RNG_SEED", "7");
    // A test that would be skipped for want of the testbed fails.
    tests.env("TESTBED_REQUIRED", "1");
    run("tests", tests)
}
