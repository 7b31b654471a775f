//! The short form of the run, on the real program.

use std::{env, path::PathBuf, time::Duration};

use chaos::ChaosConfig;

/// The server's binary, which cargo has built into the folder above that of this test.
fn binary() -> Option<PathBuf> {
    let deps = env::current_exe().ok()?;
    let binary = deps.parent()?.with_file_name("kubecrier");
    binary.exists().then_some(binary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_miss_nothing_while_replicas_are_killed_frozen_and_cut_off() {
    let Some(bed) = testbed::shared() else { return };
    if let Err(missing) = testbed::NatsServer::is_there() {
        return testbed::skip(&missing);
    }
    let Some(binary) = binary() else {
        let why = "kubecrier is not built; run `cargo build -p kubecrier`, or all tests";
        return testbed::skip(&testbed::Missing(why.to_owned()));
    };
    let config = ChaosConfig {
        // Its plan has each kind of action, and two kills.
        seed: 2,
        duration: Duration::from_secs(36),
        rate: 40,
        subscribers: 12,
        replicas: 3,
        every: Duration::from_secs(6),
        log_level: "info".to_owned(),
        binary,
        folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chaos-run"),
    };
    let report = chaos::run(bed.dev(), &config).await.expect("it runs");
    assert!(report.holds(), "{}", report.broken_lines());
}
