//! What the operator lets this server read: contexts, namespaces and kinds.
//!
//! Contexts are chosen in `contexts`: one that is not allowed does not exist. Namespaces are
//! checked here, beside `read_only` and under each client: with `--allowed-namespaces` a
//! request leaves only for an allowed namespace or for the Namespace object itself. Nothing is
//! read for the whole cluster and then filtered; `each_namespace` asks namespace by namespace.

use std::sync::Arc;

use http::{Request, Uri};
use kubecrier_core::filters::Glob;
use kubecrier_k8s_api::names;

use super::{
    read_only::{DeniedKinds, RefusedRequest, RequestPath, is_metadata_only, is_review_resource},
    token_review::ForServer,
};

/// Names and patterns (`*`, `?`) that an operator allows; by default everything. Cheap to
/// clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNames(Option<Arc<[Glob]>>);

/// The contexts and namespaces that may be read; by default all of them.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Contexts that exist for callers.
    pub contexts: AllowedNames,
    /// Namespaces that may be read.
    pub namespaces: AllowedNames,
    /// Whether errors leave out which contexts there are.
    pub hides_contexts: bool,
    /// Whether logs are never read: the operator has switched them off.
    pub hides_logs: bool,
}

/// What may be read from a cluster. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadScope {
    pub(super) denied: DeniedKinds,
    pub(super) namespaces: AllowedNames,
    pub(super) hides_logs: bool,
}

/// An object that another one names: the owner of a pod, the involved object of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectRef<'a> {
    /// May be missing; then the kind is compared with the denied kinds of all groups.
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

// === impl AllowedNames ===

impl AllowedNames {
    /// Parses the names of contexts; the error is the entry that cannot be one. An empty
    /// list is an error too: it would allow nothing, or everything.
    pub fn contexts(entries: &[String]) -> Result<Self, String> {
        Self::parse(entries, |text| !text.chars().any(char::is_control))
    }

    /// Parses the names of namespaces; the error is the entry that cannot be one.
    pub fn namespaces(entries: &[String]) -> Result<Self, String> {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        Self::parse(entries, |text| {
            text.bytes()
                .all(|byte| inside(byte) || b"-*?".contains(&byte))
        })
    }

    fn parse(entries: &[String], is_valid: impl Fn(&str) -> bool) -> Result<Self, String> {
        let entries = entries.iter().map(|entry| match entry.trim() {
            text if text.is_empty() || !is_valid(text) => Err(entry.clone()),
            text => Ok(Glob::new(text)),
        });
        let globs: Arc<[Glob]> = entries.collect::<Result<_, _>>()?;
        if globs.is_empty() {
            return Err(String::new());
        }
        Ok(Self(Some(globs)))
    }

    /// Whether anything is excluded.
    pub fn is_restricted(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a name is allowed.
    pub fn allows(&self, name: &str) -> bool {
        let matches = |globs: &Arc<[Glob]>| globs.iter().any(|glob| glob.matches(name));
        self.0.as_ref().is_none_or(matches)
    }

    /// The allowed names, if there are no patterns among them.
    pub(super) fn literal(&self) -> Option<Vec<&str>> {
        let globs = self.0.as_deref()?;
        let names = globs.iter().map(Glob::as_str);
        let names: Vec<_> = names.collect();
        (!names.iter().any(|name| Glob::is_pattern(name))).then_some(names)
    }

    /// The first entry that is a name.
    fn first_name(&self) -> Option<&str> {
        let mut names = self
            .0
            .iter()
            .flat_map(|globs| globs.iter())
            .map(Glob::as_str);
        names.find(|name| !Glob::is_pattern(name))
    }
}

// === impl ReadScope ===

impl ReadScope {
    /// The namespace of requests that name none: that of the context, if it is allowed, else
    /// the first allowed name. Without a name to fall back on there is none.
    pub(super) fn default_namespace<'a>(&'a self, of_context: &'a str) -> Option<&'a str> {
        if self.namespaces.allows(of_context) {
            return Some(of_context);
        }
        self.namespaces.first_name()
    }

    /// Whether anything must not be shown.
    pub(super) fn hides_some(&self) -> bool {
        self.namespaces.is_restricted() || !self.denied.is_empty()
    }

    /// Whether an object that is named elsewhere must not be shown.
    pub(super) fn hides(&self, object: ObjectRef<'_>) -> bool {
        self.denied.denies_object(object.api_version, object.kind) || self.is_outside(object)
    }

