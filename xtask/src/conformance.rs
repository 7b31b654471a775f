//! `cargo xtask conformance`: the official suite against the server as it is released.

use std::env;

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Builds the server without a feature, so that the suite meets what users get; the
/// testbed has the suite and keeps the server from outliving it.
pub(crate) fn run_suite() -> Result<()> {
    run(
        "the server",
        cargo(&["build", "--quiet", "--package", "kubecrier"]),
    )?;
    // Cargo has put both where this program is.
    let server = env::current_exe()
        .context("cannot tell where the server was built")?
        .with_file_name("kubecrier");
    let mut suite = cargo(&[
        "run",
        "--quiet",
        "--package",
        "testbed",
        "--",
        "conformance",
    ]);
    suite.arg(server);
    run("conformance", suite)
}
