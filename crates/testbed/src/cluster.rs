//! One etcd, one kube-apiserver, one node that serves logs.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, api::core::v1::Node};
use kube::{
    Api, Client, Config, Resource,
    api::{Patch, PatchParams, PostParams},
    config::KubeConfigOptions,
};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Authority, Binaries, Kubeconfig, NodeEndpoint, User, Validity,
    guard::{Guard, Spec},
    users,
};

/// The name of the one node; pods that have logs are bound to it.
const NODE: &str = "node-1";

/// A start takes about 5 s on two idle cores; a busy machine needs longer.
const START_WITHIN: Duration = Duration::from_secs(90);

/// A process that ends while it starts is started again: its port may have been taken by another
/// process meanwhile.
const START_ATTEMPTS: usize = 3;

/// One line per request of [`User::Audited`] and [`User::ActsAsCallers`], and none for other
/// users.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": ["audited", "acts-as-callers"]}, {"level": "None"}]
}"#;

/// The options of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further flags for kube-apiserver.
    pub api_server_args: Vec<String>,
    /// Whether a pod needs a service account that exists. Only controllers create them.
    pub needs_service_accounts: bool,
}

/// A running cluster. Dropping it, or the end of the process, ends it.
pub struct Cluster {
    name: String,
    binaries: Binaries,
    options: Options,
    dir: PathBuf,
    authority: Authority,
    node: NodeEndpoint,
    api_port: u16,
    etcd_port: AtomicU16,
    // Dropped before etcd: the API server needs its store until it ends.
    api_server: Mutex<Option<Guard>>,
    /// The newest first; the oldest clears the folder when it ends.
    etcds: Mutex<Vec<Guard>>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    pub async fn start(name: &str, binaries: &Binaries, options: Options) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("kubecrier-testbed-")
            .tempdir()?
            .keep();
        let authority = Authority::new(&format!("testbed {name}"))?;
        write_credentials(&dir, &authority)?;
        let node = NodeEndpoint::start(&authority.server("node", Validity::Current)?)?;
        let mut etcds = Vec::new();
        let etcd_port = start_etcd(binaries, &dir, &mut etcds).await?;
        let api_port = free_ports(1)?[0];
        let cluster = Self {
            name: name.to_owned(),
            binaries: binaries.clone(),
            options,
            dir,
            authority,
            node,
            api_port,
            etcd_port: AtomicU16::new(etcd_port),
            api_server: Mutex::new(None),
            etcds: Mutex::new(etcds),
        };
        cluster.start_api().await?;
        cluster.create_fixtures().await?;
        Ok(cluster)
    }

    /// Recreates the cluster at the same address: all objects are gone, and
    /// resourceVersions start from the beginning.
    pub async fn start_over(&self) -> Result<()> {
        self.kill_api()?;
        let mut etcds = std::mem::take(&mut *self.etcds.lock());
        let started = start_etcd(&self.binaries, &self.dir, &mut etcds).await;
        *self.etcds.lock() = etcds;
        self.etcd_port.store(started?, Ordering::Relaxed);
        self.start_api().await?;
        self.create_fixtures().await
    }

    /// Creates the roles and the node that every testbed has.
    async fn create_fixtures(&self) -> Result<()> {
        let admin = self.client(User::Admin).await?;
        users::grant(&admin)
            .await
            .context("cannot create the testbed's roles")?;
        self.register_node(&admin)
            .await
            .context("cannot register the node")
    }

    pub(crate) fn etcd_port(&self) -> u16 {
        self.etcd_port.load(Ordering::Relaxed)
    }

    /// The name of the cluster in kubeconfigs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    /// The certificate authority's own certificate.
    pub fn authority_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Signs certificates that this cluster trusts.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The endpoint that serves the logs of all pods.
    pub fn node(&self) -> &NodeEndpoint {
        &self.node
    }

    /// The folder of its certificates and logs.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The requests of [`User::Audited`] so far, from the audit log of the API server.
    pub fn audit(&self) -> Result<Vec<Value>> {
        self.audit_of(User::Audited)
    }

    /// The requests of [`User::Audited`] or [`User::ActsAsCallers`] so far, also those that were
    /// made as another user.
    pub fn audit_of(&self, user: User) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.dir.join("audit.log"))?;
        let lines = text.lines().map(serde_json::from_str);
        let mut requests: Vec<Value> = lines.collect::<serde_json::Result<_>>()?;
        requests.retain(|request| request["user"]["username"] == user.name());
        Ok(requests)
    }

    /// A client for the calling runtime.
    pub async fn client(&self, user: User) -> Result<Client> {
        // Through a kubeconfig, like every other user of the cluster.
        let file = Kubeconfig::new()
            .context(&self.name, self, user)
            .current(&self.name);
        let file: kube::config::Kubeconfig = serde_json::from_value(file.to_value())?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Creates an object as the admin, in its own namespace if it names one.
    pub async fn create<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let namespace = object.meta().namespace.as_deref().unwrap_or("default");
        let api: Api<K> = Api::namespaced(self.client(User::Admin).await?, namespace);
        Ok(api.create(&PostParams::default(), object).await?)
    }

    /// Creates an object that has no namespace, as the admin.
    pub async fn create_cluster_wide<K>(&self, object: &K) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + Serialize
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client(User::Admin).await?);
        Ok(api.create(&PostParams::default(), object).await?)
    }

    /// Sends an object to any path as the admin: POST creates, PATCH merges.
    pub async fn send(&self, method: &str, path: &str, object: &Value) -> Result<()> {
        let form = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", form);
        let request = request.body(object.to_string().into_bytes())?;
        let client = self.client(User::Admin).await?;
        client.request_text(request).await.map(drop)?;
        Ok(())
    }

    /// Sets the status of a pod, as its kubelet would.
    pub async fn set_pod_status(&self, namespace: &str, name: &str, status: Value) -> Result<()> {
        let api: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(self.client(User::Admin).await?, namespace);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Starts the API server with its previous port and data, and waits until it is ready.
    pub async fn start_api(&self) -> Result<()> {
        self.launch_api()?;
        let mut attempts_left = START_ATTEMPTS - 1;
        let deadline = Instant::now() + START_WITHIN;
        loop {
            let client = self.client(User::Admin).await?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            match client.request_text(request).await {
                Ok(_ready) => return Ok(()),
                Err(_) if self.api_exited() => {
                    if attempts_left == 0 {
                        bail!("kube-apiserver ended:\n{}", self.api_log_tail());
                    }
                    attempts_left -= 1;
                    self.launch_api()?;
                }
                Err(error) if Instant::now() > deadline => {
                    bail!(
                        "kube-apiserver is not ready: {error}\n{}",
                        self.api_log_tail()
                    )
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn launch_api(&self) -> Result<()> {
        let mut slot = self.api_server.lock();
        if slot.as_ref().is_some_and(|running| !running.exited()) {
            bail!("the API server of `{}` is already running", self.name);
        }
        *slot = Some(Guard::start(&Spec {
            program: &self.binaries.kube_apiserver,
            args: self.api_server_args(),
            clear: None,
            log: self.dir.join("kube-apiserver.log"),
        })?);
        Ok(())
    }

    /// Stops the API server with SIGTERM.
    pub fn stop_api(&self) -> Result<()> {
        self.end_api(Signal::TERM)
    }

    /// Kills the API server with SIGKILL.
    pub fn kill_api(&self) -> Result<()> {
        self.end_api(Signal::KILL)
    }

    /// Freezes the API server with SIGSTOP: connections stay open without any data. Returns
    /// when the process has stopped.
    pub fn freeze_api(&self) -> Result<()> {
        self.signal_api(Signal::STOP)?;
        match &*self.api_server.lock() {
            Some(guard) => guard.wait_stopped(Duration::from_secs(10)),
            None => bail!("the API server of `{}` is not running", self.name),
        }
    }

    /// Resumes a frozen API server.
    pub fn thaw_api(&self) -> Result<()> {
        self.signal_api(Signal::CONT)
    }

    fn end_api(&self, signal: Signal) -> Result<()> {
        let Some(guard) = self.api_server.lock().take() else {
            bail!("the API server of `{}` is not running", self.name);
        };
        guard.signal(signal)?;
        guard.wait(Duration::from_mins(1))
    }

    fn signal_api(&self, signal: Signal) -> Result<()> {
        match &*self.api_server.lock() {
            Some(guard) => guard.signal(signal),
            None => bail!("the API server of `{}` is not running", self.name),
        }
    }

    fn api_exited(&self) -> bool {
        self.api_server.lock().as_ref().is_none_or(Guard::exited)
    }

    fn api_log_tail(&self) -> String {
        self.api_server
            .lock()
            .as_ref()
            .map(Guard::log_tail)
            .unwrap_or_default()
    }

    async fn register_node(&self, admin: &Client) -> Result<()> {
        let nodes: Api<Node> = Api::all(admin.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}}))?;
        nodes.create(&PostParams::default(), &node).await?;
        let status = Patch::Merge(json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.node.port()}},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }}));
        nodes
            .patch_status(NODE, &PatchParams::default(), &status)
            .await?;
        Ok(())
    }

    fn api_server_args(&self) -> Vec<OsString> {
        let dir = self.dir.display();
        let flags = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port()),
            format!("--secure-port={}", self.api_port),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={dir}/api.crt"),
            format!("--tls-private-key-file={dir}/api.key"),
            format!("--client-ca-file={dir}/ca.crt"),
            format!("--token-auth-file={dir}/tokens.csv"),
            "--authorization-mode=Node,RBAC".to_owned(),
            format!("--service-account-issuer={}", self.url()),
            format!("--service-account-key-file={dir}/api.crt"),
            format!("--service-account-signing-key-file={dir}/api.key"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--kubelet-client-certificate={dir}/kubelet-client.crt"),
            format!("--kubelet-client-key={dir}/kubelet-client.key"),
            format!("--kubelet-certificate-authority={dir}/ca.crt"),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--profiling=false".to_owned(),
            format!("--audit-policy-file={dir}/audit-policy.json"),
            format!("--audit-log-path={dir}/audit.log"),
            "--audit-log-mode=blocking".to_owned(),
        ];
        let without = (!self.options.needs_service_accounts)
            .then(|| "--disable-admission-plugins=ServiceAccount".to_owned());
        flags
            .into_iter()
            .chain(without)
            .chain(self.options.api_server_args.clone())
            .map(Into::into)
            .collect()
    }
}

