//! Whether any cluster can be reached: asked for rarely, and answered at once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use tokio::{
    sync::watch,
    time::{Duration, Instant, timeout},
};

use super::{
    client::Cluster,
    contexts::Contexts,
    error::{ClusterError, ErrorKind, Operation},
    impersonation::Actor,
};
use kubecrier_lifecycle::Lifecycle;

/// How long an answer holds: a healthy cluster is asked once in that time, and only if
/// somebody asks.
const REACHED_TTL: Duration = Duration::from_secs(30);
const UNREACHED_TTL: Duration = Duration::from_secs(5);

/// How long one cluster may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a caller waits for a check that runs: a kubelet gives a probe one second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// Contexts that are tried when the default one cannot be reached.
const TRIED_MAX: usize = 8;

/// Whether a cluster can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reached {
    /// One can, or there is none to reach, or the answer is still on its way.
    Yes,
    /// None can, and why, by context.
    No(BTreeMap<String, ErrorKind>),
}

/// Checks whether any cluster of the kubeconfig can be reached. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reachability {
    shared: Arc<Shared>,
    lifecycle: Lifecycle,
}

#[derive(Debug)]
struct Shared {
    contexts: Arc<Contexts>,
    last: watch::Sender<Option<(Instant, Reached)>>,
    checking: AtomicBool,
}

// === impl Reachability ===

impl Reachability {
    /// Nothing is known and nothing is asked yet.
    pub fn new(contexts: Arc<Contexts>, lifecycle: Lifecycle) -> Self {
        Self {
            shared: Arc::new(Shared {
                contexts,
                last: watch::Sender::default(),
                checking: AtomicBool::new(false),
            }),
            lifecycle,
        }
    }

    /// The last answer if it still holds; else a new one, or the last if that takes too long.
    /// Concurrent callers share one check.
    pub async fn check(&self) -> Reached {
        let shared = &self.shared;
        let mut last = shared.last.subscribe();
        if let Some((at, reached)) = &*last.borrow_and_update()
            && at.elapsed() < reached.ttl()
        {
            return reached.clone();
        }
        if !shared.checking.swap(true, Ordering::AcqRel) {
            let shared = Arc::clone(shared);
            let draining = self.lifecycle.draining().clone();
            self.lifecycle.spawn("reachability", async move {
                tokio::select! {
                    reached = shared.reach() => {
                        shared.last.send_replace(Some((Instant::now(), reached)));
                    }
                    () = draining.cancelled() => {}
                }
                shared.checking.store(false, Ordering::Release);
            });
        }
        let _waited = timeout(ANSWER_TIMEOUT, last.changed()).await;
        let last = last.borrow();
        last.as_ref().map_or(Reached::Yes, |(_, one)| one.clone())
    }
}

// === impl Shared ===

impl Shared {
    /// Asks the default context first: clients, and the credential plugins behind them, are
    /// made for others only if that one does not answer.
    async fn reach(&self) -> Reached {
        let all = match self.contexts.list() {
            Ok(all) => all,
            Err(error) if self.contexts.kubeconfig().is_some() => {
                return Reached::No([("kubeconfig".to_owned(), error.kind())].into());
            }
            // A server may be there for its project alone.
            Err(_) => return Reached::Yes,
        };
        let (default, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.default);
        let default = default.into_iter().map(|one| one.name).collect();
        let others = others.into_iter().map(|one| one.name).collect();
        let mut errors = BTreeMap::new();
        for names in [default, others] {
            if self.reaches_any(names, &mut errors).await {
                return Reached::Yes;
            }
        }
        if errors.is_empty() {
            Reached::Yes
        } else {
            Reached::No(errors)
        }
    }

    async fn reaches_any(
        &self,
        names: Vec<String>,
        errors: &mut BTreeMap<String, ErrorKind>,
    ) -> bool {
        let names = names.into_iter().take(TRIED_MAX);
        let answers = join_all(names.map(async |name| {
            let request = self.contexts.with_cluster(
                &Actor::Server,
                Some(&name),
                async |cluster: Cluster| cluster.answers().await,
            );
            let answer = match timeout(REQUEST_TIMEOUT, request).await {
                Ok(answer) => answer.map_err(|error| error.kind()),
                Err(_elapsed) => Err(ErrorKind::Timeout),
            };
            (name, answer)
        }));
        let mut reaches = false;
        for (name, answer) in answers.await {
            match answer {
                // It is there, and does not want to be asked for its version.
                Ok(()) | Err(ErrorKind::Forbidden) => reaches = true,
                Err(kind) => drop(errors.insert(name, kind)),
            }
        }
        reaches
    }
}

// === impl Reached ===

impl Reached {
    fn ttl(&self) -> Duration {
        match self {
            Self::Yes => REACHED_TTL,
            Self::No(_) => UNREACHED_TTL,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Whether the API server answers.
    async fn answers(&self) -> Result<(), ClusterError> {
        let operation = Operation {
            verb: "get",
            resource: "version",
            name: None,
            namespace: None,
            context: self.context(),
        };
        let client = self.client();
        let request = client.apiserver_version();
        self.request(&operation, request).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use demo_cluster::{DemoCluster, Fault, RequestMatcher};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_asked_rarely_and_its_return_is_noticed_soon() {
        let cluster = DemoCluster::default();
        let lifecycle = Lifecycle::default();
        let reachability = Reachability::new(Contexts::of_demo(&cluster), lifecycle);
        let asked = || cluster.requests("get", "/version");
        for _ in 0..10 {
            assert_eq!(reachability.check().await, Reached::Yes);
        }
        assert_eq!(asked(), 1, "one question for all of them");
        tokio::time::advance(REACHED_TTL).await;
        let version = RequestMatcher::any().resource("/version");
        cluster.fail_next(version, 2, Fault::Unauthorized);
        let Reached::No(errors) = reachability.check().await else {
            panic!("it cannot be reached");
        };
        assert_eq!(
            errors.into_values().collect::<Vec<_>>(),
            [ErrorKind::Unauthorized]
        );
        tokio::time::advance(UNREACHED_TTL).await;
        assert_eq!(reachability.check().await, Reached::Yes);
    }
}
