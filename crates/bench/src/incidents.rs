//! `cargo xtask bench incidents`: the incidents of a cluster with many pods whose status
//! changes all the time. Measures the time until the first list, the memory of the state, the
//! CPU time of a change, and how late a follower is told.
//!
//! A real API server does not carry so many changes beside what is measured, so the cluster
//! is in memory. The same changes are made without a watcher first; the difference is its
//! cost, including what the cluster does for its watches.

mod objects;

use std::{collections::HashMap, path::PathBuf, process, sync::Arc};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use demo_cluster::{DemoCluster, Options};
use kubecrier_core::{access::Viewer, metrics::Metrics};
use kubecrier_incidents::Transition;
use kubecrier_k8s::{
    Allowed, Config, Contexts, Demo, DeniedKinds, IncidentFollower, IncidentSettings,
    IncidentUpdate, IncidentView, IncidentWatches, TaskLimits,
};
use kubecrier_lifecycle::Lifecycle;
use kubecrier_redact::Redactor;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};

use self::objects::{crash, fill, mend, touch};
use crate::{
    bed, print_line,
    process::{cpu_seconds, rss_bytes},
    report::{Bar, Bars, millis},
    verdict::Percentiles,
};

const FIRST_MS: f64 = 5000.0;
const STATE_MIB: f64 = 150.0;
const CHANGE_MS: f64 = 1.0;
const OPENED_MS: f64 = 1000.0;
const READ_MS: f64 = 15.0;

/// Changes are made in so many portions a second.
const PORTIONS: u32 = 50;

/// One in so many portions breaks a workload.
const BREAKS_EVERY: u32 = 25;

/// A workload is mended when so many more have broken: after 5 s, so that it is not well again
/// before anybody could have noticed.
const BROKEN_AT_ONCE: u32 = 10;

