//! One run: everything is started, disturbed, waited for, judged and stopped.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use testbed::{Cluster, Kubeconfig, NatsOptions, NatsServer, User};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Caller,
    clock::Clock,
    creating::{Created, Creating},
    front::Front,
    heard::Heard,
    leftovers::{Expected, Leftovers},
    plan::{self, Action, ActionKind},
    print_line,
    replica::Replica,
    report::{Done, Report},
    session::SessionSubscriber,
    verdict::Verdict,
    watches::Watches,
    wire,
};

const NAMESPACE: &str = "chaos";

/// How long all subscribers may take until they are ready.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// Time without actions, in which watches are counted: at the beginning and at the end.
const QUIET: Duration = Duration::from_secs(8);

/// How long what is missing at the end is waited for while nothing new comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take in all.
const COMPLETE_WITHIN: Duration = Duration::from_mins(3);

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct ChaosConfig {
    /// What is done follows from it.
    pub seed: u64,
    /// How long something is done.
    pub duration: Duration,
    /// Events a second.
    pub rate: u32,
    /// Half of them with a session.
    pub subscribers: usize,
    /// Servers.
    pub replicas: usize,
    /// The time between two actions.
    pub every: Duration,
    /// The log level of the servers.
    pub log_level: String,
    /// The server's program.
    pub binary: PathBuf,
    /// Where logs and the report are written. What is there is removed.
    pub folder: PathBuf,
}

/// Everything that runs.
struct Bed {
    replicas: Vec<Replica>,
    nats: NatsServer,
    clock: Clock,
}

/// The subscribers that run.
struct Subscribers {
    running: JoinSet<(String, Heard)>,
    stop: CancellationToken,
    distinct: Vec<Arc<AtomicU32>>,
    /// Sessions that are left as they are.
    left: usize,
}

/// Does a run on a cluster, and tells how it went.
pub async fn run(cluster: &Cluster, config: &ChaosConfig) -> Result<Report> {
    let ChaosConfig { folder, binary, .. } = config;
    ensure!(binary.exists(), "there is no {}", binary.display());
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot clear the folder of the run")?;
    }
    fs::create_dir_all(folder)?;
    let clock = Clock::start();
    let api = cluster.client(User::Admin).await?;
    cluster
        .create_cluster_wide(&testbed::namespace(NAMESPACE))
        .await?;
    let mut bed = Bed::start(cluster, config, clock).await?;
    let ports = bed.replicas.iter().map(|replica| replica.port).collect();
    let front = Front::start(ports).await?;
    let mut subscribers = Subscribers::start(config, &front, clock).await?;
    print_line(&format!(
        "chaos: {} subscribers of {} replicas, {} events/s, seed {}",
        config.subscribers, config.replicas, config.rate, config.seed
    ));

    let watches = Watches::start(&api, clock);
    let creating = Creating::start(&api, NAMESPACE, config.rate, clock);
    sleep(QUIET).await;
    let began = clock.now();
    let done = bed.disturb(config).await?;
    sleep(config.every).await;
    let created = creating.stop().await?;
    let undisturbed = clock.now();
    let complete = subscribers.until_complete(created.len()).await;
    print_line(&format!(
        "chaos: {} events; {complete} of {} subscribers have all",
        created.len(),
        config.subscribers
    ));
    // The watch of a server that watched for itself ends when the log is read again.
    sleep(QUIET * 2).await;
    let ended_at = clock.now();
    let samples = watches.samples();
    drop(watches);

    let heard = subscribers.stop().await;
    let ended = heard.iter().filter_map(|(_, heard)| heard.ended.clone());
    let expected = Expected {
        sessions_left: subscribers.left,
        subscriptions_ended: ended.collect(),
    };
    let leftovers = bed.stop(&api, &expected).await;
    let report = Report::new(
        config,
        &created,
        verdicts(&heard, &created),
        Done::all(&done, &heard),
        latencies(&heard, &created),
        samples,
        &[
            (0, began),
            (undisturbed.max(ended_at.saturating_sub(12_000)), ended_at),
        ],
        leftovers,
    );
    report.write(folder)?;
    report.print();
    Ok(report)
}

fn verdicts(heard: &[(String, Heard)], created: &[Created]) -> Vec<Verdict> {
    let verdicts = heard.iter();
    let verdicts = verdicts.map(|(name, heard)| Verdict::of(name.clone(), heard, created));
    verdicts.collect()
}

/// From when an event was accepted to when it came.
fn latencies(heard: &[(String, Heard)], created: &[Created]) -> Vec<u32> {
    let of_one = |heard: &Heard| {
        let seen = created.iter();
        let seen = seen.filter_map(|one| Some(heard.first(one.number)?.at - one.sent));
        seen.collect::<Vec<_>>()
    };
    heard.iter().flat_map(|(_, heard)| of_one(heard)).collect()
}

// === impl Bed ===

