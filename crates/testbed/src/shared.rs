//! One testbed for all tests of a binary.

use std::{env, sync::OnceLock, thread};

use anyhow::Result;
use tokio::runtime;

use crate::{Binaries, Cluster, Missing, Options};

/// The environment variable that turns every skipped test into a failed one.
/// `cargo xtask test` sets it; a plain `cargo test` works without the testbed.
const REQUIRED: &str = "TESTBED_REQUIRED";

/// Two independent clusters, `dev` and `prod`.
pub struct Testbed {
    binaries: Binaries,
    dev: Cluster,
    prod: OnceLock<Cluster>,
}

/// The testbed of this test binary, started by the first test that needs it.
///
/// `None` where this machine has no control plane: the test prints that and is skipped.
///
/// # Panics
///
/// When the control plane does not start, or is missing where `TESTBED_REQUIRED` is set.
pub fn shared() -> Option<&'static Testbed> {
    static SHARED: OnceLock<Result<Testbed, Missing>> = OnceLock::new();
    let started = SHARED.get_or_init(|| Binaries::locate().map(Testbed::start));
    match started {
        Ok(testbed) => Some(testbed),
        Err(missing) => {
            skip(missing);
            None
        }
    }
}

/// Prints why a test is skipped.
///
/// # Panics
///
/// When `TESTBED_REQUIRED` is set.
#[expect(clippy::print_stderr, reason = "a skipped test reports its reason")]
pub fn skip(missing: &Missing) {
    let required = env::var_os(REQUIRED).is_some_and(|value| !value.is_empty());
    assert!(
        !required,
        "{REQUIRED} is set, nothing is skipped: {missing}"
    );
    eprintln!("skipped: {missing}");
}

// === impl Testbed ===

impl Testbed {
    /// The cluster that tests use unless they need a second one.
    pub fn dev(&self) -> &Cluster {
        &self.dev
    }

    /// A second cluster that shares nothing with the first; started on first use.
    pub fn prod(&self) -> &Cluster {
        self.prod
            .get_or_init(|| start("prod", &self.binaries, Options::default()))
    }

    /// A cluster for one test, which may stop, freeze and kill it.
    pub fn fresh(&self, name: &str, options: Options) -> Cluster {
        start(name, &self.binaries, options)
    }

    fn start(binaries: Binaries) -> Self {
        let dev = start("dev", &binaries, Options::default());
        Self {
            binaries,
            dev,
            prod: OnceLock::new(),
        }
    }
}

/// Starts a cluster from any thread, inside a runtime or not.
fn start(name: &str, binaries: &Binaries, options: Options) -> Cluster {
    let (name, binaries) = (name.to_owned(), binaries.clone());
    let starting = thread::spawn(move || -> Result<Cluster> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(Cluster::start(&name, &binaries, options))
    });
    starting
        .join()
        .expect("starting a cluster does not panic")
        .expect("the control plane starts")
}

/// The control plane of this machine, for a test that starts its own clusters.
///
/// # Panics
///
/// When there is none and `TESTBED_REQUIRED` is set.
pub fn binaries_or_skip() -> Option<Binaries> {
    Binaries::locate().inspect_err(skip).ok()
}
