//! Callers that a proxy in front has authenticated: it names them in a header.
//!
//! Anyone can write a header, so only connections from the proxy's own addresses may carry
//! it.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use kubecrier_core::KubernetesUser;

use super::kubernetes::{MappingError, mapped_user};

/// A longer name is no name.
const NAME_BYTES_MAX: usize = 256;

/// The header with the caller's name, and the proxies that may send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedUserHeader {
    /// The name of the header.
    pub header: HeaderName,
    /// The addresses of the proxies.
    pub proxies: Vec<IpNet>,
    /// How a named caller becomes a user of Kubernetes; `None` where callers act as the server.
    pub mapping: Option<ProxyMapping>,
}

/// How a caller that a proxy names becomes a user of Kubernetes: under the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyMapping {
    /// The header with the groups, separated by commas.
    pub groups_header: Option<HeaderName>,
}

/// Why a header names no caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UserHeaderError {
    /// Somebody else has sent it.
    #[error(
        "the header `{header}` is accepted only from --trusted-proxies, and this connection \
         comes from {from}"
    )]
    NotFromProxy { header: HeaderName, from: IpAddr },
    /// The header does not have one name.
    #[error("the header `{header}` {what}")]
    Invalid {
        header: HeaderName,
        what: &'static str,
    },
    /// The names are none of a Kubernetes user.
    #[error("what the proxy says of the caller {error}")]
    Mapping { error: MappingError },
}

// === impl TrustedUserHeader ===

impl TrustedUserHeader {
    /// The user that the header names; `None` without the header.
    pub(super) fn user<'a>(
        &self,
        from: Option<IpAddr>,
        headers: &'a HeaderMap,
    ) -> Result<Option<&'a str>, UserHeaderError> {
        let mut values = headers.get_all(&self.header).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let from = from.unwrap_or(IpAddr::from([0; 4]));
        if !self.is_proxy(from) {
            let header = self.header.clone();
            return Err(UserHeaderError::NotFromProxy { header, from });
        }
        let invalid = |what| {
            let header = self.header.clone();
            Err(UserHeaderError::Invalid { header, what })
        };
        if values.next().is_some() {
            return invalid("is there more than once: the proxy must replace what a client sends");
        }
        let Ok(name) = std::str::from_utf8(value.as_bytes()) else {
            return invalid("is not UTF-8");
        };
        let name = name.trim();
        if name.is_empty() {
            return invalid("is empty");
        }
        if name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return invalid("is longer than a name can be, or has control characters");
        }
        Ok(Some(name))
    }

    /// The Kubernetes user of a caller whom the header of the same request names.
    pub(super) fn kubernetes_user(
        &self,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<KubernetesUser>>, UserHeaderError> {
        let Some(mapping) = &self.mapping else {
            return Ok(None);
        };
        let groups = mapping.groups(headers)?;
        let mapped = mapped_user(name, groups);
        mapped
            .map(Some)
            .map_err(|error| UserHeaderError::Mapping { error })
    }

    /// Whether the address is one of a proxy.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.proxies
            .iter()
            .any(|proxies| proxies.contains(&address))
    }
}

// === impl ProxyMapping ===

