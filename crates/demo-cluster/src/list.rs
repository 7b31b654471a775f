//! The verbs `get` and `list`.

use base64::{
    Engine as _,
    engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use crate::{
    request::{Query, ResourcePath, VersionMatch},
    resource::{Resource, Storage},
    selector::Selection,
    status::StatusError,
    store::{ObjectKey, Store},
    view::View,
};

/// The position of the next page of a list, with the fields of the API server's tokens.
#[derive(Debug, PartialEq, Eq)]
struct ContinueToken {
    /// `None` continues at the current version, after the original one expired.
    version: Option<u64>,
    after: ObjectKey,
}

pub(crate) fn get(
    store: &Store,
    resource: &Resource,
    at: &ResourcePath,
    query: &Query,
    view: View,
) -> Result<Value, StatusError> {
    let requested = query
        .version()
        .map_err(StatusError::internal_without_reason)?;
    if let Some(requested) = requested.filter(|requested| *requested > store.version()) {
        let retry = true;
        return Err(StatusError::version_too_large(
            requested,
            store.version(),
            retry,
        ));
    }
    let key = key(resource, at);
    let stored = store.get(&key).ok_or_else(|| {
        StatusError::not_found(
            &resource.api.group_resource(),
            resource.api.group,
            resource.api.plural,
            &key.name,
        )
    })?;
    Ok(view.object(resource, stored))
}

pub(crate) fn list(
    store: &Store,
    resource: &Resource,
    selection: &Selection,
    query: &Query,
    view: View,
) -> Result<Value, StatusError> {
    let limit = query
        .number("limit")?
        .and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0);
    let version_match = query.version_match(limit)?;
    let cached = resource.storage == Storage::Cached;
    let (version, after) = match (query.get("continue"), version_match) {
        (Some(token), version_match) => {
            let from = ContinueToken::decode(token, resource, selection.namespace())?;
            if !matches!(version_match, VersionMatch::Latest | VersionMatch::Any) {
                return Err(StatusError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            (from.version.unwrap_or(store.version()), Some(from.after))
        }
        (None, VersionMatch::NotOlderThan(requested) | VersionMatch::Exact(requested))
            if requested > store.version() =>
        {
            // A watch cache may catch up, so the client is asked to retry; etcd is current.
            let retry = cached;
            return Err(StatusError::version_too_large(
                requested,
                store.version(),
                retry,
            ));
        }
        (None, VersionMatch::Exact(version)) => (version, None),
        (None, VersionMatch::Latest | VersionMatch::Any | VersionMatch::NotOlderThan(_)) => {
            (store.version(), None)
        }
    };
    // The API server ignores the limit when it answers any version from its watch cache.
    let limit = limit.filter(|_| !(cached && version_match == VersionMatch::Any));
    let page = store
        .list(
            resource,
            selection,
            version,
            after.as_ref(),
            limit.unwrap_or(usize::MAX),
        )
        .map_err(|_compacted| match &after {
            Some(after) => {
                let token = ContinueToken {
                    version: None,
                    after: after.clone(),
                };
                StatusError::continue_expired(token.encode(selection.namespace()))
            }
            None => StatusError::list_expired(),
        })?;
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(last) = page.last {
        let next = ContinueToken {
            version: Some(version),
            after: last,
        };
        metadata["continue"] = next.encode(selection.namespace()).into();
        if selection.is_all() {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    let items = page
        .items
        .iter()
        .map(|object| view.item(resource, object))
        .collect();
    Ok(view.list(resource, metadata, items))
}

pub(crate) fn key(resource: &Resource, at: &ResourcePath) -> ObjectKey {
    ObjectKey {
        resource: resource.store_key(),
        namespace: at
            .namespace
            .clone()
            .filter(|_| resource.api.namespaced)
            .unwrap_or_default(),
        name: at.name.clone().unwrap_or_default(),
    }
}

// === impl ContinueToken ===

impl ContinueToken {
    fn encode(&self, namespace: Option<&str>) -> String {
        // As in etcd: the key relative to the list's prefix, and the first one past the last
        // name.
        let start = match namespace {
            Some(_) => format!("/{}\0", self.after.name),
            None if self.after.namespace.is_empty() => format!("{}\0", self.after.name),
            None => format!("{}/{}\0", self.after.namespace, self.after.name),
        };
        let version = self.version.map_or(json!(-1), |version| json!(version));
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(
        token: &str,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Self, StatusError> {
        let invalid = |reason: &str| {
            let message = format!("invalid continue token: continue key is not valid: {reason}");
            StatusError::bad_request(message)
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .or_else(|_| URL_SAFE.decode(token))
            .map_err(|_| invalid("illegal base64 data at input byte 0"))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let found = char::from(
                bytes
                    .get(error.column().saturating_sub(1))
                    .copied()
                    .unwrap_or(b' '),
            );
            invalid(&format!(
                "invalid character '{found}' looking for beginning of value"
            ))
        })?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let start = token["start"].as_str().unwrap_or_default();
        let start = start.trim_start_matches('/').trim_end_matches('\0');
        let (namespace, name) = match (namespace, start.split_once('/')) {
            (Some(namespace), _) => (namespace, start),
            (None, Some(parts)) => parts,
            (None, None) => ("", start),
        };
        Ok(Self {
            version: token["rv"].as_u64(),
            after: ObjectKey {
                resource: resource.store_key(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(namespace: Option<&str>, stored: &str, name: &str) {
        let pods = Resource::find("", "v1", "pods").unwrap();
        let one = ContinueToken {
            version: Some(7),
            after: ObjectKey {
                resource: pods.store_key(),
                namespace: stored.to_owned(),
                name: name.to_owned(),
            },
        };
        let decoded = ContinueToken::decode(&one.encode(namespace), pods, namespace).unwrap();
        assert_eq!(decoded, one);
    }

    #[test]
    fn a_token_is_decoded_as_it_was_encoded() {
        check(Some("shop"), "shop", "web");
        check(None, "shop", "web");
        check(None, "", "node-1");
    }
}