    /// Whether an object is in no allowed namespace. Objects without a namespace belong to the
    /// whole cluster; of those, only the allowed Namespaces are inside.
    fn is_outside(&self, object: ObjectRef<'_>) -> bool {
        let namespace = match (object.kind, object.namespace) {
            ("Namespace", _) => object.name,
            (_, namespace) => namespace,
        };
        self.namespaces.is_restricted()
            && (namespace.is_empty() || !self.namespaces.allows(namespace))
    }

    /// Refuses a request that is not for an allowed namespace, and one for a log where those are
    /// switched off. What `read_only` refuses is
    /// not looked at here.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), RefusedRequest> {
        if self.hides_logs && is_log(request.uri().path()) {
            return Err(RefusedRequest::Logs);
        }
        if !self.namespaces.is_restricted() {
            return Ok(());
        }
        let uri = request.uri();
        let segments: Vec<_> = uri.path().split('/').skip(1).collect();
        // The path is made of validated names. Whatever could be read as another path by the
        // API server is not sent.
        let is_plain = |segment: &&str| {
            !segment.is_empty() && !matches!(*segment, "." | "..") && !segment.contains('%')
        };
        let refused = || RefusedRequest::ClusterWide(uri.path().to_owned());
        if !segments.iter().all(is_plain) {
            return Err(refused());
        }
        let (["api", _, below_version @ ..] | ["apis", _, _, below_version @ ..]) =
            segments.as_slice()
        else {
            // Discovery, the version, health.
            return Ok(());
        };
        match below_version {
            // Discovery of one version.
            [] => Ok(()),
            ["namespaces"] => self.check_namespace_list(request),
            ["namespaces", name, ..] => self.check_namespace(name),
            // Reviews read no object.
            ["tokenreviews"] if request.extensions().get::<ForServer>().is_some() => Ok(()),
            [review] if is_review_resource(segments[1], review) => Ok(()),
            [resource, ..] => Err(RefusedRequest::ClusterWide((*resource).to_owned())),
        }
    }

    /// Refuses a namespace that is not allowed.
    pub(super) fn check_namespace(&self, name: &str) -> Result<(), RefusedRequest> {
        let is_allowed = names::is_dns_label(name) && self.namespaces.allows(name);
        if self.namespaces.is_restricted() && !is_allowed {
            return Err(RefusedRequest::Namespace(name.to_owned()));
        }
        Ok(())
    }

    /// Namespaces are listed one by one. To find those that match a pattern, the names of all
    /// are read, and nothing else of them.
    fn check_namespace_list<B>(&self, request: &Request<B>) -> Result<(), RefusedRequest> {
        let has_patterns = self.namespaces.literal().is_none();
        if has_patterns && is_metadata_only(request.headers()) {
            return Ok(());
        }
        match selected_name(request.uri()) {
            Some(name) => self.check_namespace(name),
            None => Err(RefusedRequest::ClusterWide("namespaces".to_owned())),
        }
    }
}

/// The field selector of one object, before other terms: a term that came before it could
/// take it up as part of its own value.
pub(super) fn name_selector(name: &str, others: Option<&str>) -> String {
    match others.filter(|others| !others.is_empty()) {
        Some(others) => format!("metadata.name={name},{others}"),
        None => format!("metadata.name={name}"),
    }
}

/// The name that the field selector of a request begins with. The query is compared as it is
/// sent: a spelling that no client library produces selects nothing.
fn selected_name(uri: &Uri) -> Option<&str> {
    let mut selectors = uri.query()?.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == "fieldSelector" || key.contains('%')).then_some(value)
    });
    let (selector, None) = (selectors.next()?, selectors.next()) else {
        return None;
    };
    let rest = selector.strip_prefix("metadata.name")?;
    let rest = rest
        .strip_prefix("%3D")
        .or_else(|| rest.strip_prefix('='))?;
    let end = rest.find([',', '%']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let ends = rest.is_empty() || rest.starts_with(',') || rest.starts_with("%2C");
    ends.then_some(name)
}

/// Whether a path leads to a log, however it is spelled, or cannot be read.
fn is_log(path: &str) -> bool {
    match RequestPath::parse(path) {
        Some(RequestPath::Resource(target)) => target.subresource.as_deref() == Some("log"),
        Some(RequestPath::Discovery) => false,
        None => true,
    }
}

#[cfg(test)]
mod tests;
