//! A real cluster to measure on, and how busy the machine is meanwhile.

use std::{fs, thread};

use anyhow::{Result, anyhow, ensure};
use testbed::{Binaries, Cluster, Options, User};
use tokio::runtime;

use crate::print_line;

/// Starts an empty cluster; refuses in a debug build.
pub(crate) fn start() -> Result<Cluster> {
    start_any(false)
}

/// Starts an empty cluster, also in a debug build if that is allowed.
pub(crate) fn start_any(debug_build: bool) -> Result<Cluster> {
    ensure!(
        debug_build || !cfg!(debug_assertions),
        "numbers of a debug build mean nothing: use --release"
    );
    print_line("starting a cluster ...");
    let binaries = Binaries::locate().map_err(|missing| anyhow!("{missing}"))?;
    // A separate thread: waiting for child processes would block this one.
    let starting = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(Cluster::start("bench", &binaries, Options::default()))
    });
    match starting.join() {
        Ok(started) => started,
        Err(_panic) => Err(anyhow!("starting a cluster panicked")),
    }
}

/// A client with all permissions.
pub(crate) async fn admin(cluster: &Cluster) -> Result<kube::Client> {
    cluster.client(User::Admin).await
}

/// The load averages of the kernel.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