fn write_credentials(dir: &Path, authority: &Authority) -> Result<()> {
    fs::write(dir.join("ca.crt"), authority.pem())?;
    authority
        .server("kube-apiserver", Validity::Current)?
        .write(dir, "api")?;
    authority
        .client(
            "kube-apiserver-kubelet-client",
            "system:masters",
            Validity::Current,
        )?
        .write(dir, "kubelet-client")?;
    let tokens: Vec<_> = User::KNOWN.into_iter().map(User::token_line).collect();
    fs::write(dir.join("audit-policy.json"), AUDIT_POLICY)?;
    fs::write(dir.join("tokens.csv"), tokens.join("\n") + "\n")?;
    Ok(())
}

/// Starts etcd on free ports and waits until it is healthy: an API server gives up after 20 s
/// without its store, which a busy machine needs at times. Puts the process in front of `etcds`,
/// whose last one clears the folder when it ends, and returns the port for clients.
async fn start_etcd(binaries: &Binaries, dir: &Path, etcds: &mut Vec<Guard>) -> Result<u16> {
    let deadline = Instant::now() + START_WITHIN;
    let mut attempts_left = START_ATTEMPTS;
    loop {
        let ports = free_ports(2)?;
        let name = format!("etcd-{}", ports[0]);
        let etcd = Guard::start(&Spec {
            program: &binaries.etcd,
            args: etcd_args(dir, &name, ports[0], ports[1]),
            clear: etcds.is_empty().then_some(dir),
            log: dir.join(format!("{name}.log")),
        })?;
        attempts_left -= 1;
        let health = format!("http://127.0.0.1:{}/health", ports[0]);
        let healthy = loop {
            match reqwest::get(&health).await {
                Ok(answer) if answer.status().is_success() => break true,
                _ if etcd.exited() => break false,
                _ if Instant::now() > deadline => {
                    bail!("etcd is not healthy:\n{}", etcd.log_tail())
                }
                _ => sleep(Duration::from_millis(20)).await,
            }
        };
        if !healthy && attempts_left == 0 {
            bail!("etcd ended:\n{}", etcd.log_tail());
        }
        etcds.insert(0, etcd);
        if healthy {
            return Ok(ports[0]);
        }
    }
}

fn etcd_args(dir: &Path, name: &str, client_port: u16, peer_port: u16) -> Vec<OsString> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    [
        format!("--data-dir={}/{name}", dir.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
    .into_iter()
    .map(Into::into)
    .collect()
}

/// Different ports that were free at the time of the call.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    let held: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()?;
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}
