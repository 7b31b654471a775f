//! Where the keys of an issuer are: its metadata (OpenID Connect Discovery, RFC 8414).

use http::{StatusCode, Uri};
use serde::Deserialize;

use crate::{FetchError, IssuerUrl, error::shown, fetch::Fetcher, url};

/// What is read of an issuer's metadata.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    issuer: String,
    jwks_uri: String,
    pub(crate) introspection_endpoint: Option<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
}

/// The metadata, and the address that it was found at.
pub(crate) async fn discover(
    fetcher: &Fetcher,
    issuer: &IssuerUrl,
) -> Result<(Uri, Metadata), FetchError> {
    let mut last = None;
    for address in addresses(issuer) {
        let Ok(address) = url::checked(&address) else {
            continue;
        };
        let text = match fetcher.get(&address).await {
            Ok(text) => text,
            // Another of the addresses may have it.
            Err(error @ FetchError::Status { status, .. })
                if status != StatusCode::TOO_MANY_REQUESTS && status.is_client_error() =>
            {
                last.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        match parse(issuer, &text) {
            Ok(metadata) => return Ok((address, metadata)),
            Err(why) => {
                let url = address.to_string();
                last = Some(FetchError::Answer { url, why });
            }
        }
    }
    Err(last.unwrap_or_else(|| FetchError::Answer {
        url: issuer.to_string(),
        why: "is nowhere: the issuer has no address for its metadata".to_owned(),
    }))
}

impl Metadata {
    /// Where the keys are.
    pub(crate) fn keys_address(&self) -> Result<Uri, FetchError> {
        url::checked(&self.jwks_uri).map_err(|error| FetchError::Answer {
            url: self.issuer.clone(),
            why: format!("has a `jwks_uri` that is not {error}"),
        })
    }
}

/// A metadata document that says it is of another issuer would make the keys of that one ours.
fn parse(issuer: &IssuerUrl, text: &[u8]) -> Result<Metadata, String> {
    let metadata: Metadata =
        serde_json::from_slice(text).map_err(|error| format!("is no metadata: {error}"))?;
    if metadata.issuer != issuer.as_str() {
        let named = shown(&metadata.issuer);
        return Err(format!(
            "is of the issuer `{named}`, not of `{issuer}`; write it exactly so in --oauth-issuer"
        ));
    }
    Ok(metadata)
}

/// The addresses of the metadata, in the order in which they are tried.
fn addresses(issuer: &IssuerUrl) -> Vec<String> {
    const OPENID: &str = "/.well-known/openid-configuration";
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    let whole = issuer.as_str().trim_end_matches('/');
    let host = whole.find("://").map_or(0, |at| at + 3);
    let path = whole[host..].find('/').map_or(whole.len(), |at| host + at);
    let (root, path) = whole.split_at(path);
    let mut addresses = vec![format!("{whole}{OPENID}"), format!("{root}{OAUTH}{path}")];
    if !path.is_empty() {
        addresses.push(format!("{root}{OPENID}{path}"));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_both_standards_have_it() {
        let of = |issuer: &str| addresses(&IssuerUrl::parse(issuer).unwrap());
        assert_eq!(
            of("https://id.example/"),
            [
                "https://id.example/.well-known/openid-configuration",
                "https://id.example/.well-known/oauth-authorization-server",
            ]
        );
        assert_eq!(
            of("https://id.example:8443/realms/team"),
            [
                "https://id.example:8443/realms/team/.well-known/openid-configuration",
                "https://id.example:8443/.well-known/oauth-authorization-server/realms/team",
                "https://id.example:8443/.well-known/openid-configuration/realms/team",
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_is_refused() {
        let issuer = IssuerUrl::parse("https://id.example").unwrap();
        let text = |named: &str| {
            format!(r#"{{"issuer": "{named}", "jwks_uri": "https://id.example/jwks"}}"#)
        };
        assert!(parse(&issuer, text("https://id.example").as_bytes()).is_ok());
        for other in [
            "https://id.example/",
            "https://ID.example",
            "https://eve.example",
            "",
        ] {
            let error = parse(&issuer, text(other).as_bytes()).unwrap_err();
            assert!(error.contains("--oauth-issuer"), "{error}");
        }
        let far = r#"{"issuer": "https://id.example", "jwks_uri": "http://id.example/jwks"}"#;
        let metadata = parse(&issuer, far.as_bytes()).unwrap();
        assert!(metadata.keys_address().is_err(), "keys in clear text");
    }
}
