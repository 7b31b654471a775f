//! One cluster: a client with a deadline for each request.

use std::{future::Future, sync::Arc, time::Duration};

use kube::{Client, api::ListParams};
use kubecrier_core::KubernetesUser;
use kubecrier_k8s_api::{BuiltinKind, names::is_plural_of};

use super::{
    allowed::{ObjectRef, ReadScope},
    cluster_id::KnownId,
    error::{ClusterError, ErrorKind, Operation},
    impersonation::{self, impersonation_headers},
    kinds::DiscoveryCache,
    name::Name,
};
use kubecrier_redact::Redactor;

/// The least timeout of a request; a shorter one would always fail.
const TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// A client for one context, of the server itself or of a caller. Cheap to clone; connects
/// with the first request.
#[derive(Clone)]
pub struct Cluster {
    context: Arc<str>,
    client: Client,
    /// The client of the server itself, over the same connections.
    own: Client,
    /// The user as whom a caller's requests are made.
    user: Option<Arc<KubernetesUser>>,
    server: Arc<str>,
    namespace: Arc<str>,
    timeout: Duration,
    redactor: Redactor,
    scope: ReadScope,
    discovery: Arc<DiscoveryCache>,
    id: Arc<KnownId>,
}

/// Which client, of those that were made for a context one after the other.
#[derive(Clone, Debug)]
pub(super) struct ClientId(Arc<DiscoveryCache>);

/// A reference to an object, as kubectl writes it: `deployment/web`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Kind, as Kubernetes spells it if it is a built-in kind, otherwise as the caller wrote it.
    pub kind: String,
    /// Whether `kind` is spelled as Kubernetes spells it.
    pub exact: bool,
    /// The object's name.
    pub name: String,
}

// === impl Cluster ===

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    pub(super) fn new(
        context: &str,
        client: Client,
        server: String,
        namespace: String,
        timeout: Duration,
    ) -> Self {
        Self {
            context: context.into(),
            own: client.clone(),
            client,
            user: None,
            server: server.into(),
            namespace: namespace.into(),
            timeout,
            redactor: Redactor::default(),
            scope: ReadScope::default(),
            discovery: Arc::default(),
            id: Arc::default(),
        }
    }

    /// The same cluster, whose API server is trusted by these certificates.
    pub(super) fn trusting(mut self, authorities: Vec<Vec<u8>>) -> Self {
        self.id = Arc::new(KnownId::trusting(authorities));
        self
    }

    /// What tells it from others.
    pub(super) fn known_id(&self) -> &KnownId {
        &self.id
    }

    /// The same cluster, of which only this may be read.
    pub(super) fn with_scope(mut self, scope: ReadScope) -> Self {
        if let Some(namespace) = scope.default_namespace(&self.namespace) {
            self.namespace = namespace.into();
        }
        self.scope = scope;
        self
    }

    /// The same cluster for a caller: every request but discovery is made as this user, over
    /// the same connections. What is cached here is the server's own.
    pub(super) fn acting_as(mut self, user: Arc<KubernetesUser>) -> Result<Self, ClusterError> {
        let headers = impersonation_headers(&user).map_err(|error| {
            ClusterError::invalid(
                format!("cannot act as a user of context `{}`", self.context),
                error.to_string(),
                "whoever runs this server maps callers to users: ask for another name",
            )
        })?;
        self.client = impersonation::on_behalf(&self.own, headers);
        self.user = Some(user);
        Ok(self)
    }

    /// Whether requests are made as a caller, who may have fewer rights than the server.
    pub(super) fn acts_as_caller(&self) -> bool {
        self.user.is_some()
    }

    /// What may be read of the cluster.
    pub(super) fn scope(&self) -> &ReadScope {
        &self.scope
    }

    /// Whether an object that another one names must not be shown.
    pub(super) fn hides(&self, object: ObjectRef<'_>) -> bool {
        self.scope.hides(object)
    }

    /// The cache of discovery.
    pub(super) fn discovery_cache(&self) -> &DiscoveryCache {
        &self.discovery
    }

    /// The same cluster with this redactor for text of workloads.
    pub(super) fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The context's name.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// The default namespace of the context.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// The named namespace, or the default namespace of the context.
    pub fn namespace_or_default(&self, named: Option<&Name>) -> Result<Name, ClusterError> {
        match named {
            Some(named) => Ok(named.clone()),
            None => Name::label("namespace", &self.namespace),
        }
    }

    /// The address of the API server.
    pub(super) fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// The identity of the client; a clone has the same.
    pub(super) fn client_id(&self) -> ClientId {
        ClientId(Arc::clone(&self.discovery))
    }

    /// Whether this is the client of that identity.
    pub(super) fn is_client(&self, id: &ClientId) -> bool {
        Arc::ptr_eq(&self.discovery, &id.0)
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client of the server itself, for discovery: all callers have the same kinds.
    pub(super) fn own_client(&self) -> Client {
        self.own.clone()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same cluster with the time already spent subtracted from the timeout of each request.
    #[must_use]
    pub fn with_time_spent(mut self, spent: Duration) -> Self {
        self.timeout = self.timeout.saturating_sub(spent).max(TIMEOUT_MIN);
        self
    }

    /// Whether the credentials are known to have expired.
    pub(super) fn has_expired(&self) -> bool {
        self.client
            .valid_until()
            .is_some_and(|until| until <= jiff::Timestamp::now())
    }

    /// Runs one request within the deadline; an error names the operation.
    pub(super) async fn request<T>(
        &self,
        operation: &Operation<'_>,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ClusterError> {
        match tokio::time::timeout(self.timeout, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.error(operation, &error)),
            Err(_elapsed) => Err(ClusterError::timeout(operation, self.timeout.as_secs_f64())),
        }
    }

    /// The error of a request; it names the user whom the API server has refused.
    pub(super) fn error(&self, operation: &Operation<'_>, error: &kube::Error) -> ClusterError {
        let failed = ClusterError::from_kube(operation, error);
        match &self.user {
            Some(user) if failed.kind() == ErrorKind::Forbidden => failed.for_user(operation, user),
            _ => failed,
        }
    }
}

