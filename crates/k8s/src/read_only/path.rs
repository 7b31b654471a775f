//! The path of a request as the API server reads it: percent-decoded once, then split. What
//! could be read in two ways is not read at all.

use kubecrier_k8s_api::grammar::{is_dns_label, is_dns_subdomain};

/// Prefixes of the deprecated form `/api/v1/watch/...`, which the API server still serves.
const DEPRECATED_VERBS: [&str; 2] = ["watch", "proxy"];

/// Subresources of a namespace; any other word after its name is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestPath {
    /// The version of the server, or discovery.
    Discovery,
    /// Objects.
    Resource(RequestTarget),
}

/// The resource that a path names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) resource: String,
    /// The namespace of the objects; for a Namespace itself, its name.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// Whether the path goes on after the subresource.
    pub(crate) goes_on: bool,
}

// === impl RequestPath ===

impl RequestPath {
    /// Reads a path; `None` for one that an API server may read in another way, or that leads
    /// elsewhere.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts = path.strip_prefix('/')?.split('/').map(decoded);
        let parts: Vec<String> = parts.collect::<Option<_>>()?;
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let (group, rest) = match parts.as_slice() {
            ["version" | "api" | "apis"] => return Some(Self::Discovery),
            ["api", _version] => return Some(Self::Discovery),
            ["apis", _group] | ["apis", _group, _] => return Some(Self::Discovery),
            ["api", version, rest @ ..] if is_dns_label(version) => ("", rest),
            ["apis", group, version, rest @ ..]
                if is_dns_subdomain(group) && is_dns_label(version) =>
            {
                (*group, rest)
            }
            _ => return None,
        };
        if rest
            .first()
            .is_some_and(|word| DEPRECATED_VERBS.contains(word))
        {
            return None;
        }
        let (namespace, rest) = match rest {
            ["namespaces", namespace, below, ..] if !NAMESPACE_SUBRESOURCES.contains(below) => {
                (Some(*namespace), &rest[2..])
            }
            ["namespaces", namespace, ..] => (Some(*namespace), rest),
            all => (None, all),
        };
        let text = |index: usize| rest.get(index).map(ToString::to_string);
        // Resources have names in lower case. The API server compares them exactly, so no
        // other spelling means one of them.
        let resource = text(0).filter(|resource| is_dns_label(resource))?;
        Some(Self::Resource(RequestTarget {
            group: group.to_owned(),
            resource,
            namespace: namespace.map(str::to_owned),
            name: text(1),
            subresource: text(2),
            goes_on: rest.len() > 3,
        }))
    }
}

/// A part of a path, decoded. `None` for a part that is empty, is a dot segment, or has
/// characters that separate parts or begin another decoding.
fn decoded(part: &str) -> Option<String> {
    let text = percent_decoded(part)?;
    let is_separator = |one: char| matches!(one, '/' | '\\' | '%' | '?' | '#') || one.is_control();
    let is_unclear = matches!(text.as_str(), "" | "." | "..") || text.contains(is_separator);
    (!is_unclear).then_some(text)
}

/// Decodes `%73` and the like; `None` if it is not valid or not UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let value = digit(rest.next())? * 16 + digit(rest.next())?;
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
