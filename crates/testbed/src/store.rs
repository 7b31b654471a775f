//! What is in etcd, past the API server.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::Cluster;

/// Operations in one transaction; etcd allows 128.
const OPERATIONS_MAX: usize = 100;

/// What the API server keeps for itself, and misses at once.
const OF_THE_API_SERVER: [&str; 2] = [
    "/registry/leases/kube-system/apiserver-",
    "/registry/masterleases/",
];

// === impl Cluster ===

impl Cluster {
    /// Compacts etcd, so that every older resourceVersion is expired (410). Returns the
    /// revision that etcd was compacted to.
    pub async fn compact(&self) -> Result<u64> {
        let range = json!({"key": "AA==", "limit": 1});
        let answer = self.etcd("kv/range", &range).await?;
        let revision = answer["header"]["revision"]
            .as_str()
            .context("etcd named no revision")?;
        let revision: u64 = revision.parse()?;
        let compaction = json!({"revision": revision.to_string(), "physical": true});
        self.etcd("kv/compaction", &compaction).await?;
        Ok(revision)
    }

    /// The keys of all objects.
    pub async fn keys(&self) -> Result<BTreeSet<String>> {
        let range = json!({
            "key": BASE64_STANDARD.encode("/registry/"),
            "range_end": BASE64_STANDARD.encode("/registry0"),
            "keys_only": true,
        });
        let answer = self.etcd("kv/range", &range).await?;
        let found = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let key = |row: &Value| -> Result<String> {
            let key = row["key"].as_str().context("a row of etcd has a key")?;
            Ok(String::from_utf8(BASE64_STANDARD.decode(key)?)?)
        };
        found.iter().map(key).collect()
    }

    /// Removes every object whose key is not among these, whatever finalizers it has and
    /// without anybody's consent. Watches tell it as usual.
    pub async fn erase_all_but(&self, kept: &BTreeSet<String>) -> Result<()> {
        let found = self.keys().await?;
        let is_ours = |key: &&String| !OF_THE_API_SERVER.iter().any(|own| key.starts_with(own));
        let gone: Vec<_> = found.difference(kept).filter(is_ours).collect();
        for keys in gone.chunks(OPERATIONS_MAX) {
            let delete = |key: &&String| json!({"request_delete_range": {"key": BASE64_STANDARD.encode(key)}});
            let operations: Vec<_> = keys.iter().map(delete).collect();
            self.etcd("kv/txn", &json!({"success": operations})).await?;
        }
        Ok(())
    }

    async fn etcd(&self, path: &str, request: &Value) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}/v3/{path}", self.etcd_port());
        let answer = reqwest::Client::new()
            .post(url)
            .json(request)
            .send()
            .await?;
        let answer = answer
            .error_for_status()
            .with_context(|| format!("etcd refused {path}"))?;
        Ok(answer.json().await?)
    }
}
