//! The server as a resource server of OAuth 2.1: what it says of itself to clients (RFC 9728),
//! which scopes it asks for (`scopes`), and how it refuses what they do not permit (`gate`).

pub(crate) mod gate;
pub(crate) mod scopes;

use std::sync::Arc;

use axum::{Json, Router, extract::State, routing::get};
use http::{HeaderMap, HeaderValue, Uri, header};
use kubecrier_oauth::{Authenticator, OAuthConfig};
use serde_json::{Value, json};

pub use self::scopes::ScopePolicy;
use crate::caller::Challenge;

/// Where clients look for the metadata; behind it stands the path of the resource.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The path of the MCP endpoint.
const ENDPOINT: &str = "/mcp";

/// Whose tokens are accepted, and what clients are told about it.
#[derive(Clone, Debug)]
pub struct OAuthSettings {
    /// How tokens are verified.
    pub tokens: OAuthConfig,
    /// How clients reach this server.
    pub public_url: PublicUrl,
    /// What tokens have to permit.
    pub scopes: ScopePolicy,
}

/// How clients reach the server, from `https://host` or `https://host/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// Without a slash at the end.
    root: String,
    /// Before the endpoint.
    path: String,
    authority: String,
}

// === impl PublicUrl ===

impl PublicUrl {
    /// Text as a public URL, with or without the path of the endpoint; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains(['?', '#', '@']) {
            return None;
        }
        // The same rule as for issuers: what tokens are for is not in clear text.
        kubecrier_oauth::IssuerUrl::parse(text).ok()?;
        let url: Uri = text.parse().ok()?;
        let authority = url.authority()?.as_str().to_lowercase();
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix(ENDPOINT).unwrap_or(path);
        Some(Self {
            root: format!("{}://{authority}", url.scheme_str()?),
            path: path.to_owned(),
            authority,
        })
    }

    /// The endpoint: what tokens are for, unless other audiences are named.
    pub fn resource(&self) -> String {
        format!("{}{}{ENDPOINT}", self.root, self.path)
    }

    /// The same without the endpoint.
    pub fn base(&self) -> String {
        format!("{}{}", self.root, self.path)
    }

    /// Host and port, as requests name them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Where clients find the metadata.
    pub fn metadata(&self) -> String {
        format!("{}{WELL_KNOWN}{}{ENDPOINT}", self.root, self.path)
    }
}

// === impl OAuthSettings ===

impl OAuthSettings {
    /// What clients are told that have to authenticate.
    pub(crate) fn challenge(&self) -> Challenge {
        Challenge {
            resource_metadata: Some(self.public_url.metadata()),
            scope: self.scopes.base().join(" "),
        }
    }

    /// What verifies tokens.
    pub(crate) fn authenticator(&self) -> Authenticator {
        Authenticator::new(self.tokens.clone())
    }

    /// The metadata of the resource.
    fn metadata(&self) -> Value {
        let issuers: Vec<_> = self
            .tokens
            .issuers
            .iter()
            .map(|issuer| issuer.url.to_string())
            .collect();
        json!({
            "resource": self.public_url.resource(),
            "authorization_servers": issuers,
            "scopes_supported": self.scopes.supported(),
            "bearer_methods_supported": ["header"],
            "resource_name": "kubecrier",
            "resource_documentation": "https://github.com/kubecrier/kubecrier/blob/main/docs/identity.md",
        })
    }
}

/// The pages with the metadata: for everyone, before they can have a token.
pub(crate) fn pages(settings: &OAuthSettings) -> Router {
    let mut addresses = vec![WELL_KNOWN.to_owned(), format!("{WELL_KNOWN}{ENDPOINT}")];
    if !settings.public_url.path.is_empty() {
        let path = &settings.public_url.path;
        addresses.push(format!("{WELL_KNOWN}{path}{ENDPOINT}"));
    }
    let document = Arc::new(settings.metadata());
    let router = addresses.iter().fold(Router::new(), |router, address| {
        router.route(address, get(metadata))
    });
    router.with_state(document)
}

async fn metadata(State(document): State<Arc<Value>>) -> (HeaderMap, Json<Value>) {
    let mut head = HeaderMap::new();
    head.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    (head, Json(Value::clone(&document)))
}

/// Whether a request is for metadata, which pages of every origin may read.
pub(crate) fn is_metadata(path: &str) -> bool {
    let rest = path.strip_prefix(WELL_KNOWN);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_stands_where_the_public_url_leads() {
        for (text, resource, metadata) in [
            (
                "https://crier.example",
                "https://crier.example/mcp",
                "https://crier.example/.well-known/oauth-protected-resource/mcp",
            ),
            (
                "https://Crier.example:8443/mcp/",
                "https://crier.example:8443/mcp",
                "https://crier.example:8443/.well-known/oauth-protected-resource/mcp",
            ),
            (
                "https://tools.example/kube/",
                "https://tools.example/kube/mcp",
                "https://tools.example/.well-known/oauth-protected-resource/kube/mcp",
            ),
            (
                "http://127.0.0.1:8080",
                "http://127.0.0.1:8080/mcp",
                "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp",
            ),
        ] {
            let url = PublicUrl::parse(text).unwrap();
            assert_eq!(url.resource(), resource);
            assert_eq!(url.metadata(), metadata);
        }
        for other in [
            "crier.example",
            "http://crier.example",
            "https://a?b",
            "https://a@b",
            "",
        ] {
            assert_eq!(PublicUrl::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_metadata_is_for_every_page() {
        assert!(is_metadata("/.well-known/oauth-protected-resource"));
        assert!(is_metadata("/.well-known/oauth-protected-resource/mcp"));
        for other in [
            "/mcp",
            "/metrics",
            "/.well-known/oauth-protected-resourceful",
            "/",
        ] {
            assert!(!is_metadata(other), "{other}");
        }
    }
}
