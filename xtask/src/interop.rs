//! `cargo xtask interop`: the server with software that is too large for the usual tests. What is
//! tried are tests that do nothing otherwise.

use anyhow::Result;
use clap::ValueEnum;

use crate::step::{cargo, run};

/// With what the server is tried.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Party {
    /// An identity provider; needs Java 17 and Maven
    Keycloak,
}

// === impl Party ===

impl Party {
    fn name(self) -> &'static str {
        match self {
            Self::Keycloak => "keycloak",
        }
    }
}

/// Gets what is needed, and runs the tests that are named after it.
pub(crate) fn run_with(party: Party) -> Result<()> {
    let name = party.name();
    let mut prepare = cargo(&["run", "--quiet", "--package", "testbed", "--all-features"]);
    prepare.args(["--", "prepare-interop", name]);
    run(&format!("{name}, download"), prepare)?;
    let mut test = cargo(&[
        "test",
        "--quiet",
        "--package",
        "kubecrier",
        "--all-features",
    ]);
    test.args(["--test", "it", "--", "--nocapture"])
        .arg(format!("interop_{name}"))
        .env("TESTBED_INTEROP", name);
    run(&format!("{name}, interop"), test)
}
