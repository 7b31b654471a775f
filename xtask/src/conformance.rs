//! `cargo xtask conformance`: the official suite against the server as it is released, and
//! against a build with the suite's fixtures.

use std::{env, fs};

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Builds the server with the suite's fixtures, and then without features, so that the
/// suite also tests the build that users get. The testbed runs the suite and ensures that
/// the server does not outlive it.
pub(crate) fn run_suite() -> Result<()> {
    // Cargo builds both binaries into the folder of this program.
    let server = env::current_exe()
        .context("cannot tell where the server was built")?
        .with_file_name("kubecrier");
    let fixtures = server.with_file_name("kubecrier-with-fixtures");
    let build = ["build", "--quiet", "--package", "kubecrier"];
    let mut with_fixtures = cargo(&build);
    with_fixtures.args(["--features", "conformance-fixtures"]);
    run("the server with fixtures", with_fixtures)?;
    fs::copy(&server, &fixtures).with_context(|| format!("cannot copy `{}`", server.display()))?;
    run("the server", cargo(&build))?;
    let mut suite = cargo(&[
        "run",
        "--quiet",
        "--package",
        "testbed",
        "--",
        "conformance",
    ]);
    suite.arg(server).arg("--fixtures").arg(fixtures);
    run("conformance", suite)
}