impl ProxyMapping {
    /// The groups of a request; without the header there are none.
    fn groups<'a>(&self, headers: &'a HeaderMap) -> Result<Vec<&'a str>, UserHeaderError> {
        let Some(header) = &self.groups_header else {
            return Ok(Vec::new());
        };
        let mut values = headers.get_all(header).iter();
        let Some(value) = values.next() else {
            return Ok(Vec::new());
        };
        let invalid = |what| UserHeaderError::Invalid {
            header: header.clone(),
            what,
        };
        if values.next().is_some() {
            return Err(invalid(
                "is there more than once: the proxy must replace what a client sends",
            ));
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid("is not UTF-8"))?;
        let groups = text.split(',').map(str::trim);
        Ok(groups.filter(|group| !group.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn trusted() -> TrustedUserHeader {
        TrustedUserHeader {
            header: HeaderName::from_static("x-forwarded-user"),
            proxies: vec![
                "10.1.0.0/16".parse().unwrap(),
                "fd00:1::/64".parse().unwrap(),
            ],
            mapping: None,
        }
    }

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append("x-forwarded-user", value);
        }
        headers
    }

    fn check(from: &str, values: &[&[u8]], expected: Result<Option<&str>, &str>) {
        let headers = headers(values);
        let user = trusted().user(Some(from.parse().unwrap()), &headers);
        match (user, expected) {
            (Ok(user), Ok(expected)) => assert_eq!(user, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (user, expected) => panic!("{user:?}, not {expected:?}"),
        }
    }

    #[test]
    fn a_proxy_names_the_user() {
        check("10.1.2.3", &[b"ann"], Ok(Some("ann")));
        check("::ffff:10.1.2.3", &[b"ann"], Ok(Some("ann")));
        check(
            "fd00:1::7",
            &[b" ann@example.com "],
            Ok(Some("ann@example.com")),
        );
        check(
            "10.1.2.3",
            &["J\u{fc}rgen".as_bytes()],
            Ok(Some("J\u{fc}rgen")),
        );
        check("10.1.2.3", &[], Ok(None));
    }

    #[test]
    fn a_header_that_is_not_one_name_is_refused() {
        check("10.1.2.3", &[b"ann", b"ann"], Err("more than once"));
        check("10.1.2.3", &[b"eve", b"ann"], Err("more than once"));
        check("10.1.2.3", &[b""], Err("empty"));
        check("10.1.2.3", &[b"\xff"], Err("UTF-8"));
        check("10.1.2.3", &[b"a\tb"], Err("control"));
        check("10.1.2.3", &[&[b'a'; 257]], Err("longer"));
    }

    #[test]
    fn a_proxy_names_the_groups_of_the_user() {
        let user = |groups_header: Option<&'static str>, values: &[&str], name: &str| {
            let mapping = ProxyMapping {
                groups_header: groups_header.map(HeaderName::from_static),
            };
            let trusted = TrustedUserHeader {
                mapping: Some(mapping),
                ..trusted()
            };
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-groups", HeaderValue::from_str(value).unwrap());
            }
            let user = trusted.kubernetes_user(name, &headers)?.unwrap();
            let groups = user.groups().iter().map(ToString::to_string);
            let groups: Vec<_> = groups
                .filter(|group| group != "system:authenticated")
                .collect();
            Ok::<_, UserHeaderError>(format!("{}: {}", user.name(), groups.join("|")))
        };
        let groups = Some("x-groups");
        assert_eq!(user(groups, &["ops, dev,"], "ann").unwrap(), "ann: dev|ops");
        assert_eq!(user(groups, &[], "ann").unwrap(), "ann: ");
        assert_eq!(user(None, &["dev"], "ann").unwrap(), "ann: ");
        for (values, name, part) in [
            (&["dev", "ops"][..], "ann", "more than once"),
            (
                &["dev,system:masters"],
                "ann",
                "group that begins with `system:`",
            ),
            (&[], "system:admin", "user that begins with `system:`"),
        ] {
            let error = user(groups, values, name).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // Where callers act as the server, nothing changes for any name.
        let same = trusted().kubernetes_user("system:admin", &HeaderMap::new());
        assert_eq!(same, Ok(None));
    }

    proptest! {
        #[test]
        fn fuzz_nobody_but_a_proxy_names_a_user(
            from in prop_oneof![
                any::<[u8; 4]>().prop_map(IpAddr::from),
                any::<[u8; 16]>().prop_map(IpAddr::from),
                (9_u8..12, 0_u8..3, any::<[u8; 2]>()).prop_map(|(a, b, [c, d])| IpAddr::from([a, b, c, d])),
            ],
            name in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let Ok(_valid) = HeaderValue::from_bytes(&name) else { return Ok(()) };
            let headers = headers(&[&name]);
            let named = trusted().user(Some(from), &headers).is_ok_and(|user| user.is_some());
            let is_proxy = match from.to_canonical() {
                IpAddr::V4(address) => address.octets().starts_with(&[10, 1]),
                IpAddr::V6(address) => address.segments().starts_with(&[0xfd00, 1, 0, 0]),
            };
            prop_assert!(!named || is_proxy);
        }
    }
}
