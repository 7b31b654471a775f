//! `get` and `list`.

use base64::{
    Engine as _,
    engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use crate::{
    request::{At, Coordinates, Query},
    resource::{Resource, Storage},
    selector::Selection,
    status::Refusal,
    store::{Key, Store},
    view::View,
};

/// Where a list goes on; what the API server puts into its tokens.
#[derive(Debug, PartialEq, Eq)]
struct Continue {
    /// None when the list may be of any version.
    version: Option<u64>,
    after: Key,
}

pub(crate) fn get(
    store: &Store,
    resource: &Resource,
    at: &Coordinates,
    query: &Query,
    view: View,
) -> Result<Value, Refusal> {
    let asked = query.version().map_err(Refusal::internal_without_reason)?;
    if let Some(asked) = asked.filter(|asked| *asked > store.version()) {
        let retry = true;
        return Err(Refusal::version_from_the_future(
            asked,
            store.version(),
            retry,
        ));
    }
    let key = key(resource, at);
    let stored = store.get(&key).ok_or_else(|| {
        Refusal::not_found(
            &resource.qualified(),
            resource.group,
            resource.plural,
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
) -> Result<Value, Refusal> {
    let limit = query
        .number("limit")?
        .and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0);
    let at = query.at(limit)?;
    let cached = resource.storage == Storage::Cached;
    let (version, after) = match (query.get("continue"), at) {
        (Some(token), at) => {
            let from = Continue::decode(token, resource, selection.namespace())?;
            if !matches!(at, At::Latest | At::Any) {
                return Err(Refusal::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            (from.version.unwrap_or(store.version()), Some(from.after))
        }
        (None, At::NotOlderThan(asked) | At::Exactly(asked)) if asked > store.version() => {
            // The cache hopes to catch up; the store knows better.
            let retry = cached;
            return Err(Refusal::version_from_the_future(
                asked,
                store.version(),
                retry,
            ));
        }
        (None, At::Exactly(version)) => (version, None),
        (None, At::Latest | At::Any | At::NotOlderThan(_)) => (store.version(), None),
    };
    // From its cache the API server answers any version whole.
    let limit = limit.filter(|_| !(cached && at == At::Any));
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
                let go_on = Continue {
                    version: None,
                    after: after.clone(),
                };
                Refusal::continue_expired(go_on.encode(selection.namespace()))
            }
            None => Refusal::list_expired(),
        })?;
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(last) = page.last {
        let next = Continue {
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

pub(crate) fn key(resource: &Resource, at: &Coordinates) -> Key {
    Key {
        resource: resource.store_key(),
        namespace: at
            .namespace
            .clone()
            .filter(|_| resource.namespaced)
            .unwrap_or_default(),
        name: at.name.clone().unwrap_or_default(),
    }
}

// === impl Continue ===

impl Continue {
    fn encode(&self, namespace: Option<&str>) -> String {
        // Relative to where the list begins, and past the last name.
        let start = match namespace {
            Some(_) => format!("/{}\0", self.after.name),
            None if self.after.namespace.is_empty() => format!("{}\0", self.after.name),
            None => format!("{}/{}\0", self.after.namespace, self.after.name),
        };
        let version = self.version.map_or(json!(-1), |version| json!(version));
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(token: &str, resource: &Resource, namespace: Option<&str>) -> Result<Self, Refusal> {
        let wrong = |why: &str| {
            let message = format!("invalid continue token: continue key is not valid: {why}");
            Refusal::bad_request(message)
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .or_else(|_| URL_SAFE.decode(token))
            .map_err(|_| wrong("illegal base64 data at input byte 0"))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let strange = char::from(
                bytes
                    .get(error.column().saturating_sub(1))
                    .copied()
                    .unwrap_or(b' '),
            );
            wrong(&format!(
                "invalid character '{strange}' looking for beginning of value"
            ))
        })?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(wrong("server does not recognize this encoded version"));
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
            after: Key {
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
        let one = Continue {
            version: Some(7),
            after: Key {
                resource: ("", "pods"),
                namespace: stored.to_owned(),
                name: name.to_owned(),
            },
        };
        let decoded = Continue::decode(&one.encode(namespace), pods, namespace).unwrap();
        assert_eq!(decoded, one);
    }

    #[test]
    fn a_token_comes_back_as_it_went() {
        check(Some("shop"), "shop", "web");
        check(None, "shop", "web");
        check(None, "", "node-1");
    }
}
