//! `cargo xtask bench faults`: many pods fail, many clients subscribe, and the limits of
//! log requests hold.

use std::{collections::HashMap, path::PathBuf};

use anyhow::Result;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::json;
use testbed::{Cluster, LogScript, namespace, pod};
use tokio::time::{Duration, interval, sleep};

use crate::{
    bed,
    creating::{self, Pace},
    print_line,
    report::{Bar, Bars, millis},
    server::ServerProcess,
    subscribers::Subscribers,
    verdict::Verdict,
};

const NAMESPACE: &str = "bench-faults";

/// The response time of the node for a log.
const LOG_TAKES: Duration = Duration::from_millis(20);

/// The server's default limit for one cluster.
const CAPTURES_MAX: f64 = 5.0;

/// The bars of time, at p99: for a fault alone, beside what the node takes for its two logs,
/// and for several at once.
const ALONE_P99_MS: f64 = 60.0 + 2.0 * 20.0;
const AT_ONCE_P99_MS: f64 = 400.0;
const GROWTH_MIB: f64 = 32.0;
/// Memory that the allocator may keep when sessions and evidence are gone.
const LEFT_MIB: f64 = 8.0;

/// Evidence expires after a minute, and expired evidence is removed every half minute.
const FORGOTTEN: Duration = Duration::from_secs(95);

/// Concurrent calls that create pods.
const MAKING: usize = 8;

#[derive(Args)]
pub(crate) struct FaultsArgs {
    /// How many pods fail, each once
    #[arg(long, default_value_t = 200)]
    pods: u32,
    /// Within how many seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Sessions that want to know
    #[arg(long, default_value_t = 20)]
    subscribers: usize,
    /// How many fail at the same moment; each is a run of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1, 20])]
    at_once: Vec<u32>,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The measurements of one run.
#[derive(Serialize)]
struct FaultsMeasurement {
    at_once: u32,
    faults: usize,
    subscribers: usize,
    verdict: Verdict,
    /// Faults that were reported without logs, because the limit of fetches was reached.
    throttled: u64,
    logs_fetched: usize,
    /// The largest number of fetches of one log of one pod.
    fetched_at_most: usize,
    in_flight_max: u64,
    node_open_max: usize,
    cpu_seconds: f64,
    rss_before: u64,
    rss_max: u64,
    rss_end: u64,
    allocated_before: u64,
    allocated_end: u64,
    load_average: String,
}

pub(crate) async fn run(args: FaultsArgs) -> Result<()> {
    let cluster = bed::start()?;
    cluster.create_cluster_wide(&namespace(NAMESPACE)).await?;
    let admin = bed::admin(&cluster).await?;
    let mut measured = Vec::new();
    for at_once in &args.at_once {
        measured.push(measure(&cluster, &admin, &args, *at_once).await?);
    }
    let bars = Bars(measured.iter().flat_map(bars).collect());
    print_line(&table(&measured));
    print_line(&bars.table());
    let report = json!({"measured": measured, "bars": bars});
    bars.conclude(&report, args.json, "faults.json")
}

async fn measure(
    cluster: &Cluster,
    admin: &Client,
    args: &FaultsArgs,
    at_once: u32,
) -> Result<FaultsMeasurement> {
    let prefix = format!("web-{at_once}");
    print_line(&format!("making {} pods ...", args.pods));
    make_pods(cluster, admin, &prefix, args.pods).await?;
    let server = ServerProcess::start(cluster).await?;
    let arguments = format!(r#"{{"mode":"faults","namespace":"{NAMESPACE}"}}"#);
    let subscribers = Subscribers::open(server.port(), args.subscribers, &arguments).await?;
    print_line(&format!(
        "{} pods fail within {} s, {at_once} at once; {} subscribers ...",
        args.pods, args.seconds, args.subscribers
    ));
    let (rss_before, cpu) = (server.rss_bytes()?, server.cpu()?);
    let allocated_before = server.allocated_bytes()?;
    let pace = Pace {
        per_second: Some(args.pods / args.seconds.max(1)),
        at_once,
    };
    let failing = async {
        let of_pods = prefix.clone();
        let make = move |number: u32| {
            let about = format!("Pod/{of_pods}-{number}");
            let text = creating::text(number);
            testbed::event(NAMESPACE, &about, "Warning", "BackOff", &text)
        };
        let created = creating::create(admin, NAMESPACE, 0..args.pods, pace, make).await?;
        let arrived = subscribers.take(created.len()).await?;
        anyhow::Ok((created, arrived))
    };
    let (mut rss_max, mut in_flight_max) = (rss_before, 0);
    let watching = async {
        let mut ticks = interval(Duration::from_millis(50));
        loop {
            ticks.tick().await;
            let in_flight = server.metric("kubecrier_log_captures_in_flight ").await?;
            in_flight_max = in_flight_max.max(in_flight);
            rss_max = rss_max.max(server.rss_bytes()?);
        }
    };
    let (created, arrived) = tokio::select! {
        done = failing => done?,
        never = watching => return never,
    };
    let verdict = Verdict::of(&created, &HashMap::new(), &arrived, &mut Vec::new());
    let used = server.cpu()?;
    let throttled = server
        .metric("kubecrier_log_captures_throttled_total ")
        .await?;
    let (logs_fetched, fetched_at_most) = fetched(cluster, &prefix);
    subscribers.close().await?;
    print_line("the subscribers have gone; what they left is being forgotten ...");
    sleep(FORGOTTEN).await;
    Ok(FaultsMeasurement {
        at_once,
        faults: created.len(),
        subscribers: args.subscribers,
        verdict,
        throttled,
        logs_fetched,
        fetched_at_most,
        in_flight_max,
        node_open_max: cluster.node().open_max(),
        cpu_seconds: used.user + used.system - cpu.user - cpu.system,
        rss_before,
        rss_max,
        rss_end: server.rss_bytes()?,
        allocated_before,
        allocated_end: server.allocated_bytes()?,
        load_average: bed::load_average(),
    })
}

/// Creates pods with one container that was restarted once, with its current and its
/// previous log.
async fn make_pods(cluster: &Cluster, admin: &Client, prefix: &str, count: u32) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(admin.clone(), NAMESPACE);
    let lines = (0..100).map(|n| format!("{n} GET /orders/{n} 200 in 12 ms, for a customer"));
    let now = LogScript::lines(lines.clone()).delayed(LOG_TAKES);
    let crash = lines.chain(["panic: no config".to_owned()]);
    let before = LogScript::lines(crash).delayed(LOG_TAKES);
    let status = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "", "ready": false, "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
    }]}});
    let make = async |name: String| {
        let path = format!("{NAMESPACE}/{name}/app");
        cluster.node().set_log(&path, now.clone());
        cluster.node().set_previous_log(&path, before.clone());
        let one = pod(NAMESPACE, &name, &["app"]);
        api.create(&PostParams::default(), &one).await?;
        let patch = Patch::Merge(&status);
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
        anyhow::Ok(())
    };
    stream::iter((0..count).map(|nth| make(format!("{prefix}-{nth}"))))
        .buffer_unordered(MAKING)
        .try_collect()
        .await
}

