//! `cargo xtask conformance`: the official suite against the server as it is released.

use std::env;

use anyhow::{Context, Result};

use crate::step::{cargo, run};

/// Builds the server as users get it, without features. The testbed runs the suite, gives the
/// server a project folder with what the suite asks for, and ensures that the server does not
/// outlive it.
pub(crate) fn run_suite() -> Result<()> {
    // Cargo builds the server into the folder of this program.
    let server = env::current_exe()
        .context("cannot tell where the server was built")?
        .with_file_name("kubecrier");
    run(
        "the server",
        cargo(&["build", "--quiet", "--package", "kubecrier"]),
    )?;
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
