//! The addresses that may be asked: HTTPS, or loopback.

use std::{fmt, net::IpAddr, sync::Arc};

use http::Uri;

/// An issuer, exactly as tokens name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IssuerUrl(Arc<str>);

/// Why text is no address that may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no absolute URL.
    #[error("a URL such as https://id.example/realms/team")]
    Form,
    /// What is sent to it could be read and changed on its way.
    #[error("a URL with https; http is only for loopback addresses")]
    ClearText,
    /// An issuer has none of these (RFC 8414).
    #[error("a URL without a query, a fragment or a user")]
    Parts,
}

// === impl IssuerUrl ===

impl IssuerUrl {
    /// An issuer; the text is kept as it is, because tokens have to name it exactly so.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.contains(['?', '#', '@']) {
            return Err(UrlError::Parts);
        }
        checked(text)?;
        Ok(Self(text.into()))
    }

    /// As tokens name it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address that text is, if it may be asked.
pub(crate) fn checked(text: &str) -> Result<Uri, UrlError> {
    // A `#` would be dropped silently.
    if text.contains(['#', '@']) || text.len() > 2048 {
        return Err(UrlError::Form);
    }
    let url: Uri = text.parse().map_err(|_| UrlError::Form)?;
    let host = url.host().filter(|host| !host.is_empty());
    match (url.scheme_str(), host) {
        (Some("https"), Some(_)) => Ok(url),
        (Some("http"), Some(host)) if is_loopback(host) => Ok(url),
        (Some("http"), Some(_)) => Err(UrlError::ClearText),
        _ => Err(UrlError::Form),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = bare.unwrap_or(host).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|one| one.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_has_https_unless_it_is_on_loopback() {
        for good in [
            "https://id.example",
            "https://id.example/",
            "https://id.example:8443/realms/team",
            "http://127.0.0.1:8080",
            "http://[::1]:8080/x",
            "http://localhost/x",
        ] {
            assert_eq!(IssuerUrl::parse(good).unwrap().as_str(), good);
        }
        for (bad, error) in [
            ("http://id.example", UrlError::ClearText),
            ("http://127.0.0.1.example", UrlError::ClearText),
            ("http://localhost.example", UrlError::ClearText),
            ("http://10.0.0.1", UrlError::ClearText),
            ("id.example", UrlError::Form),
            ("https://", UrlError::Form),
            ("ftp://id.example", UrlError::Form),
            ("", UrlError::Form),
            ("https://id.example?x=1", UrlError::Parts),
            ("https://id.example#x", UrlError::Parts),
            ("https://ann@id.example", UrlError::Parts),
        ] {
            assert_eq!(IssuerUrl::parse(bad), Err(error), "{bad}");
        }
    }
}
