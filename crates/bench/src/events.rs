//! `cargo xtask bench events`: events of a real API server, through the real binary,
//! to clients that count them.

mod filters;
mod history;
mod identities;
mod picture;
mod replicas;

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use kube::Client;
use serde::Serialize;
use testbed::{Cluster, namespace, pod};
use tokio::time::Instant;

use self::filters::Decisions;
use crate::{
    bed,
    creating::{self, Created, Pace, PlainWatch},
    print_line,
    process::Cpu,
    report::{Bar, Bars},
    server::ServerProcess,
    subscribers::{Seat, Subscribers},
    verdict::{Percentiles, Verdict},
};

const NAMESPACE: &str = "bench-events";

/// The number of pods that events refer to.
const PODS: u32 = 20;

/// More events than a subscription or a stream buffers: afterwards the buffers are full and
/// memory should not grow any more.
const FILLING: u32 = 1200;

/// Deliveries a second that fill many subscribers: as fast as events can be created, the readers
/// would not keep up on two cores.
const FILLING_DELIVERIES: usize = 20_000;

/// The bars of time, at p99: for a subscriber alone at any rate, and for several at this one.
const ALONE_P99_MS: f64 = 15.0;
const BAR_RATE: u32 = 200;
const P99_MS: f64 = 40.0;
const GROWTH_MIB: f64 = 8.0;
/// From the rate on at which a bar of time allows to deliver events together.
const SUBSCRIBER_MICROS: f64 = 6.0;
const DECISIONS: f64 = 200_000.0;

#[derive(Args)]
pub(crate) struct EventsArgs {
    /// How long events come at each rate
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Events a second; the bar on the time to several subscribers is about 200
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200, 500])]
    rates: Vec<u32>,
    /// Sessions with an open stream and one subscription each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100])]
    subscribers: Vec<usize>,
    /// Callers with rights of their own in place of one identity: what that costs more
    #[arg(long)]
    identities: Option<usize>,
    /// What `--history` costs more, at 500 events a second: the same run without and with it
    #[arg(long, conflicts_with = "identities")]
    history: bool,
    /// Servers that share a NATS: one without it, then 1 to so many of them, with the same subscribers
    #[arg(long, conflicts_with_all = ["identities", "history"])]
    replicas: Option<usize>,
    /// Only how fast filters decide, without a cluster
    #[arg(long)]
    filters_only: bool,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
    /// Where the picture of latency over load goes
    #[arg(long)]
    svg: Option<PathBuf>,
    /// The numbers of an earlier run, to be drawn behind those of this one
    #[arg(long, requires = "svg")]
    before: Option<PathBuf>,
}

/// The report of one run.
#[derive(Serialize)]
struct EventsReport {
    filters: Decisions,
    measured: Vec<EventsMeasurement>,
    bars: Bars,
}

/// The measurements of one rate with one number of subscribers.
#[derive(Serialize)]
struct EventsMeasurement {
    subscribers: usize,
    per_second: u32,
    achieved: f64,
    events: usize,
    /// How long the API server took to answer the creator.
    creating: Percentiles,
    /// From sending an event until a plain watch had it: the API server's share.
    api_server: Percentiles,
    verdict: Verdict,
    cpu_micros_per_event: Cpu,
    rss_before: u64,
    rss_after: u64,
    load_average: String,
}

/// Servers with their subscribers, connected to a cluster.
struct EventsRun {
    servers: Vec<ServerProcess>,
    subscribers: Subscribers,
    count: usize,
    admin: Client,
    next: u32,
    seqs: Vec<u64>,
}

pub(crate) async fn run(args: EventsArgs) -> Result<()> {
    if let Some(count) = args.identities {
        return identities::run(count, args.seconds, args.json).await;
    }
    if args.history {
        return history::run(args).await;
    }
    if let Some(most) = args.replicas {
        return replicas::run(most, args).await;
    }
    let filters = filters::measure()?;
    print_line(&format!(
        "filters: {:.1} million decisions a second on one core ({} of {} were yes)",
        filters.per_cpu_second / 1e6,
        filters.admitted,
        filters.made
    ));
    let mut measured = Vec::new();
    if !args.filters_only {
        let cluster = bed::start()?;
        let admin = prepare(&cluster).await?;
        for count in &args.subscribers {
            let mut run = EventsRun::open(&cluster, &admin, *count).await?;
            for rate in &args.rates {
                measured.push(run.measure(*rate, args.seconds).await?);
            }
            run.subscribers.close().await?;
        }
    }
    let bars = Bars(bars(&filters, &measured));
    print_line(&table(&measured));
    print_line(&bars.table());
    let report = EventsReport {
        filters,
        measured,
        bars,
    };
    if let Some(path) = args.svg {
        let before = args.before.map(|path| picture::read(&path)).transpose()?;
        let now = picture::points(&serde_json::to_value(&report)?).unwrap_or_default();
        fs::write(&path, picture::draw(&now, &before.unwrap_or_default()))
            .with_context(|| format!("{}", path.display()))?;
    }
    report.bars.conclude(&report, args.json, "events.json")
}