impl Bed {
    async fn start(cluster: &Cluster, config: &ChaosConfig, clock: Clock) -> Result<Self> {
        let folder = &config.folder;
        let nats = NatsServer::start(&folder.join("nats"), NatsOptions::default())?;
        let port = nats.url().rsplit(':').next().map(str::parse);
        let port = port.context("NATS has no port")??;
        let kubeconfig = Kubeconfig::new()
            .context("dev", cluster, User::Reader)
            .current("dev")
            .write(&folder.join("kubeconfig"))?;
        let mut replicas = Vec::new();
        for number in 0..config.replicas {
            let log = folder.join(format!("replica-{number}.log"));
            let level = &config.log_level;
            let replica = Replica::start(&config.binary, &kubeconfig, port, log, level);
            replicas.push(replica.await?);
        }
        Ok(Self {
            replicas,
            nats,
            clock,
        })
    }

    /// Does what is planned.
    async fn disturb(&mut self, config: &ChaosConfig) -> Result<Vec<(u32, Action)>> {
        let began = Instant::now();
        let planned = plan::plan(config.seed, config.duration, config.every, config.replicas);
        let mut done = Vec::with_capacity(planned.len());
        for action in planned {
            let at = began + Duration::from_millis(action.at.into());
            sleep_until(at).await;
            let now = self.clock.now();
            print_line(&format!(
                "chaos: {:>6.1} s  {}, for {:.1} s",
                f64::from(now) / 1000.0,
                action.kind,
                f64::from(action.lasts) / 1000.0
            ));
            self.begin(action.kind)?;
            sleep(Duration::from_millis(action.lasts.into())).await;
            self.undo(action.kind).await?;
            done.push((now, action));
            sleep_until(at + config.every).await;
        }
        Ok(done)
    }

    fn begin(&mut self, kind: ActionKind) -> Result<()> {
        match kind {
            ActionKind::Kill(replica) => self.replicas[replica].kill(),
            ActionKind::Freeze(replica) => self.replicas[replica].freeze(),
            ActionKind::CutOff(replica) => {
                self.replicas[replica].link.cut();
                Ok(())
            }
            ActionKind::RestartNats => self.nats.kill(),
        }
    }

    async fn undo(&mut self, kind: ActionKind) -> Result<()> {
        match kind {
            ActionKind::Kill(replica) => {
                self.replicas[replica].start_again()?;
                self.replicas[replica].until_ready().await
            }
            ActionKind::Freeze(replica) => self.replicas[replica].thaw(),
            ActionKind::CutOff(replica) => {
                self.replicas[replica].link.heal();
                Ok(())
            }
            ActionKind::RestartNats => self.nats.start_again(),
        }
    }

    async fn stop(&mut self, api: &Client, expected: &Expected) -> Leftovers {
        Leftovers::after(&self.replicas, api, &self.nats.url(), expected).await
    }
}

// === impl Subscribers ===

impl Subscribers {
    /// Starts all, and waits until they have begun.
    async fn start(config: &ChaosConfig, front: &Front, clock: Clock) -> Result<Self> {
        let (client, url) = (wire::client()?, Arc::<str>::from(front.url()));
        let ready = watch::Sender::new(0);
        let mut all = Self {
            running: JoinSet::new(),
            stop: CancellationToken::new(),
            distinct: Vec::new(),
            left: 0,
        };
        for number in 0..config.subscribers {
            let distinct: Arc<AtomicU32> = Arc::default();
            all.distinct.push(Arc::clone(&distinct));
            let heard = Heard::new(clock, distinct);
            let (client, url, namespace) = (client.clone(), Arc::clone(&url), NAMESPACE.into());
            let (stop, ready) = (all.stop.clone(), ready.clone());
            let (nth, is_other) = (number / 2, number / 2 % 2 == 1);
            if number % 2 == 0 {
                all.left += usize::from(is_other);
                let subscriber = SessionSubscriber {
                    client,
                    url,
                    namespace,
                    stop,
                    ready,
                    says_goodbye: !is_other,
                    heard,
                };
                all.running
                    .spawn(async move { (format!("session-{nth}"), subscriber.run().await) });
            } else {
                let how = if is_other { "subscription" } else { "filters" };
                let caller = Caller {
                    client,
                    url,
                    namespace,
                    stop,
                    ready,
                    subscribes: is_other,
                    heard,
                };
                all.running
                    .spawn(async move { (format!("{how}-{nth}"), caller.run().await) });
            }
        }
        let mut ready = ready.subscribe();
        let all_ready = ready.wait_for(|ready| *ready == config.subscribers);
        let waited = timeout(READY_WITHIN, all_ready).await;
        waited.context("not all subscribers could begin")??;
        Ok(all)
    }

    /// Waits until all have so many events, or until nothing new comes. How many have them?
    async fn until_complete(&self, events: usize) -> usize {
        let began = Instant::now();
        let counts = || self.distinct.iter().map(|one| one.load(Ordering::Relaxed));
        let complete = || counts().filter(|count| *count as usize >= events).count();
        let (mut sum, mut since) = (0, began);
        while complete() < self.distinct.len() && began.elapsed() < COMPLETE_WITHIN {
            let now: u64 = counts().map(u64::from).sum();
            if now > sum {
                (sum, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                break;
            }
            sleep(Duration::from_millis(200)).await;
        }
        complete()
    }

    async fn stop(&mut self) -> Vec<(String, Heard)> {
        self.stop.cancel();
        let mut all = Vec::with_capacity(self.distinct.len());
        while let Some(ended) = self.running.join_next().await {
            all.extend(ended);
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}