/// How long to wait until the last change was told.
const SETTLED: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(crate) struct IncidentsArgs {
    /// How many pods there are
    #[arg(long, default_value_t = 10_000)]
    pods: u32,
    /// Changes of their status in a second
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// How long they change, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Measure a debug build too; its numbers mean little
    #[arg(long)]
    debug_build: bool,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct IncidentsMeasurement {
    pods: u32,
    changes: u32,
    first_ms: f64,
    /// Of the state and everything else that the watcher needs.
    state_mib: f64,
    /// With the watcher, and of the same changes without it.
    cpu_seconds: f64,
    cpu_seconds_without: f64,
    change_ms: f64,
    opened: usize,
    /// From the change of a status to the follower. The detector has no hold.
    opened_micros: Percentiles,
    read_micros: Percentiles,
    load_average: String,
}

/// When incidents were opened, by the workload.
#[derive(Default)]
struct Openings(Mutex<HashMap<String, Instant>>);

impl IncidentFollower for Openings {
    fn on_update(&self, update: &Arc<IncidentUpdate>) {
        let now = Instant::now();
        for transition in &update.transitions {
            if let Transition::Opened(incident) = transition {
                let mut openings = self.0.lock();
                openings.entry(incident.object.to_string()).or_insert(now);
            }
        }
    }
}

pub(crate) async fn run(args: IncidentsArgs) -> Result<()> {
    ensure!(
        args.debug_build || !cfg!(debug_assertions),
        "numbers of a debug build mean nothing: use --release"
    );
    let cluster = DemoCluster::new(Options {
        objects_max: usize::MAX,
        history_max: 100_000,
        ..Options::default()
    });
    print_line(&format!("making {} pods ...", args.pods));
    fill(&cluster, args.pods)?;
    let measured = measure(&cluster, &args).await?;
    let bars = bars(&measured);
    print_line(&table(&measured));
    print_line(&bars.table());
    let report = json!({"measured": measured, "bars": bars});
    bars.conclude(&report, args.json, "incidents.json")
}

async fn measure(cluster: &DemoCluster, args: &IncidentsArgs) -> Result<IncidentsMeasurement> {
    print_line("the changes without a watcher ...");
    let (_, cpu_seconds_without) = load(cluster, args).await?;
    let rss_before = rss_bytes(process::id())?;
    let watches = watches(cluster);
    let openings = Arc::<Openings>::default();
    print_line("the first list ...");
    let began = Instant::now();
    let follower = Arc::clone(&openings) as Arc<dyn IncidentFollower>;
    let view = watches
        .follow(&Viewer::Everything, None, None, follower)
        .await;
    let view = view.map_err(|error| anyhow!("{error}"))?;
    let first_ms = began.elapsed().as_secs_f64() * 1000.0;
    ensure!(
        view.snapshot().notes.is_empty(),
        "{:?}",
        view.snapshot().notes
    );
    print_line("the changes with a watcher ...");
    let (broken, cpu_seconds) = load(cluster, args).await?;
    let state = rss_bytes(process::id())?.saturating_sub(rss_before);
    let openings = openings.0.lock();
    let late = broken.iter().map(|(workload, at)| {
        let opened = openings.get(workload);
        let late = opened.map(|opened| opened.duration_since(*at));
        let late = late.ok_or_else(|| anyhow!("{workload} was never opened"))?;
        Ok(u64::try_from(late.as_micros())?)
    });
    let late: Vec<_> = late.collect::<Result<_>>()?;
    let changes = args.rate * args.seconds;
    Ok(IncidentsMeasurement {
        pods: args.pods,
        changes,
        first_ms,
        state_mib: mib(state),
        cpu_seconds,
        cpu_seconds_without,
        change_ms: (cpu_seconds - cpu_seconds_without) * 1000.0 / f64::from(changes),
        opened: late.len(),
        opened_micros: Percentiles::of(late),
        read_micros: reads(&view)?,
        load_average: bed::load_average(),
    })
}

fn watches(cluster: &DemoCluster) -> IncidentWatches {
    let contexts = Contexts::new(Config {
        kubeconfig: None,
        context: None,
        request_timeout: Duration::from_mins(1),
        redactor: Redactor::default(),
        demo: Some(Demo::new(cluster)),
        denied: DeniedKinds::default(),
        allowed: Allowed::default(),
        identity: kubecrier_k8s::ClusterIdentity::default(),
    });
    let limits = TaskLimits {
        total_max: 1,
        per_caller_max: 1,
    };
    IncidentWatches::new(
        Arc::new(contexts),
        Lifecycle::default(),
        Metrics::new().watch().clone(),
        Duration::from_mins(5),
        limits,
        IncidentSettings::default(),
    )
}

/// Changes the status of pods for a while. Returns the workloads that broke, and when, and
/// the CPU time of this process.
async fn load(
    cluster: &DemoCluster,
    args: &IncidentsArgs,
) -> Result<(Vec<(String, Instant)>, f64)> {
    let before = cpu_seconds(process::id())?;
    let mut ticks = interval(Duration::from_secs(1) / PORTIONS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut broken, mut nth): (Vec<(String, Instant)>, u32) = (Vec::new(), 0);
    for portion in 0..args.seconds * PORTIONS {
        ticks.tick().await;
        for _ in 0..args.rate / PORTIONS {
            touch(cluster, nth % args.pods, nth);
            nth = nth.wrapping_add(1);
        }
        if portion % BREAKS_EVERY == 0 {
            let set = portion / BREAKS_EVERY;
            if let Some(before) = set.checked_sub(BROKEN_AT_ONCE) {
                mend(cluster, before, args.pods);
            }
            broken.push((crash(cluster, set, args.pods), Instant::now()));
        }
    }
    sleep(SETTLED).await;
    let used = cpu_seconds(process::id())? - before;
    // Nothing is open when the next round begins.
    for set in 0..args.seconds * PORTIONS / BREAKS_EVERY {
        mend(cluster, set, args.pods);
    }
    Ok((broken, used))
}

/// How long a read of the list takes, with the words of all that is open.
fn reads(view: &IncidentView) -> Result<Percentiles> {
    let mut times = Vec::new();
    for _ in 0..1000 {
        let began = Instant::now();
        let snapshot = view.snapshot();
        let bytes: usize = snapshot.open.iter().map(|one| one.headline.len()).sum();
        ensure!(bytes < 1 << 20, "endless headlines");
        times.push(u64::try_from(began.elapsed().as_micros())?);
    }
    Ok(Percentiles::of(times))
}

fn bars(one: &IncidentsMeasurement) -> Bars {
    Bars(vec![
        Bar::at_most("ms until the first list", one.first_ms, FIRST_MS),
        Bar::at_most("MiB of the state", one.state_mib, STATE_MIB),
        Bar::at_most("ms of CPU per change", one.change_ms, CHANGE_MS),
        Bar::at_most(
            "ms from a status to its opened incident, p99",
            millis(one.opened_micros.p99),
            OPENED_MS,
        ),
        Bar::at_most("ms of a read, p99", millis(one.read_micros.p99), READ_MS),
    ])
}

fn table(one: &IncidentsMeasurement) -> String {
    format!(
        "\n| pods | changes | first list, ms | state, MiB | CPU s with, without | CPU ms a change | opened | late, ms p50 / p99 | read, ms p50 / p99 | load |\n|---|---|---|---|---|---|---|---|---|---|\n| {} | {} | {:.0} | {:.1} | {:.2}, {:.2} | {:.3} | {} | {} | {} | {} |\n",
        one.pods,
        one.changes,
        one.first_ms,
        one.state_mib,
        one.cpu_seconds,
        one.cpu_seconds_without,
        one.change_ms,
        one.opened,
        one.opened_micros,
        one.read_micros,
        one.load_average,
    )
}

#[expect(clippy::cast_precision_loss, reason = "only printed")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
