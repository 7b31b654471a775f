//! What one watch covers.

use kubecrier_core::filters::Filters;

/// More namespaces than this are watched as one cluster.
pub(super) const NAMESPACES_MAX: usize = 8;

/// What one watch covers. Watches are shared by those who need the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    /// The context of the kubeconfig.
    pub(super) context: String,
    /// One namespace, or all.
    pub(super) namespace: Option<String>,
    /// A kind or an object, for the API server to select.
    pub(super) selector: Option<String>,
}

// === impl Scope ===

impl Scope {
    /// What has to be watched for these filters.
    pub(super) fn of(context: &str, filters: &Filters) -> Vec<Self> {
        let whole = Self::whole(context, filters);
        match filters.exact_namespaces() {
            Some(names) if names.len() <= NAMESPACES_MAX => {
                names.into_iter().map(|name| whole.within(name)).collect()
            }
            _ => vec![whole],
        }
    }

    /// All namespaces, with the selection of these filters.
    pub(super) fn whole(context: &str, filters: &Filters) -> Self {
        let (kind, name) = filters.involved();
        let kind = kind.map(|kind| format!("involvedObject.kind={kind}"));
        let name = name.map(|name| format!("involvedObject.name={name}"));
        let selector = kind
            .into_iter()
            .chain(name)
            .reduce(|a, b| format!("{a},{b}"));
        Self {
            context: context.to_owned(),
            namespace: None,
            selector,
        }
    }

    /// The same without a selection.
    pub(super) fn widened(&self) -> Self {
        Self {
            selector: None,
            ..self.clone()
        }
    }

    /// The same in all namespaces.
    pub(super) fn everywhere(&self) -> Self {
        Self {
            namespace: None,
            ..self.clone()
        }
    }

    /// One namespace of it.
    pub(super) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self.clone()
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{}",
            self.context,
            self.namespace.as_deref().unwrap_or("*")
        )?;
        match &self.selector {
            Some(selector) => write!(f, "?{selector}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_core::filters::FilterRequest;

    fn check(request: FilterRequest, expected: &[&str]) {
        let filters = Filters::try_from(request).unwrap();
        let scopes: Vec<_> = Scope::of("dev", &filters)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(scopes, expected);
    }

    #[test]
    fn a_watch_is_as_narrow_as_the_filters_allow() {
        let names = |count: usize| (0..count).map(|n| format!("ns-{n}")).collect::<Vec<_>>();
        check(FilterRequest::default(), &["dev/*"]);
        let namespaces = |namespaces| FilterRequest {
            namespaces,
            ..FilterRequest::default()
        };
        check(namespaces(names(2)), &["dev/ns-0", "dev/ns-1"]);
        check(namespaces(names(9)), &["dev/*"]);
        check(namespaces(vec!["prod-*".to_owned()]), &["dev/*"]);
        let object = FilterRequest {
            namespace: Some("payments".to_owned()),
            involved_name: Some("worker-0".to_owned()),
            ..FilterRequest::default()
        };
        check(object, &["dev/payments?involvedObject.name=worker-0"]);
        let kind = FilterRequest {
            involved_kind: Some("Node".to_owned()),
            ..FilterRequest::default()
        };
        check(kind, &["dev/*?involvedObject.kind=Node"]);
        let elsewhere = FilterRequest {
            involved_kind: Some("Pod".to_owned()),
            involved_name: Some("worker-0".to_owned()),
            involved_namespace: Some("payments".to_owned()),
            ..FilterRequest::default()
        };
        let selector = "involvedObject.kind=Pod,involvedObject.name=worker-0";
        check(elsewhere, &[&format!("dev/payments?{selector}")]);
    }
}