// === impl ObjectName ===

impl ObjectName {
    /// Parses `kind/name`; kinds are written as kubectl accepts them.
    pub fn parse(text: &str) -> Result<Self, ClusterError> {
        let Some((kind, name)) = text
            .split_once('/')
            .filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
        else {
            return Err(ClusterError::invalid(
                format!("cannot read `{text}` as an object"),
                "it is not of the form kind/name",
                "write for example `pod/web-0` or `deployment/web`",
            ));
        };
        if name.contains([',', '=', '!', '\\']) || name.contains(char::is_whitespace) {
            return Err(ClusterError::invalid(
                format!("cannot read `{text}` as an object"),
                "no object has such a name",
                "write for example `pod/web-0` or `deployment/web`",
            ));
        }
        // `deployment.apps` is how kubectl writes a kind with its group.
        let kind = kind.split('.').next().unwrap_or(kind);
        let known = BuiltinKind::of_word(kind).map(|known| known.kind);
        // An upper-case letter: the caller spells the kind as Kubernetes does.
        let exact = known.is_some() || kind.chars().any(char::is_uppercase);
        Ok(Self {
            kind: known.unwrap_or(kind).to_owned(),
            exact,
            name: name.to_owned(),
        })
    }

    /// Whether this is the name of a kind, as Kubernetes spells it, or its plural.
    pub fn is_kind(&self, kind: &str) -> bool {
        let (own, kind) = (self.kind.to_lowercase(), kind.to_lowercase());
        own == kind || is_plural_of(&own, &kind)
    }
}

/// List parameters with the selectors of a caller; the API server enforces them.
pub(super) fn list_params(labels: Option<&str>, fields: Option<&str>) -> ListParams {
    let non_empty = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    ListParams {
        label_selector: non_empty(labels),
        field_selector: non_empty(fields),
        ..ListParams::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kind: &str, exact: bool, name: &str) {
        let expected = ObjectName {
            kind: kind.to_owned(),
            exact,
            name: name.to_owned(),
        };
        assert_eq!(ObjectName::parse(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn objects_are_written_as_kubectl_takes_them() {
        check("deploy/web", "Deployment", true, "web");
        check("Pods/web-0", "Pod", true, "web-0");
        check("MyThing/x", "MyThing", true, "x");
        check("mything/x", "mything", false, "x");
        check("deployment.apps/web", "Deployment", true, "web");
        check("certificates.cert-manager.io/x", "certificates", false, "x");
    }

    #[test]
    fn half_an_object_is_refused() {
        for text in ["", "web", "/web", "pod/", "pod/a,b", "pod/a=b", "pod/a b"] {
            let error = ObjectName::parse(text).unwrap_err();
            assert!(error.hint().unwrap().contains("deployment/web"), "{text}");
        }
    }

    #[test]
    fn a_plural_means_its_kind() {
        let is = |text: &str, kind: &str| ObjectName::parse(text).unwrap().is_kind(kind);
        assert!(is("certificates/x", "Certificate") && is("certificate/x", "Certificate"));
        assert!(is("policies/x", "Policy") && is("ingresses.networking.k8s.io/x", "Ingress"));
        assert!(!is("certificates/x", "CertificateRequest") && !is("pod/x", "Node"));
    }

    proptest::proptest! {
        #[test]
        fn fuzz_any_text_is_an_object_or_named(text in "\\PC{0,40}|[a-z.]{0,9}/[a-z=,!\\\\ ]{0,9}") {
            if let Ok(object) = ObjectName::parse(&text) {
                // What could end a field selector and begin another never gets into one.
                proptest::prop_assert!(!object.name.contains([',', '=', '!', '\\', ' ']));
                proptest::prop_assert!(!object.name.is_empty());
            }
        }
    }
}
