//! Making a client for a context, once however many ask, and without waiting
//! longer than one may for a credential plugin that takes its time.

use std::{env, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use kube::{
    client::{AuthError, ClientBuilder},
    config::KubeConfigOptions,
};
use tokio::runtime::Handle;

use super::{
    client::Cluster,
    error::{ClusterError, ErrorKind},
    kubeconfig::{Source, said_safely},
    proxy,
    read_only::{self, DeniedKinds},
};

/// What ends behind a request's own deadline, which comes first and says more.
const BACKSTOP: Duration = Duration::from_secs(1);

/// As much of what a plugin complains as a person can use.
const COMPLAINT_BYTES: usize = 300;

/// A client that is being made. It goes on when nobody waits any more: the next
/// who asks finds it.
pub(super) type Setup = Shared<BoxFuture<'static, Result<Cluster, ClusterError>>>;

/// Starts making a client.
pub(super) fn start(
    source: Arc<Source>,
    context: &str,
    timeout: Duration,
    denied: DeniedKinds,
) -> Setup {
    let name = context.to_owned();
    // Plugins are programs that kube waits for on the spot.
    let work = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(make(&source, &name, timeout, denied))
    });
    let name = context.to_owned();
    async move {
        match work.await {
            Ok(made) => made,
            Err(gone) => Err(failed(&name, format!("setting it up ended early: {gone}"))),
        }
    }
    .boxed()
    .shared()
}

/// Why there is no client yet.
pub(super) fn too_slow(context: &str, timeout: Duration) -> ClusterError {
    let seconds = timeout.as_secs_f64();
    ClusterError::new(
        ErrorKind::Timeout,
        format!("cannot set up a client for context `{context}`"),
        format!("its credential plugin did not finish within {seconds} s and goes on"),
        Some("call again in a moment, or raise --request-timeout-seconds".to_owned()),
    )
}

async fn make(
    source: &Source,
    name: &str,
    timeout: Duration,
    denied: DeniedKinds,
) -> Result<Cluster, ClusterError> {
    let mut config = match source {
        Source::InCluster => {
            kube::Config::incluster().map_err(|error| failed(name, error.to_string()))?
        }
        Source::Demo(demo) => return Ok(demo.connect(timeout, denied)),
        Source::File(file) => {
            let options = KubeConfigOptions {
                context: Some(name.to_owned()),
                ..KubeConfigOptions::default()
            };
            kube::Config::from_custom_kubeconfig((**file).clone(), &options)
                .await
                .map_err(|error| failed(name, said_safely(&error)))?
        }
    };
    let host = config.cluster_url.host().unwrap_or_default();
    if !source.names_proxy(name) && proxy::bypasses(host, &no_proxy()) {
        config.proxy_url = None;
    }
    config.connect_timeout = Some(timeout + BACKSTOP);
    config.write_timeout = Some(timeout + BACKSTOP);
    // A server that asks for less gets less, and the caller is told so.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let server = config.cluster_url.to_string();
    let client =
        ClientBuilder::try_from(config).map_err(|error| failed(name, client_error(&error)))?;
    let client = client.with_layer(&read_only::layer(denied.clone())).build();
    Ok(Cluster::new(name, client, server, namespace, timeout).denying(denied))
}

fn no_proxy() -> String {
    env::var("NO_PROXY")
        .or_else(|_| env::var("no_proxy"))
        .unwrap_or_default()
}

fn failed(context: &str, reason: String) -> ClusterError {
    ClusterError::new(
        ErrorKind::Kubeconfig,
        format!("cannot set up a client for context `{context}`"),
        reason,
        Some(format!(
            "check it with `kubectl --context {context} version`"
        )),
    )
}

fn client_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => auth_error(error),
        kube::Error::ProxyProtocolUnsupported { .. } => {
            "its proxy is of a kind that is not supported".to_owned()
        }
        other => other.to_string(),
    }
}

/// An error of authentication without secrets: a plugin's arguments, environment
/// and output may be full of them.
pub(super) fn auth_error(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("its credential plugin does not start: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(COMPLAINT_BYTES).collect();
            format!("its credential plugin failed ({}): {said}", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            "its credential plugin printed no ExecCredential".to_owned()
        }
        AuthError::AuthExec(_) => "its credential plugin gave no credentials".to_owned(),
        AuthError::InvalidBearerToken(_) => {
            "its token has characters that no token has (a line break?)".to_owned()
        }
        AuthError::InvalidBasicAuth(_) => {
            "its user name or password has characters that cannot be sent".to_owned()
        }
        other => other.to_string(),
    }
}
