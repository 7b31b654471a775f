//! Whether an issuer can be used, for `kubecrier doctor`.

use crate::{Algorithm, FetchError, IssuerUrl, OAuthConfig, discovery, fetch::Fetcher, keys};

/// What an issuer says of itself.
#[derive(Clone, Debug)]
pub struct IssuerCheck {
    /// Where its metadata is.
    pub metadata_url: String,
    /// The number of keys that can verify a signature.
    pub keys: usize,
    /// Those of the accepted algorithms that it has keys for.
    pub algorithms: Vec<Algorithm>,
    /// Where opaque tokens can be asked about.
    pub introspection_endpoint: Option<String>,
    /// The scopes that it says it has.
    pub scopes: Vec<String>,
}

/// Fetches metadata and keys of an issuer, as a server would for the first token.
pub async fn check_issuer(
    config: &OAuthConfig,
    issuer: &IssuerUrl,
) -> Result<IssuerCheck, FetchError> {
    let fetcher = Fetcher::new(config.ca_file.clone());
    let (address, metadata) = discovery::discover(&fetcher, issuer).await?;
    let keys = keys::fetch_keys(&fetcher, &metadata).await?;
    Ok(IssuerCheck {
        metadata_url: address.to_string(),
        keys: keys.len(),
        algorithms: keys.algorithms(&config.algorithms),
        introspection_endpoint: metadata.introspection_endpoint,
        scopes: metadata.scopes_supported.unwrap_or_default(),
    })
}
