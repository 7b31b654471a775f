//! The secret that makes a cursor mean the same on all servers.

use bytes::Bytes;
use kubecrier_history::{Registry, RegistryError, SetOutcome};
use tokio::time::Duration;

/// Key of its record.
const KEY: &str = "secret";

/// After so long without any server cursors need not mean anything.
const TIME_TO_LIVE: Duration = Duration::from_hours(24 * 30);

/// How often the record of a server that makes it at the same time is read again.
const TRIES_MAX: usize = 5;

/// The secret that servers share, made by the first of them.
pub async fn shared_secret(registry: &dyn Registry) -> Result<[u8; 32], RegistryError> {
    for _ in 0..TRIES_MAX {
        let found = registry.get(KEY).await?;
        let expected = found.as_ref().map(|found| found.revision);
        let known = found.and_then(|found| <[u8; 32]>::try_from(&found.value[..]).ok());
        let secret = known.unwrap_or_else(random);
        // Also one that is known: its time begins anew.
        let value = Bytes::copy_from_slice(&secret);
        let set = registry.compare_and_set(KEY, expected, value, TIME_TO_LIVE);
        if let SetOutcome::Set(_) = set.await? {
            return Ok(secret);
        }
    }
    Err(RegistryError::Unavailable {
        doing: "written",
        why: format!("`{KEY}` changes all the time"),
    })
}

fn random() -> [u8; 32] {
    let mut secret = [0; 32];
    for part in secret.chunks_exact_mut(16) {
        part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_history::MemoryRegistry;

    #[tokio::test]
    async fn all_servers_of_a_store_have_one_secret() {
        let store = MemoryRegistry::default();
        let first = shared_secret(&store).await.unwrap();
        let (second, third) = tokio::join!(shared_secret(&store), shared_secret(&store));
        assert_eq!((second.unwrap(), third.unwrap()), (first, first));
        let other = shared_secret(&MemoryRegistry::default()).await.unwrap();
        assert_ne!(other, first);
    }
}