/// Creates the pods that events refer to, with labels for the server to look up.
async fn prepare(cluster: &Cluster) -> Result<Client> {
    cluster.create_cluster_wide(&namespace(NAMESPACE)).await?;
    for nth in 0..PODS {
        let name = format!("web-{nth}");
        cluster.create(&pod(NAMESPACE, &name, &["app"])).await?;
    }
    bed::admin(cluster).await
}

fn event(number: u32) -> k8s_openapi::api::core::v1::Event {
    let about = format!("Pod/web-{}", number % PODS);
    let text = creating::text(number);
    testbed::event(NAMESPACE, &about, "Warning", "BackOff", &text)
}

// === impl EventsRun ===

impl EventsRun {
    async fn open(cluster: &Cluster, admin: &Client, count: usize) -> Result<Self> {
        let server = ServerProcess::start(cluster).await?;
        Self::open_as(server, admin, vec![None; count]).await
    }

    /// Opens a subscriber for each token.
    async fn open_as(
        server: ServerProcess,
        admin: &Client,
        tokens: Vec<Option<String>>,
    ) -> Result<Self> {
        let port = server.port();
        let seats = tokens.into_iter().map(|token| Seat { port, token });
        Self::open_at(vec![server], admin, seats.collect()).await
    }

    /// Opens a subscriber at each seat.
    async fn open_at(
        servers: Vec<ServerProcess>,
        admin: &Client,
        seats: Vec<Seat>,
    ) -> Result<Self> {
        let count = seats.len();
        print_line(&format!("{count} subscribers: opening ..."));
        let arguments = format!(r#"{{"namespace":"{NAMESPACE}"}}"#);
        let subscribers = Subscribers::open_at(seats, &arguments).await?;
        let mut run = Self {
            servers,
            subscribers,
            count,
            admin: admin.clone(),
            next: 0,
            seqs: Vec::new(),
        };
        let empty = run.rss_bytes()?;
        // Until everybody has had one event: the rights of many users take the server seconds to
        // ask for, in which the events of a filling would not fit into the outboxes.
        let pace = Pace {
            per_second: None,
            at_once: 1,
        };
        let (_, verdict, _) = run.create(1, pace).await?;
        ensure!(verdict.wrong(true) == 0, "the first event: {verdict:?}");
        let per_second = u32::try_from(FILLING_DELIVERIES / count.max(1))?;
        let pace = Pace {
            per_second: (per_second < FILLING).then_some(per_second.max(1)),
            at_once: 1,
        };
        let (_, verdict, _) = run.create(FILLING, pace).await?;
        ensure!(verdict.wrong(true) == 0, "while filling: {verdict:?}");
        let full = run.rss_bytes()?;
        print_line(&format!(
            "{count} subscribers: what they remember took the servers from {:.1} to {:.1} MiB",
            mib(empty),
            mib(full)
        ));
        Ok(run)
    }

    /// The first server.
    fn server(&self) -> Result<&ServerProcess> {
        self.servers.first().context("no server")
    }

    /// Resident memory of all servers.
    fn rss_bytes(&self) -> Result<u64> {
        self.servers.iter().map(ServerProcess::rss_bytes).sum()
    }

    /// CPU of all servers.
    fn cpu(&self) -> Result<Cpu> {
        let mut sum = Cpu::default();
        for server in &self.servers {
            let Cpu { user, system } = server.cpu()?;
            sum.user += user;
            sum.system += system;
        }
        Ok(sum)
    }

    async fn create(
        &mut self,
        count: u32,
        pace: Pace,
    ) -> Result<(Vec<Created>, Verdict, Percentiles)> {
        let numbers = self.next..self.next + count;
        self.next = numbers.end;
        let watch = PlainWatch::start(&self.admin, NAMESPACE).await?;
        let created = creating::create(&self.admin, NAMESPACE, numbers, pace, event).await?;
        let arrived = self.subscribers.take(created.len()).await?;
        let observed = watch.observed();
        let verdict = Verdict::of(&created, &observed, &arrived, &mut self.seqs);
        let share = (created.iter())
            .filter_map(|one| Some(observed.get(&one.number)?.saturating_sub(one.sent)));
        let share = Percentiles::of(share.collect());
        Ok((created, verdict, share))
    }

    async fn measure(&mut self, rate: u32, seconds: u32) -> Result<EventsMeasurement> {
        print_line(&format!(
            "{} subscribers: {rate} events a second for {seconds} s ...",
            self.count
        ));
        let pace = Pace {
            per_second: Some(rate),
            at_once: 1,
        };
        let (rss_before, cpu, began) = (self.rss_bytes()?, self.cpu()?, Instant::now());
        let (created, verdict, api_server) = self.create(rate * seconds, pace).await?;
        let (rss_after, used) = (self.rss_bytes()?, self.cpu()?);
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let events = created.len() as f64;
        let per_event = |before: f64, after: f64| (after - before) * 1e6 / events;
        let creating = created.iter().map(|one| one.answered - one.sent).collect();
        let last = created.iter().map(|one| one.answered).max().unwrap_or(0);
        let first = created.iter().map(|one| one.sent).min().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "minutes")]
        let span = (last - first) as f64 / 1e6;
        print_line(&format!(
            "  done after {:.1} s",
            began.elapsed().as_secs_f64()
        ));
        Ok(EventsMeasurement {
            subscribers: self.count,
            per_second: rate,
            achieved: events / span,
            events: created.len(),
            creating: Percentiles::of(creating),
            api_server,
            verdict,
            cpu_micros_per_event: Cpu {
                user: per_event(cpu.user, used.user),
                system: per_event(cpu.system, used.system),
            },
            rss_before,
            rss_after,
            load_average: bed::load_average(),
        })
    }
}

