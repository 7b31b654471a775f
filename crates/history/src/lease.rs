//! Of several servers one has a lease, which says who does a piece of work.
//!
//! ```text
//!  free ──▶ taken ──▶ renewed, renewed, … ──▶ released
//!             │          │ not any more (a crash, a freeze, a network that is cut)
//!             │          ▼
//!             └── seen by the others: the same revision for TIME_TO_LIVE ──▶ taken by one of them
//! ```
//!
//! Clocks of servers are not compared: each takes its own time of how long a lease was not renewed.
//! Who has lost a lease may not know it yet, so whatever is done under one is written with a
//! check of its own ([`SharedLog::append`](crate::SharedLog::append)).

use std::{fmt, sync::Arc};

use bytes::Bytes;
use tokio::time::{Duration, Instant, sleep};

use crate::registry::{Registry, RegistryError, Revision, SetOutcome};

/// A lease that is not renewed for so long is free.
pub const TIME_TO_LIVE: Duration = Duration::from_secs(5);

/// How often a lease is renewed, and looked at by those who wait for it.
pub const RENEWAL: Duration = Duration::from_millis(1500);

/// How long the registry keeps the record of a lease: somebody has noticed before that it is free.
const RECORD_TIME_TO_LIVE: Duration = Duration::from_mins(1);

/// One server's part in a lease.
pub struct Lease {
    registry: Arc<dyn Registry>,
    key: String,
    /// Name of the server.
    name: Bytes,
    state: State,
}

enum State {
    /// Nothing is known.
    Unknown,
    /// Another server has it, as of this revision, which was first seen then.
    Elsewhere { revision: Revision, since: Instant },
    /// This server has it, and renewed it last then.
    Here {
        revision: Revision,
        renewed: Instant,
    },
}

// === impl Lease ===

impl Lease {
    /// A part in the lease of a name, for the server of this name.
    pub fn new(registry: Arc<dyn Registry>, of: &str, server: &str) -> Self {
        Self {
            registry,
            key: format!("lease.{of}"),
            name: Bytes::copy_from_slice(server.as_bytes()),
            state: State::Unknown,
        }
    }

    /// Whether this server has the lease, as far as it can know.
    pub fn is_held(&self) -> bool {
        match self.state {
            State::Here { renewed, .. } => renewed.elapsed() < TIME_TO_LIVE,
            State::Unknown | State::Elsewhere { .. } => false,
        }
    }

    /// Renews the lease, or takes it if it is free. To be called once in [`RENEWAL`]. True if
    /// this server has it.
    pub async fn renew_or_take(&mut self) -> Result<bool, RegistryError> {
        // Before the request: the others count from when it arrived.
        let now = Instant::now();
        let expected = match self.state {
            State::Here { revision, .. } => Some(revision),
            State::Elsewhere { revision, since } if since.elapsed() >= TIME_TO_LIVE => {
                Some(revision)
            }
            State::Elsewhere { .. } | State::Unknown => match self.look(now).await? {
                None => None,
                Some(Found::Ours(revision)) => Some(revision),
                Some(Found::Theirs) => return Ok(false),
            },
        };
        if self.set(expected, now).await? {
            return Ok(true);
        }
        self.state = State::Unknown;
        match self.look(now).await? {
            // Its last write arrived, and the answer did not.
            Some(Found::Ours(revision)) => self.set(Some(revision), now).await,
            Some(Found::Theirs) | None => Ok(false),
        }
    }

    /// Writes that this server has the lease, as of now, unless there is another record than is
    /// expected.
    async fn set(
        &mut self,
        expected: Option<Revision>,
        now: Instant,
    ) -> Result<bool, RegistryError> {
        let value = self.name.clone();
        let set = (self.registry).compare_and_set(&self.key, expected, value, RECORD_TIME_TO_LIVE);
        let SetOutcome::Set(revision) = set.await? else {
            return Ok(false);
        };
        self.state = State::Here {
            revision,
            renewed: now,
        };
        Ok(true)
    }

