//! Real coding agents against a scripted model: does an idle session get its turn when an
//! incident is opened, and how soon? `cargo xtask agents` prints the table of docs/agents.md.
//!
//! For each way in: the files that `kubecrier init --agent` writes, the client as it comes from
//! npm, a server over a real API server, and a pod that breaks once the session is idle. What
//! counts is the request to the model that has the incident's headline.

mod model;
mod terminal;
mod ways;

use std::{fs, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use self::{
    model::Model,
    ways::{Running, Stage, Way},
};
use crate::{Cluster, Kubeconfig, Progress, User, install, namespace, pod};

/// A turn that comes later is none that an agent could act on.
const TURN_MAX: Duration = Duration::from_secs(10);

/// How long a client may take to start and to listen.
const START_MAX: Duration = Duration::from_mins(2);

/// How long a session has nothing to do before something breaks.
const IDLE: Duration = Duration::from_secs(5);

/// How long a turn is waited for; a late one is shown as such.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// What was measured.
struct Row {
    way: Way,
    version: String,
    outcome: Result<f64>,
}

/// Tries the ways in, or those whose agent is named, with a built server. What is installed and
/// what the clients say goes into `folder`.
pub async fn run(
    server: &Path,
    cluster: &Cluster,
    only: &[String],
    folder: &Path,
    progress: Progress<'_>,
) -> Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    let (server, folder) = (server.canonicalize()?, folder.canonicalize()?);
    let ways: Vec<_> = (Way::ALL.into_iter())
        .filter(|way| only.is_empty() || only.iter().any(|name| name == way.agent()))
        .collect();
    let packages: Vec<_> = ways.iter().map(|way| way.package()).collect();
    install_clients(&folder, &packages, progress)?;
    let runs = folder.join("runs");
    if runs.exists() {
        fs::remove_dir_all(&runs)?;
    }
    fs::create_dir_all(&runs)?;
    let kubeconfig = Kubeconfig::new()
        .context("dev", cluster, User::Admin)
        .current("dev");
    let kubeconfig = kubeconfig.write(&runs.join("kubeconfig"))?;
    let model = Model::start()?;
    let (_serving, url) = serve(&server, &kubeconfig, &runs).await?;
    let mut rows = Vec::new();
    for way in ways {
        progress(&format!("{}: {}", way.client(), way.way()));
        let stage = Stage::new(way, &folder, &runs, &server, &url, &model.url())?;
        let version = stage.version().await.unwrap_or_else(|_| "?".to_owned());
        let outcome = try_way(&stage, cluster, &model).await;
        match &outcome {
            Ok(seconds) => progress(&format!("  a turn after {seconds:.1} s")),
            Err(error) => progress(&format!("  {error:#}")),
        }
        rows.push(Row {
            way,
            version,
            outcome,
        });
    }
    let lines = table(&rows);
    let failed =
        |row: &&Row| !matches!(row.outcome, Ok(seconds) if seconds <= TURN_MAX.as_secs_f64());
    if let Some(row) = rows.iter().find(failed) {
        for line in &lines {
            progress(line);
        }
        bail!(
            "{} got no turn within {} s; see `{}`",
            row.way.client(),
            TURN_MAX.as_secs(),
            runs.display()
        );
    }
    Ok(lines)
}

/// Starts the client, lets it be idle, breaks a pod, and waits for the request that tells of it.
async fn try_way(stage: &Stage, cluster: &Cluster, model: &Model) -> Result<f64> {
    let space = format!("agents-{}", stage.name());
    cluster.create_cluster_wide(&namespace(&space)).await?;
    cluster.create(&pod(&space, "web", &["app"])).await?;
    stage.init().await?;
    let observer = observe(stage, &space)?;
    subscribed(stage, 1).await.context("nobody observes")?;
    let mut running: Vec<Running> = Vec::new();
    let outcome = async {
        stage.way().start(stage, model, &mut running).await?;
        subscribed(stage, 2)
            .await
            .context("the client does not listen")?;
        sleep(IDLE).await;
        let broken_at = Timestamp::now();
        break_pod(cluster, &space).await?;
        let headline = headline(observer).await?;
        let told_at = model
            .request_with(&headline, broken_at, WAIT_MAX)
            .await
            .with_context(|| format!("no request has `{headline}`"))?;
        Ok(told_at.duration_since(broken_at).as_secs_f64())
    }
    .await;
    for one in running.into_iter().rev() {
        one.end().await;
    }
    stage.way().tidy(stage).await;
    subscribed(stage, 0).await.context("it still listens")?;
    outcome
}