// === impl EventsMeasurement ===

impl EventsMeasurement {
    fn cpu(&self) -> f64 {
        self.cpu_micros_per_event.user + self.cpu_micros_per_event.system
    }
}

fn bars(filters: &Decisions, measured: &[EventsMeasurement]) -> Vec<Bar> {
    let mut bars = vec![Bar::at_least(
        "filter decisions a second on one core",
        filters.per_cpu_second,
        DECISIONS,
    )];
    let mut by_rate: BTreeMap<u32, Vec<&EventsMeasurement>> = BTreeMap::new();
    for one in measured {
        by_rate.entry(one.per_second).or_default().push(one);
        let what = format!(
            "{} a second, {} subscribers",
            one.per_second, one.subscribers
        );
        #[expect(clippy::cast_precision_loss, reason = "of few")]
        let wrong = one.verdict.wrong(true) as f64;
        bars.push(Bar::at_most(
            &format!("{what}: lost, doubled or out of order"),
            wrong,
            0.0,
        ));
        bars.push(Bar::at_most(
            &format!("{what}: MiB that the server grew"),
            mib(one.rss_after) - mib(one.rss_before),
            GROWTH_MIB,
        ));
        let time_max = match (one.subscribers, one.per_second) {
            (1, _) => Some(ALONE_P99_MS),
            (_, BAR_RATE) => Some(P99_MS),
            _ => None,
        };
        if let Some(time_max) = time_max {
            bars.push(Bar::at_most(
                &format!("{what}: ms from a plain watch beside the server to the client, p99"),
                crate::report::millis(one.verdict.from_watch.p99),
                time_max,
            ));
        }
    }
    for (rate, all) in by_rate {
        let fewest = all.iter().min_by_key(|one| one.subscribers);
        let most = all.iter().max_by_key(|one| one.subscribers);
        if let (Some(fewest), Some(most)) = (fewest, most)
            && fewest.subscribers < most.subscribers
            && rate >= BAR_RATE
        {
            #[expect(clippy::cast_precision_loss, reason = "thousands at most")]
            let more = (most.subscribers - fewest.subscribers) as f64;
            bars.push(Bar::at_most(
                &format!("{rate} a second: µs of CPU per event and further subscriber"),
                (most.cpu() - fewest.cpu()) / more,
                SUBSCRIBER_MICROS,
            ));
        }
    }
    bars
}

fn table(measured: &[EventsMeasurement]) -> String {
    let mut text = String::from(
        "\nTimes in ms, p50 / p99. CPU in µs per event, user + system.\n\n| a second | subscribers | achieved | creating | API server's share | answer to client | sending to client | plain watch to client | CPU | RSS MiB | load |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        text += &format!(
            "| {} | {} | {:.0} | {} | {} | {} | {} | {} | {:.0} + {:.0} | {:.1} → {:.1} | {} |\n",
            one.per_second,
            one.subscribers,
            one.achieved,
            one.creating,
            one.api_server,
            one.verdict.from_answer,
            one.verdict.from_sending,
            one.verdict.from_watch,
            one.cpu_micros_per_event.user,
            one.cpu_micros_per_event.system,
            mib(one.rss_before),
            mib(one.rss_after),
            one.load_average,
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "only printed")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