/// The number of log requests for these pods, and the largest number for one log.
fn fetched(cluster: &Cluster, prefix: &str) -> (usize, usize) {
    let begin = format!("{NAMESPACE}/{prefix}-");
    let mut times: HashMap<(String, bool), usize> = HashMap::new();
    for one in cluster.node().requests() {
        if one.container.starts_with(&begin) {
            let key = (one.container, one.selection.previous);
            *times.entry(key).or_default() += 1;
        }
    }
    let most = times.values().max().copied().unwrap_or_default();
    (times.values().sum(), most)
}

fn bars(one: &FaultsMeasurement) -> [Bar; 6] {
    let what = format!("{} at once", one.at_once);
    #[expect(clippy::cast_precision_loss, reason = "of few")]
    let number = |number: usize| number as f64;
    [
        Bar::at_most(
            &format!("{what}: lost or doubled"),
            number(one.verdict.wrong(false)),
            0.0,
        ),
        Bar::at_most(
            &format!("{what}: captures, and logs, at once"),
            number(one.node_open_max).max(number(
                usize::try_from(one.in_flight_max).unwrap_or(usize::MAX),
            )),
            CAPTURES_MAX,
        ),
        Bar::at_most(
            &format!("{what}: times that a log was fetched"),
            number(one.fetched_at_most),
            1.0,
        ),
        Bar::at_most(
            &format!("{what}: ms from event to notification, p99"),
            millis(one.verdict.from_sending.p99),
            match one.at_once {
                1 => ALONE_P99_MS,
                _ => AT_ONCE_P99_MS,
            },
        ),
        Bar::at_most(
            &format!("{what}: MiB that the server grew"),
            mib(one.rss_max) - mib(one.rss_before),
            GROWTH_MIB,
        ),
        Bar::at_most(
            &format!("{what}: MiB still allocated when all is forgotten"),
            mib(one.allocated_end) - mib(one.allocated_before),
            LEFT_MIB,
        ),
    ]
}

fn table(measured: &[FaultsMeasurement]) -> String {
    let mut text = String::from(
        "\nTimes in ms, p50 / p99.\n\n| at once | faults | subscribers | told | throttled | other failures | logs fetched | captures at once | logs at once | sending to client | max | CPU s | RSS MiB: before, most, after | load |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.2} | {:.1}, {:.1}, {:.1} | {} |\n",
            one.at_once,
            one.faults,
            one.subscribers,
            one.verdict.deliveries,
            one.throttled,
            one.verdict.failed,
            one.logs_fetched,
            one.in_flight_max,
            one.node_open_max,
            one.verdict.from_sending,
            millis(one.verdict.from_sending.max),
            one.cpu_seconds,
            mib(one.rss_before),
            mib(one.rss_max),
            mib(one.rss_end),
            one.load_average,
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "only printed")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
