//! What kinds and objects are called: in paths, in `apiVersion`, in RBAC rules.

use crate::BuiltinKind;

/// `v1`, or `apps/v1`: how `apiVersion` is written. The core group is empty.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        return version.to_owned();
    }
    format!("{group}/{version}")
}

/// Group and version of an `apiVersion`. The core group is empty.
pub fn split_group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// `pods`, or `deployments.apps`: how kubectl and the API server's errors write a
/// resource.
pub fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() {
        return resource.to_owned();
    }
    format!("{resource}.{group}")
}

/// The path of the objects of a resource, in a namespace or in all of them.
///
/// Nothing is escaped: the caller has checked each part.
pub fn collection_path(
    group: &str,
    version: &str,
    plural: &str,
    namespace: Option<&str>,
) -> String {
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let group_version = group_version(group, version);
    match namespace {
        Some(namespace) => format!("{root}/{group_version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{group_version}/{plural}"),
    }
}

/// The plural of a short name, as kubectl resolves those of built-in kinds; another word is
/// returned as it is. It is in lower case.
pub fn full_name(word: &str) -> &str {
    // Built-in kinds that are not in the table of kinds.
    const OTHERS: [(&str, &str); 11] = [
        ("crd", "customresourcedefinitions"),
        ("crds", "customresourcedefinitions"),
        ("cs", "componentstatuses"),
        ("csr", "certificatesigningrequests"),
        ("limits", "limitranges"),
        ("netpol", "networkpolicies"),
        ("pc", "priorityclasses"),
        ("quota", "resourcequotas"),
        ("rc", "replicationcontrollers"),
        ("sc", "storageclasses"),
        ("vac", "volumeattributesclasses"),
    ];
    let builtin = BuiltinKind::of_word(word).map(|kind| kind.plural);
    let other = OTHERS.iter().find(|(short, _)| *short == word);
    builtin.or(other.map(|(_, plural)| *plural)).unwrap_or(word)
}

/// The group in `v1.apps`, as kubectl accepts it after the name of a resource.
pub fn without_version(group: &str) -> &str {
    let is_version = |text: &str| {
        let rest = text.strip_prefix('v').unwrap_or_default();
        let number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
        parts.map_or(number(rest), |(major, minor)| {
            number(major) && number(minor)
        })
    };
    match group.split_once('.') {
        Some((version, group)) if is_version(version) => group,
        _ => group,
    }
}

/// Whether `plural` is the regular plural of `singular`: `pods`, `ingresses`, `policies`.
/// Both are in lower case.
pub fn is_plural_of(plural: &str, singular: &str) -> bool {
    let ending = plural.strip_prefix(singular);
    let ies = |stem| plural.strip_prefix(stem) == Some("ies");
    matches!(ending, Some("s" | "es")) || singular.strip_suffix('y').is_some_and(ies)
}

/// Whether a text is a DNS label (RFC 1123), as names of namespaces and containers are.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Whether a text is a DNS subdomain (RFC 1123), as names of most objects are.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_spellings_are_resolved() {
        for (word, plural) in [("po", "pods"), ("deploy", "deployments"), ("pod", "pods")] {
            assert_eq!(full_name(word), plural);
        }
        assert_eq!(full_name("netpol"), "networkpolicies");
        assert_eq!(full_name("certificate"), "certificate");
        for group in ["apps", "v1.apps", "v1beta1.apps", "v2alpha10.apps"] {
            assert_eq!(without_version(group), "apps");
        }
        assert_eq!(without_version("vault.io"), "vault.io");
        assert_eq!(without_version("v1"), "v1");
        assert_eq!(without_version("x.v1.io"), "x.v1.io");
    }

    #[test]
    fn the_core_group_is_left_out() {
        assert_eq!(group_version("", "v1"), "v1");
        assert_eq!(group_version("apps", "v1"), "apps/v1");
        assert_eq!(split_group_version("v1"), ("", "v1"));
        assert_eq!(split_group_version("apps/v1"), ("apps", "v1"));
        assert_eq!(group_resource("", "pods"), "pods");
        assert_eq!(group_resource("apps", "deployments"), "deployments.apps");
    }

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(collection_path("", "v1", "pods", None), "/api/v1/pods");
        assert_eq!(
            collection_path("apps", "v1", "deployments", Some("shop")),
            "/apis/apps/v1/namespaces/shop/deployments"
        );
    }

    #[test]
    fn plurals_are_regular() {
        for (plural, singular) in [
            ("pods", "pod"),
            ("ingresses", "ingress"),
            ("policies", "policy"),
        ] {
            assert!(is_plural_of(plural, singular), "{plural}");
            assert!(!is_plural_of(singular, plural), "{singular}");
        }
        assert!(!is_plural_of("pod", "pod") && !is_plural_of("policybindings", "policy"));
    }

    #[test]
    fn dns_names_are_those_of_rfc_1123() {
        for text in ["a", "0", "kube-system", &"x".repeat(63)] {
            assert!(is_dns_label(text) && is_dns_subdomain(text), "{text}");
        }
        for text in ["", "-a", "a-", "A", "a_b", "ä", "a/b"] {
            assert!(!is_dns_label(text) && !is_dns_subdomain(text), "{text}");
        }
        assert!(!is_dns_label("a.b") && is_dns_subdomain("a.b"));
        assert!(!is_dns_label(&"x".repeat(64)) && !is_dns_subdomain("a..b"));
        assert!(!is_dns_subdomain(&"x".repeat(254)));
    }
}
