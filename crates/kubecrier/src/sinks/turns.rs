//! Which of the servers that work together delivers.

use kubecrier_history::{LEASE_RENEWAL, LEASE_TIME_TO_LIVE, Lease};
use kubecrier_lifecycle::Lifecycle;
use tokio::time::{Duration, Instant, sleep, timeout};

/// How long giving the lease back may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks for a lease until the server drains, and tells each time whether this server delivers.
/// Without the store nobody can know who does: then each one does, because what is told twice
/// can be recognised, and what nobody tells cannot.
pub(super) async fn take_turns(
    mut lease: Lease,
    lifecycle: &Lifecycle,
    mut tell: impl FnMut(bool),
) {
    let draining = lifecycle.draining();
    let (mut is_ours, mut answered) = (false, Instant::now());
    while let Some(asked) = draining.run_until_cancelled(lease.renew_or_take()).await {
        match asked {
            Ok(held) => (is_ours, answered) = (held, Instant::now()),
            Err(error) => {
                tracing::debug!(?lease, %error, "it is not known which server delivers");
                is_ours |= answered.elapsed() >= LEASE_TIME_TO_LIVE;
            }
        }
        tell(is_ours);
        let pause = draining.run_until_cancelled(sleep(LEASE_RENEWAL));
        if pause.await.is_none() {
            break;
        }
    }
    let released = timeout(RELEASE_TIMEOUT, lease.release()).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::debug!(?lease, "the lease is left to expire");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use bytes::Bytes;
    use kubecrier_history::{
        MemoryRegistry, Registry, RegistryEntry, RegistryError, RegistryFuture, Revision,
        SetOutcome,
    };

    use super::*;

    /// A registry that can be away.
    #[derive(Debug, Default)]
    struct Away {
        registry: MemoryRegistry,
        is_away: AtomicBool,
    }

    impl Away {
        fn check(&self) -> Result<(), RegistryError> {
            if self.is_away.load(Ordering::Relaxed) {
                let (doing, why) = ("written", "it is away".to_owned());
                return Err(RegistryError::Unavailable { doing, why });
            }
            Ok(())
        }
    }

    impl Registry for Away {
        fn get<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, Option<RegistryEntry>> {
            Box::pin(async move {
                self.check()?;
                self.registry.get(key).await
            })
        }

        fn put<'a>(
            &'a self,
            key: &'a str,
            value: Bytes,
            time_to_live: Duration,
        ) -> RegistryFuture<'a, Revision> {
            self.registry.put(key, value, time_to_live)
        }

        fn compare_and_set<'a>(
            &'a self,
            key: &'a str,
            expected: Option<Revision>,
            value: Bytes,
            time_to_live: Duration,
        ) -> RegistryFuture<'a, SetOutcome> {
            Box::pin(async move {
                self.check()?;
                let set = (self.registry).compare_and_set(key, expected, value, time_to_live);
                set.await
            })
        }

        fn delete<'a>(&'a self, key: &'a str) -> RegistryFuture<'a, ()> {
            self.registry.delete(key)
        }

        fn list<'a>(&'a self, prefix: &'a str) -> RegistryFuture<'a, Vec<(String, RegistryEntry)>> {
            self.registry.list(prefix)
        }
    }

    struct Server {
        lifecycle: Lifecycle,
        delivers: Arc<AtomicBool>,
    }

    impl Server {
        fn start(registry: &Arc<Away>, name: &str) -> Self {
            let registry = Arc::clone(registry) as Arc<dyn Registry>;
            let lease = Lease::new(registry, "sink.page", name);
            let (lifecycle, delivers) = (Lifecycle::default(), Arc::<AtomicBool>::default());
            let (of_task, told) = (lifecycle.clone(), Arc::clone(&delivers));
            lifecycle.spawn("turns", async move {
                let tell = |is_ours| told.store(is_ours, Ordering::Relaxed);
                take_turns(lease, &of_task, tell).await;
            });
            Self {
                lifecycle,
                delivers,
            }
        }

        fn delivers(&self) -> bool {
            self.delivers.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_server_delivers_and_without_the_store_each_does() {
        let registry = Arc::new(Away::default());
        let first = Server::start(&registry, "first");
        sleep(LEASE_RENEWAL / 2).await;
        let second = Server::start(&registry, "second");
        let delivering = || [first.delivers(), second.delivers()];
        for _ in 0..20 {
            sleep(LEASE_RENEWAL).await;
            assert_eq!(delivering(), [true, false]);
        }
        registry.is_away.store(true, Ordering::Relaxed);
        sleep(LEASE_TIME_TO_LIVE / 2).await;
        assert_eq!(delivering(), [true, false], "it may be back at once");
        for _ in 0..10 {
            sleep(LEASE_TIME_TO_LIVE).await;
            assert_eq!(delivering(), [true, true]);
        }
        registry.is_away.store(false, Ordering::Relaxed);
        sleep(4 * LEASE_RENEWAL).await;
        assert_eq!(delivering().iter().filter(|one| **one).count(), 1);
        // One that ends gives its turn back.
        let (ending, other) = if first.delivers() {
            (&first, &second)
        } else {
            (&second, &first)
        };
        ending.lifecycle.drain();
        sleep(LEASE_RENEWAL + Duration::from_millis(100)).await;
        assert!(other.delivers());
        other.lifecycle.drain();
    }
}
