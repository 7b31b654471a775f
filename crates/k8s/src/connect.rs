//! Clients for contexts: one is built for all concurrent callers, and no caller waits for a
//! slow credential plugin longer than its deadline.

use std::{env, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use kube::{
    client::{AuthError, ClientBuilder},
    config::{AuthInfo, KubeConfigOptions},
};
use tokio::runtime::Handle;

use super::{
    allowed::ReadScope,
    body_limit::BodyLimitLayer,
    client::Cluster,
    error::{ClusterError, ErrorKind},
    impersonation::ClusterIdentity,
    in_cluster::kubectl,
    kubeconfig::{Source, redacted_message},
    proxy, read_only,
};

/// Added to the timeouts of the client library: the deadline of a request ends first, and its
/// error says more.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// Characters of a plugin's stderr in an error.
const STDERR_CHARS_MAX: usize = 300;

/// A client that is being built. The work goes on without a waiting caller: the next caller
/// shares the result.
pub(super) type ClusterFuture = Shared<BoxFuture<'static, Result<Cluster, ClusterError>>>;

/// Starts to build a client.
pub(super) fn start(
    source: Arc<Source>,
    context: &str,
    timeout: Duration,
    scope: ReadScope,
    identity: ClusterIdentity,
) -> ClusterFuture {
    let name = context.to_owned();
    // kube runs credential plugins synchronously and blocks the thread.
    let work = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(connect(&source, &name, timeout, scope, identity))
    });
    let name = context.to_owned();
    async move {
        match work.await {
            Ok(result) => result,
            Err(error) => Err(failed(&name, format!("setting it up ended early: {error}"))),
        }
    }
    .boxed()
    .shared()
}

/// The error of a client that is not ready within the deadline.
pub(super) fn connect_timeout(context: &str, timeout: Duration) -> ClusterError {
    let seconds = timeout.as_secs_f64();
    ClusterError::new(
        ErrorKind::Timeout,
        format!("cannot set up a client for context `{context}`"),
        format!("its credential plugin did not finish within {seconds} s and goes on"),
        Some("call again in a moment, or raise --request-timeout-seconds".to_owned()),
    )
}

async fn connect(
    source: &Source,
    name: &str,
    timeout: Duration,
    scope: ReadScope,
    identity: ClusterIdentity,
) -> Result<Cluster, ClusterError> {
    let mut config = match source {
        Source::Demo(demo) => return Ok(demo.connect(timeout, scope)),
        Source::File(file) | Source::InCluster(file) => {
            let options = KubeConfigOptions {
                context: Some(name.to_owned()),
                ..KubeConfigOptions::default()
            };
            kube::Config::from_custom_kubeconfig((**file).clone(), &options)
                .await
                .map_err(|error| failed(name, redacted_message(&error)))?
        }
    };
    // The client library would add the user of the kubeconfig to that of the caller.
    if identity.is_impersonate() && names_user(&config.auth_info) {
        return Err(ClusterError::new(
            ErrorKind::Kubeconfig,
            format!("cannot act as callers in context `{name}`"),
            "the context itself acts as another user (`as` in the kubeconfig)",
            Some(
                "give the server credentials of its own that may impersonate, or start it with \
                 --cluster-identity shared"
                    .to_owned(),
            ),
        ));
    }
    let host = config.cluster_url.host().unwrap_or_default();
    // A pod's own API server is not beyond the proxy that leads out of the cluster.
    let is_near = matches!(source, Source::InCluster(_)) || proxy::bypasses(host, &no_proxy());
    if !source.names_proxy(name) && is_near {
        config.proxy_url = None;
    }
    config.connect_timeout = Some(timeout + TIMEOUT_MARGIN);
    config.write_timeout = Some(timeout + TIMEOUT_MARGIN);
    // No retries: a throttled request fails at once, and the caller gets the error.
    config.default_retry = false;
    let namespace = config.default_namespace.clone();
    let server = config.cluster_url.to_string();
    let authorities = config.root_cert.clone().unwrap_or_default();
    let client =
        ClientBuilder::try_from(config).map_err(|error| failed(name, client_error(&error)))?;
    let client = client
        .with_layer(&read_only::layer(scope.clone()))
        .with_layer(&BodyLimitLayer)
        .build();
    let cluster = Cluster::new(name, client, server, namespace, timeout);
    Ok(cluster.trusting(authorities).with_scope(scope))
}

/// Whether credentials act as another user.
fn names_user(credentials: &AuthInfo) -> bool {
    credentials.impersonate.is_some()
        || credentials.impersonate_uid.is_some()
        || credentials.impersonate_groups.is_some()
        || credentials.impersonate_user_extra.is_some()
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
        Some(format!("check it with `{} version`", kubectl(context))),
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

/// The message of an authentication error, without secrets: the arguments, environment and
/// output of a plugin may contain them.
pub(super) fn auth_error(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("its credential plugin does not start: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let stderr: String = stderr.trim().chars().take(STDERR_CHARS_MAX).collect();
            format!("its credential plugin failed ({}): {stderr}", out.status)
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
