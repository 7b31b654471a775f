//! A real kube-controller-manager and kube-scheduler for a cluster.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use tokio::time::{Instant, sleep};

use crate::{
    Cluster, ControllerBinaries, Kubeconfig, User, Validity,
    guard::{Guard, Spec},
};

/// They take a few seconds; a busy machine needs longer.
const START_WITHIN: Duration = Duration::from_secs(90);

/// The controllers of a cluster. Dropping them ends them.
pub struct Controllers {
    _manager: Guard,
    _scheduler: Guard,
}

// === impl Controllers ===

impl Controllers {
    /// Starts them and waits until they work. They act quickly: a node is lost after 6 s
    /// without a heartbeat, and an autoscaler looks every 2 s.
    pub async fn start(cluster: &Cluster, binaries: &ControllerBinaries) -> Result<Self> {
        let dir = cluster.dir();
        let manager = Guard::start(&Spec {
            program: &binaries.kube_controller_manager,
            args: manager_args(dir, &kubeconfig(cluster, "kube-controller-manager")?),
            clear: None,
            log: dir.join("kube-controller-manager.log"),
        })?;
        let scheduler = Guard::start(&Spec {
            program: &binaries.kube_scheduler,
            args: common_args(&kubeconfig(cluster, "kube-scheduler")?),
            clear: None,
            log: dir.join("kube-scheduler.log"),
        })?;
        // One of the last controllers to begin: it waits for the caches of others.
        let accounts: Api<ServiceAccount> =
            Api::namespaced(cluster.client(User::Admin).await?, "default");
        let deadline = Instant::now() + START_WITHIN;
        while accounts.get_opt("default").await?.is_none() {
            for guard in [&manager, &scheduler] {
                if guard.exited() {
                    bail!("a controller ended:\n{}", guard.log_tail());
                }
            }
            if Instant::now() > deadline {
                bail!("the controllers do nothing:\n{}", manager.log_tail());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(Self {
            _manager: manager,
            _scheduler: scheduler,
        })
    }
}

/// A kubeconfig with a certificate of its own.
fn kubeconfig(cluster: &Cluster, name: &str) -> Result<OsString> {
    let user = format!("system:{name}");
    // One user for all controllers; each with its own service account would take longer.
    let client = cluster
        .authority()
        .client(&user, "system:masters", Validity::Current)?;
    let path = cluster.dir().join(format!("{name}.kubeconfig"));
    let file = Kubeconfig::new()
        .certificate_context(name, cluster, &client)
        .current(name);
    file.write(&path)?;
    Ok(path.into())
}

fn common_args(kubeconfig: &OsString) -> Vec<OsString> {
    let mut flag = OsString::from("--kubeconfig=");
    flag.push(kubeconfig);
    let others = [
        // Nothing listens.
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ];
    [flag].into_iter().chain(others.map(Into::into)).collect()
}

fn manager_args(dir: &Path, kubeconfig: &OsString) -> Vec<OsString> {
    let dir = dir.display();
    let own = [
        format!("--service-account-private-key-file={dir}/api.key"),
        format!("--root-ca-file={dir}/ca.crt"),
        "--node-monitor-period=1s".to_owned(),
        "--node-monitor-grace-period=6s".to_owned(),
        "--node-eviction-rate=10".to_owned(),
        "--horizontal-pod-autoscaler-sync-period=2s".to_owned(),
        "--pvclaimbinder-sync-period=5s".to_owned(),
        "--profiling=false".to_owned(),
    ];
    let mut args = common_args(kubeconfig);
    args.extend(own.map(Into::into));
    args
}
