//! `cargo xtask bench graph`: the graph of a cluster with many pods. Measures the time until
//! the first read, the memory, and the cost of one change.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use testbed::namespace;
use tokio::time::{Duration, Instant, interval, sleep};

use crate::{
    bed,
    load::http::{Connection, text},
    making::{make_all, send, typical_pod},
    print_line,
    report::{Bar, Bars},
    server::ServerProcess,
};

const NAMESPACES: u32 = 20;
const NODES: u32 = 100;
/// Pods of one replica set.
const REPLICAS: u32 = 20;

const FIRST_MS: f64 = 5000.0;
const SERVER_MIB: f64 = 150.0;
/// Percentage of changes that may take longer than a millisecond: the benchmark
/// shares the machine with an API server.
const SLOW_PERCENT: f64 = 1.0;

/// How long to wait until the server has applied the last change.
const SETTLED: Duration = Duration::from_secs(3);

#[derive(Args)]
pub(crate) struct GraphArgs {
    /// How many pods there are
    #[arg(long, default_value_t = 10_000)]
    pods: u32,
    /// How many of them change, one after another
    #[arg(long, default_value_t = 500)]
    changes: u32,
    /// Measure a debug build too; its numbers mean little
    #[arg(long)]
    debug_build: bool,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct GraphMeasurement {
    pods: u32,
    objects: u64,
    first_ms: f64,
    second_ms: f64,
    rss_before: u64,
    rss_first: u64,
    rss_max: u64,
    changes: u64,
    /// Changes that took longer than a millisecond.
    slow: u64,
    mean_micros: f64,
    updates: u64,
    cpu_seconds: f64,
    load_average: String,
}

pub(crate) async fn run(args: GraphArgs) -> Result<()> {
    let cluster = bed::start_any(args.debug_build)?;
    let admin = bed::admin(&cluster).await?;
    print_line(&format!("making {} pods ...", args.pods));
    for space in 0..NAMESPACES {
        let one = namespace(&namespace_name(space));
        cluster.create_cluster_wide(&one).await?;
    }
    make(&admin, args.pods).await?;
    // TLS without optimisation takes seconds for a page of pods.
    let patience: &[&str] = if args.debug_build {
        &["--request-timeout-seconds", "60"]
    } else {
        &[]
    };
    let server = ServerProcess::start_with(&cluster, patience).await?;
    let measured = measure(&server, &admin, &args).await?;
    let bars = bars(&measured);
    print_line(&table(&measured));
    print_line(&bars.table());
    let report = json!({"measured": measured, "bars": bars});
    bars.conclude(&report, args.json, "graph.json")
}

async fn measure(
    server: &ServerProcess,
    admin: &Client,
    args: &GraphArgs,
) -> Result<GraphMeasurement> {
    let rss_before = server.rss_bytes()?;
    let mut rss_max = rss_before;
    let mut client = Connection::open(server.port(), None).await?;
    let session = client.begin_session().await?;
    print_line("the first graph ...");
    let mut ticks = interval(Duration::from_millis(20));
    let first_ms = {
        let mut reading = std::pin::pin!(read(&mut client, &session));
        loop {
            tokio::select! {
                read = &mut reading => break read?,
                _ = ticks.tick() => rss_max = rss_max.max(server.rss_bytes()?),
            }
        }
    };
    let second_ms = read(&mut client, &session).await?;
    let rss_first = server.rss_bytes()?;
    rss_max = rss_max.max(rss_first);
    rpc(
        &mut client,
        &session,
        "resources/subscribe",
        &json!({"uri": GRAPH}),
    )
    .await?;
    let (cpu, before) = (server.cpu()?, changes(server).await?);
    print_line(&format!("{} pods change ...", args.changes));
    for nth in 0..args.changes {
        let path = pod_path(nth % args.pods);
        let patch = json!({"metadata": {"labels": {"changed": nth.to_string()}}});
        send(admin, "PATCH", &path, &patch).await?;
        rss_max = rss_max.max(server.rss_bytes()?);
    }
    sleep(SETTLED).await;
    let (used, after) = (server.cpu()?, changes(server).await?);
    let counted = after.count - before.count;
    ensure!(
        counted >= u64::from(args.changes),
        "only {counted} changes were seen"
    );
    #[expect(clippy::cast_precision_loss, reason = "of few")]
    let mean_micros = (after.seconds - before.seconds) * 1e6 / counted as f64;
    Ok(GraphMeasurement {
        pods: args.pods,
        objects: server.metric("kubecrier_graph_objects ").await?,
        first_ms,
        second_ms,
        rss_before,
        rss_first,
        rss_max: rss_max.max(server.rss_bytes()?),
        changes: counted,
        slow: counted - (after.quick - before.quick),
        mean_micros,
        updates: server.metric("kubecrier_graph_updates_total ").await?,
        cpu_seconds: used.user + used.system - cpu.user - cpu.system,
        load_average: bed::load_average(),
    })
}

/// The number of changes applied so far, the number of those within a millisecond, and the
/// total time.
struct Changes {
    count: u64,
    quick: u64,
    seconds: f64,
}

async fn changes(server: &ServerProcess) -> Result<Changes> {
    let mut connection = Connection::open(server.port(), None).await?;
    let answer = connection.get("/metrics").await?;
    let numbers = text(&answer.body).into_owned();
    let number = |name: &str| {
        let name = format!("kubecrier_graph_change_seconds_{name} ");
        let mut lines = numbers.lines();
        let found = lines.find_map(|line| line.strip_prefix(&name)?.trim().parse::<f64>().ok());
        found.with_context(|| format!("no {name} in /metrics"))
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a count"
    )]
    let count = |number: f64| number as u64;
    Ok(Changes {
        count: count(number("count")?),
        quick: count(number("bucket{le=\"0.001\"}")?),
        seconds: number("sum")?,
    })
}

