//! The secret that makes a cursor mean the same on all servers.
//!
//! It is made by the first of them, and each puts it again daily. If the store has lost it and a
//! server that comes then makes another one, both are kept: each server goes on with its own, and
//! reads the cursors of all.

use std::sync::Arc;

use bytes::Bytes;
use kubecrier_history::{History, Registry, RegistryError, SetOutcome};
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

type Secret = [u8; 32];

/// Key of its record.
const KEY: &str = "secret";

/// After so long without any server cursors need not mean anything.
const TIME_TO_LIVE: Duration = Duration::from_hours(24 * 30);

/// How often its time begins anew.
const RENEW_AFTER: Duration = Duration::from_hours(24);

/// How often it is read.
const LOOK: Duration = Duration::from_secs(10);

/// How often the record of a server that makes it at the same time is read again.
const TRIES_MAX: usize = 5;

/// Secrets that are kept. There is one more for each loss of the store at which a server came
/// before all others were back.
const SECRETS_MAX: usize = 8;

/// The secret that servers share, made by the first of them.
pub async fn shared_secret(registry: &dyn Registry) -> Result<[u8; 32], RegistryError> {
    let secrets = share(registry, &[], Write::Always).await?;
    Ok(secrets[0])
}

/// Keeps the secret of this server in the store, and reads those of others, until `stop`.
pub(crate) async fn keep_secret(
    registry: Arc<dyn Registry>,
    history: History,
    stop: CancellationToken,
) {
    let own = *history.secret();
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut renewed = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _tick = ticks.tick() => {}
        }
        let is_due = renewed.elapsed() >= RENEW_AFTER;
        let write = if is_due { Write::Always } else { Write::IfNew };
        let mut known = history.other_secrets();
        known.insert(0, own);
        match share(&*registry, &known, write).await {
            Ok(mut secrets) => {
                secrets.retain(|secret| *secret != own);
                history.set_other_secrets(secrets);
                if is_due {
                    renewed = Instant::now();
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the secret of cursors cannot be looked for");
            }
        }
    }
}

/// When the record is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// Also if it is as it should be: its time begins anew.
    Always,
    IfNew,
}

/// All secrets, with those that this server knows; if there is none, one is made.
async fn share(
    registry: &dyn Registry,
    known: &[Secret],
    write: Write,
) -> Result<Vec<Secret>, RegistryError> {
    for _ in 0..TRIES_MAX {
        let found = registry.get(KEY).await?;
        let expected = found.as_ref().map(|found| found.revision);
        let found = found.map_or_else(Vec::new, |found| parse(&found.value));
        let mut secrets = found.clone();
        let lost = known.iter().filter(|secret| !found.contains(*secret));
        secrets.extend(lost);
        secrets.truncate(SECRETS_MAX);
        if secrets.is_empty() {
            secrets.push(random());
        }
        if secrets == found && write == Write::IfNew {
            return Ok(secrets);
        }
        let value = Bytes::from(secrets.concat());
        let set = registry.compare_and_set(KEY, expected, value, TIME_TO_LIVE);
        if let SetOutcome::Set(_) = set.await? {
            return Ok(secrets);
        }
    }
    Err(RegistryError::Unavailable {
        doing: "written",
        why: format!("`{KEY}` changes all the time"),
    })
}

/// The secrets of a record; none if it is none.
fn parse(bytes: &[u8]) -> Vec<Secret> {
    let (secrets, rest) = bytes.as_chunks();
    if rest.is_empty() {
        secrets.to_vec()
    } else {
        Vec::new()
    }
}

fn random() -> Secret {
    let mut secret = [0; 32];
    for part in secret.chunks_exact_mut(16) {
        part.copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubecrier_history::{MemoryRegistry, Retention};
    use tokio::{task::JoinSet, time::sleep};

    #[tokio::test]
    async fn all_servers_of_a_store_have_one_secret() {
        let store = MemoryRegistry::default();
        let first = shared_secret(&store).await.unwrap();
        let (second, third) = tokio::join!(shared_secret(&store), shared_secret(&store));
        assert_eq!((second.unwrap(), third.unwrap()), (first, first));
        let other = shared_secret(&MemoryRegistry::default()).await.unwrap();
        assert_ne!(other, first);
    }

    /// Servers that run, with what they have of each other's secrets.
    struct Servers {
        registry: Arc<MemoryRegistry>,
        stop: CancellationToken,
        running: JoinSet<()>,
    }

    impl Servers {
        fn new() -> Self {
            Self {
                registry: Arc::default(),
                stop: CancellationToken::new(),
                running: JoinSet::new(),
            }
        }

        async fn start(&mut self) -> History {
            let retention = Retention {
                age_max: Duration::from_hours(1),
                bytes_max: 1 << 20,
            };
            let (history, _writer) = History::in_memory(retention).unwrap();
            let secret = shared_secret(&*self.registry).await.unwrap();
            let history = history.with_secret(secret);
            let keeping = keep_secret(
                Arc::clone(&self.registry) as _,
                history.clone(),
                self.stop.clone(),
            );
            self.running.spawn(keeping);
            history
        }

        async fn stop(self) {
            self.stop.cancel();
            self.running.join_all().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_secret_lasts_as_long_as_a_server_does() {
        let mut servers = Servers::new();
        let first = servers.start().await;
        sleep(TIME_TO_LIVE * 2).await;
        let second = servers.start().await;
        assert_eq!(second.secret(), first.secret());
        servers.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_loss_of_the_store_the_cursors_of_all_servers_can_be_read() {
        let mut servers = Servers::new();
        let before = [servers.start().await, servers.start().await];
        sleep(LOOK * 2).await;
        // The store is empty, and who comes first has never heard of the others.
        servers.registry.delete(KEY).await.unwrap();
        let after = servers.start().await;
        assert_ne!(after.secret(), before[0].secret());
        sleep(LOOK * 2).await;
        for one in &before {
            assert_eq!(one.other_secrets(), [*after.secret()]);
        }
        assert_eq!(after.other_secrets(), [*before[0].secret()]);
        let late = servers.start().await;
        sleep(LOOK).await;
        assert_eq!(late.other_secrets().len(), 1, "two in all");
        // Lost once more: no server forgets what it knows.
        servers.registry.delete(KEY).await.unwrap();
        sleep(LOOK * 2).await;
        assert_eq!(after.other_secrets(), [*before[0].secret()]);
        assert_eq!(late.other_secrets().len(), 1);
        servers.stop().await;
    }
}