    /// Waits until this server has the lease. Cancel-safe.
    pub async fn acquire(&mut self) {
        loop {
            match self.renew_or_take().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(lease = self.key, %error, "a lease cannot be asked for");
                }
            }
            sleep(RENEWAL).await;
        }
    }

    /// Renews the lease; returns when it is lost. Cancel-safe.
    pub async fn keep(&mut self) {
        loop {
            sleep(RENEWAL).await;
            match self.renew_or_take().await {
                Ok(true) => {}
                Err(error) if self.is_held() => {
                    tracing::debug!(lease = self.key, %error, "a lease cannot be renewed yet");
                }
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Lets another server have it at once.
    pub async fn release(&mut self) -> Result<(), RegistryError> {
        let state = std::mem::replace(&mut self.state, State::Unknown);
        let State::Here { revision, .. } = state else {
            return Ok(());
        };
        // Not deleted: it may be another's by now. Nobody is a name that no server has.
        let nobody = Bytes::new();
        let set =
            (self.registry).compare_and_set(&self.key, Some(revision), nobody, RECORD_TIME_TO_LIVE);
        set.await.map(drop)
    }

    async fn look(&mut self, now: Instant) -> Result<Option<Found>, RegistryError> {
        let Some(entry) = self.registry.get(&self.key).await? else {
            self.state = State::Unknown;
            return Ok(None);
        };
        // What was written by this server without hearing of it is its own, and so is what
        // nobody has.
        if entry.value == self.name || entry.value.is_empty() {
            return Ok(Some(Found::Ours(entry.revision)));
        }
        let since = match self.state {
            State::Elsewhere { revision, since } if revision == entry.revision => since,
            State::Elsewhere { .. } | State::Unknown | State::Here { .. } => now,
        };
        self.state = State::Elsewhere {
            revision: entry.revision,
            since,
        };
        Ok(Some(Found::Theirs))
    }
}

/// What a registry has of a lease.
enum Found {
    /// It is this server's, or nobody's.
    Ours(Revision),
    Theirs,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.key)
            .field("is_held", &self.is_held())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::registry::MemoryRegistry;

    fn lease(registry: &Arc<dyn Registry>, server: &str) -> Lease {
        Lease::new(Arc::clone(registry), "watch.dev", server)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_two_has_it_until_it_is_released() {
        let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
        let (mut first, mut second) = (lease(&registry, "first"), lease(&registry, "second"));
        assert!(first.renew_or_take().await.unwrap());
        for _ in 0..20 {
            sleep(RENEWAL).await;
            assert!(first.renew_or_take().await.unwrap() && first.is_held());
            assert!(!second.renew_or_take().await.unwrap() && !second.is_held());
        }
        first.release().await.unwrap();
        assert!(!first.is_held());
        assert!(second.renew_or_take().await.unwrap(), "at once");
        assert!(!first.renew_or_take().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_not_renewed_is_taken_and_its_old_holder_is_refused() {
        let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
        let (mut first, mut second) = (lease(&registry, "first"), lease(&registry, "second"));
        assert!(first.renew_or_take().await.unwrap());
        let since = Instant::now();
        while !second.renew_or_take().await.unwrap() {
            sleep(RENEWAL).await;
        }
        let taken_in = since.elapsed();
        assert!(taken_in >= TIME_TO_LIVE && taken_in <= TIME_TO_LIVE + RENEWAL);
        assert!(!first.is_held(), "it knows by its own clock");
        assert!(!first.renew_or_take().await.unwrap());
        assert!(second.renew_or_take().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_whose_answer_was_lost_loses_nothing() {
        let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
        let (mut first, mut second) = (lease(&registry, "first"), lease(&registry, "second"));
        assert!(first.renew_or_take().await.unwrap());
        // As its own write, of whose revision it does not hear.
        let name = Bytes::from_static(b"first");
        let unheard = registry.put("lease.watch.dev", name, RECORD_TIME_TO_LIVE);
        unheard.await.unwrap();
        assert!(first.renew_or_take().await.unwrap() && first.is_held());
        assert!(!second.renew_or_take().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_did_not_hear_of_its_own_write_goes_on() {
        let registry: Arc<dyn Registry> = Arc::new(MemoryRegistry::default());
        let mut before = lease(&registry, "first");
        assert!(before.renew_or_take().await.unwrap());
        let mut after = lease(&registry, "first");
        assert!(after.renew_or_take().await.unwrap());
        advance(TIME_TO_LIVE).await;
        assert!(!after.is_held());
        assert!(after.renew_or_take().await.unwrap() && after.is_held());
    }
}