/// The pods of the whole cluster, up to the size limit of a response.
const GRAPH: &str = "k8s://dev/-/graph?kinds=Pod";

/// Reads the graph of the whole cluster; returns the milliseconds that it took.
async fn read(client: &mut Connection, session: &str) -> Result<f64> {
    let began = Instant::now();
    let answer = rpc(client, session, "resources/read", &json!({"uri": GRAPH})).await?;
    ensure!(answer.contains("Pod:bench-graph-"), "a graph without pods");
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}

async fn rpc(
    client: &mut Connection,
    session: &str,
    method: &str,
    params: &Value,
) -> Result<String> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = client.post(Some(session), &body.to_string()).await?;
    let answer = text(&answer.body).into_owned();
    let shown: String = answer.chars().take(500).collect();
    ensure!(!answer.contains("\"error\":"), "{method}: {shown}");
    Ok(answer)
}

fn namespace_name(space: u32) -> String {
    format!("bench-graph-{space}")
}

/// The API path of the nth pod.
fn pod_path(nth: u32) -> String {
    let space = namespace_name(nth / REPLICAS % NAMESPACES);
    format!("/api/v1/namespaces/{space}/pods/{}", pod_name(nth))
}

fn pod_name(nth: u32) -> String {
    format!("web-{}-{nth}", nth / REPLICAS)
}

/// Creates nodes, pods, and for each group of pods a deployment, a replica set and a
/// service.
async fn make(admin: &Client, pods: u32) -> Result<()> {
    let nodes = (0..NODES).map(|nth| {
        let node = json!({"metadata": {"name": format!("bench-{nth}")}});
        ("/api/v1/nodes".to_owned(), node)
    });
    make_all(admin, nodes).await?;
    let sets = (0..pods.div_ceil(REPLICAS)).flat_map(|set| {
        let space = namespace_name(set % NAMESPACES);
        let name = format!("web-{set}");
        let labels = json!({"app": name});
        let metadata = json!({"name": name, "namespace": space, "labels": labels});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
        });
        // No controller runs in this cluster, so the number of replicas has no effect.
        let spec =
            json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
        let apps = format!("/apis/apps/v1/namespaces/{space}");
        [
            (
                format!("{apps}/deployments"),
                json!({"metadata": metadata, "spec": spec}),
            ),
            (
                format!("{apps}/replicasets"),
                json!({"metadata": metadata, "spec": spec}),
            ),
            (
                format!("/api/v1/namespaces/{space}/services"),
                json!({"metadata": metadata, "spec": {"selector": labels, "clusterIP": "None"}}),
            ),
        ]
    });
    make_all(admin, sets).await?;
    let all = (0..pods).map(|nth| {
        let (path, _) = pod_path(nth).rsplit_once('/').map(own).unwrap_or_default();
        let node = format!("bench-{}", nth % NODES);
        (path, typical_pod(&pod_name(nth), nth / REPLICAS, &node))
    });
    make_all(admin, all).await
}

fn own((path, name): (&str, &str)) -> (String, String) {
    (path.to_owned(), name.to_owned())
}

fn bars(one: &GraphMeasurement) -> Bars {
    #[expect(clippy::cast_precision_loss, reason = "of few")]
    let slow = one.slow as f64 * 100.0 / one.changes as f64;
    Bars(vec![
        Bar::at_most("ms until the first graph", one.first_ms, FIRST_MS),
        Bar::at_most("MiB of the server, at most", mib(one.rss_max), SERVER_MIB),
        Bar::at_most("% of changes that took over 1 ms", slow, SLOW_PERCENT),
        Bar::at_most("ms per change, on average", one.mean_micros / 1000.0, 1.0),
    ])
}

fn table(one: &GraphMeasurement) -> String {
    format!(
        "\n| pods | objects | first graph, ms | read again, ms | RSS MiB: before, then, most | changes | over 1 ms | mean, µs | updates | CPU s | load |\n|---|---|---|---|---|---|---|---|---|---|---|\n| {} | {} | {:.0} | {:.0} | {:.1}, {:.1}, {:.1} | {} | {} | {:.0} | {} | {:.2} | {} |\n",
        one.pods,
        one.objects,
        one.first_ms,
        one.second_ms,
        mib(one.rss_before),
        mib(one.rss_first),
        mib(one.rss_max),
        one.changes,
        one.slow,
        one.mean_micros,
        one.updates,
        one.cpu_seconds,
        one.load_average,
    )
}

#[expect(clippy::cast_precision_loss, reason = "only printed")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