/// A name that no registry can have is an incident at once.
async fn break_pod(cluster: &Cluster, space: &str) -> Result<()> {
    let waiting =
        json!({"reason": "InvalidImageName", "message": "the name of the image is wrong"});
    let container = json!({"name": "app", "image": "web", "imageID": "", "restartCount": 0,
        "ready": false, "state": {"waiting": waiting}});
    let status = json!({"phase": "Pending", "containerStatuses": [container]});
    cluster.set_pod_status(space, "web", status).await
}

/// Another client of the server, which tells the headline as it was sent.
fn observe(stage: &Stage, space: &str) -> Result<tokio::process::Child> {
    let observer = stage
        .command("kubecrier")
        .args(["watch", "--incidents", "-n", space, "--first", "-o", "json"])
        .args(["--url", stage.url()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    observer.context("cannot start kubecrier")
}

async fn headline(observer: tokio::process::Child) -> Result<String> {
    let output = tokio::time::timeout(WAIT_MAX, observer.wait_with_output());
    let output = output.await.context("no incident was opened")??;
    let told: Value = serde_json::from_slice(&output.stdout).context("the observer saw nothing")?;
    let headline = told["incident"]["headline"].as_str();
    Ok(headline.context("an incident has a headline")?.to_owned())
}

/// Waits until the server has that many subscriptions.
async fn subscribed(stage: &Stage, count: u64) -> Result<()> {
    let address = stage.url().trim_end_matches("/mcp");
    let deadline = Instant::now() + START_MAX;
    loop {
        let stats = reqwest::get(format!("{address}/stats")).await?;
        let stats: Value = serde_json::from_slice(&stats.bytes().await?)?;
        let now = stats["subscriptions"].as_u64();
        if now == Some(count) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{now:?} subscriptions, not {count}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

async fn serve(server: &Path, kubeconfig: &Path, runs: &Path) -> Result<(Running, String)> {
    let log = runs.join("kubecrier.log");
    let mut command = Command::new(server);
    command
        .args(["--port", "0", "--kubeconfig"])
        .arg(kubeconfig)
        .stderr(fs::File::create(&log)?);
    let running = Running::start(command)?;
    let deadline = Instant::now() + START_MAX;
    loop {
        let text = fs::read_to_string(&log)?;
        if let Some((_, rest)) = text.split_once("url=") {
            let url = rest.split_whitespace().next().unwrap_or_default();
            return Ok((running, url.to_owned()));
        }
        ensure!(
            Instant::now() < deadline,
            "the server does not start: {text}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// Installs the clients into the folder, in the versions that were tried.
fn install_clients(folder: &Path, packages: &[&str], progress: Progress<'_>) -> Result<()> {
    let mut wanted = packages.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let list = folder.join("installed");
    let wanted = wanted.join("\n");
    if fs::read_to_string(&list).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    progress("installing the clients from npm");
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    // Their native parts are packages of their own: nothing has to be built.
    let quiet = ["--no-audit", "--no-fund", "--ignore-scripts"];
    let mut npm = std::process::Command::new("npm");
    npm.arg("install").args(quiet).args(wanted.lines());
    install::run(npm.current_dir(folder))?;
    fs::write(list, wanted)?;
    Ok(())
}

fn table(rows: &[Row]) -> Vec<String> {
    let head = [
        "| client | version | way | seconds to the turn |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    let rows = rows.iter().map(|row| {
        let outcome = match &row.outcome {
            Ok(seconds) => format!("{seconds:.1}"),
            Err(error) => format!("none: {error}"),
        };
        let (client, version, way) = (row.way.client(), &row.version, row.way.way());
        format!("| {client} | {version} | {way} | {outcome} |")
    });
    head.into_iter().chain(rows).collect()
}
