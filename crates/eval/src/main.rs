//! `cargo xtask eval --live`: recorded faults, rebuilt on a real API server, and what the
//! server says about them.
//!
//! ```text
//!  case ──▶ World ──▶ Lane: POST, DELETE, PATCH ──▶ kube-apiserver ──▶ kubecrier ──▶ faults_list
//!           (times of now)                                │                             │
//!                                                         └──▶ incidents of State ──▶ Score
//! ```
//!
//! - `world`: what is in the cluster of a case
//! - `rebuild`: an API server that takes it, and forgets it
//! - `server`: the server under test
//! - `answer`: which objects a text accuses

#![expect(clippy::print_stdout, reason = "its output")]

mod answer;
mod rebuild;
mod server;
mod world;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Parser;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use kubecrier_incidents::{
    State,
    eval::{Answer, Case, Score, Scores, faults_list, load},
    telling_line,
};
use parking_lot::Mutex;
use testbed::{Binaries, Kubeconfig, User};
use tokio::time::{Instant, sleep};

use crate::{
    rebuild::Lane,
    server::Server,
    world::{Reader, World},
};

/// From the last write to the question: what an agent may take to ask.
const SETTLE: Duration = Duration::from_secs(1);

/// Rebuilds recorded cases on a real API server, and scores what the server says about them.
#[derive(Parser)]
struct Args {
    /// The server's binary
    #[arg(long)]
    server: PathBuf,
    /// Take so many cases, evenly spread over all
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// API servers that run side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    lanes: usize,
    /// Show what was said where it was not good
    #[arg(short, long)]
    verbose: bool,
    /// Only cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folders of cases; those of the project unless given
    folders: Vec<PathBuf>,
}

/// A case, and where it is from.
struct Job {
    folder: usize,
    path: PathBuf,
    case: Case,
}

/// What was said about a case.
struct Outcome {
    folder: usize,
    asked: Instant,
    server: Score,
    state: Score,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let began = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../incidents/cases");
    let folders = match &*args.folders {
        [] => vec![root.join("faults"), root.join("healthy")],
        given => given.to_vec(),
    };
    let jobs = jobs(&args, &folders)?;
    let count = jobs.len();
    let binaries = Binaries::prepare(&mut |line| println!("{line}"))?;
    let (queue, outcomes) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let lanes = (0..args.lanes.clamp(1, count.max(1)))
        .map(|lane| run(lane, &binaries, &args, &queue, &outcomes));
    try_join_all(lanes).await?;
    let outcomes = outcomes.into_inner();
    println!("| cases | answer | top-1 | any | cause | accused | bytes p50 / p90 |");
    println!("|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        let of_folder = || outcomes.iter().filter(|outcome| outcome.folder == index);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let state = Scores(of_folder().map(|outcome| outcome.state.clone()).collect());
        let server = Scores(of_folder().map(|outcome| outcome.server.clone()).collect());
        println!("| {} {name} | faults_list | {server} |", server.0.len());
        println!(
            "| {} {name} | incidents of what is read back | {state} |",
            state.0.len()
        );
        if server.0.iter().any(|score| score.is_fault) {
            missed.extend(server.below_bars());
        } else if server.accused() > 0.0 {
            missed.push("somebody is accused in a healthy cluster");
        }
    }
    println!("{count} cases in {:.0} s", began.elapsed().as_secs_f64());
    for bar in &missed {
        println!("missed: {bar}");
    }
    Ok(if missed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The cases that are to be run. Reading all of them takes longer than running a few, so those
/// are linked into a folder of their own.
fn jobs(args: &Args, folders: &[PathBuf]) -> Result<Vec<Job>> {
    let mut all = Vec::new();
    for (folder, path) in folders.iter().enumerate() {
        let listed = fs::read_dir(path).with_context(|| path.display().to_string())?;
        for file in listed {
            let file = file?.path();
            let name = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if args.only.as_deref().is_none_or(|text| name.contains(text)) {
                all.push((folder, file));
            }
        }
    }
    all.sort();
    let count = args.sample.unwrap_or(all.len()).min(all.len());
    let kept: Vec<_> = (0..count)
        .map(|index| &all[index * all.len() / count])
        .collect();
    let chosen = tempfile::tempdir()?;
    let mut jobs = Vec::new();
    for (folder, path) in folders.iter().enumerate() {
        let behind = path.parent().unwrap_or(path).join("background");
        let links = chosen.path().join(folder.to_string());
        fs::create_dir_all(links.join("cases"))?;
        symlink(fs::canonicalize(behind)?, links.join("background"))?;
        for (_, file) in kept.iter().filter(|(of, _)| *of == folder) {
            let name = file.file_name().unwrap_or_default();
            symlink(fs::canonicalize(file)?, links.join("cases").join(name))?;
        }
        let cases = load(&links.join("cases"))?.into_iter();
        jobs.extend(cases.map(|case| Job {
            folder,
            path: path.clone(),
            case,
        }));
    }
    Ok(jobs)
}

/// Runs cases on one API server until none is left.
async fn run(
    lane: usize,
    binaries: &Binaries,
    args: &Args,
    queue: &Mutex<Vec<Job>>,
    outcomes: &Mutex<Vec<Outcome>>,
) -> Result<()> {
    let name = format!("lane-{lane}");
    let lane = Lane::start(&name, binaries).await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    Kubeconfig::new()
        .context(&name, lane.cluster(), User::Admin)
        .current(&name)
        .write(&kubeconfig)?;
    let mut server = Server::start(&args.server, &kubeconfig).await?;
    let mut reader = Reader::default();
    let mut ahead = SETTLE;
    loop {
        let next = queue.lock().pop();
        let Some(job) = next else {
            return Ok(());
        };
        let mut world = reader.read(&job.path, &job.case.name)?;
        // The moment of the case is when the question is asked.
        world.move_to(job.case.now, Timestamp::now() + ahead);
        let began = Instant::now();
        let outcome = outcome(&lane, &mut server, &job, &world, args.verbose)
            .await
            .with_context(|| format!("cannot run {}", job.case.name))?;
        ahead = outcome.asked.duration_since(began);
        outcomes.lock().push(outcome);
        lane.clear().await?;
    }
}

async fn outcome(
    lane: &Lane,
    server: &mut Server,
    job: &Job,
    world: &World,
    is_verbose: bool,
) -> Result<Outcome> {
    let case = &job.case;
    let refused = lane.rebuild(world).await?;
    sleep(SETTLE).await;
    let asked = Instant::now();
    let text = server.call("faults_list").await?;
    let said = answer::read(&text);
    let mut as_read = case.clone();
    as_read.state = state(lane.read_back().await?, world)?;
    as_read.now = Timestamp::now();
    let found = faults_list(&as_read);
    let outcome = Outcome {
        folder: job.folder,
        asked,
        server: said.score(case),
        state: found.score(case),
    };
    for line in refused {
        println!("{}: refused: {line}", case.name);
    }
    if is_verbose {
        explain(case, "faults_list", &said, &outcome.server);
        explain(
            case,
            "incidents of what is read back",
            &found,
            &outcome.state,
        );
    }
    Ok(outcome)
}

/// What was read, as a server with all rights keeps it.
fn state(objects: Vec<serde_json::Value>, world: &World) -> Result<State> {
    let mut state = State::default();
    for object in objects {
        state.apply_json(object)?;
    }
    state.set_all_known();
    for (container, logs) in &world.logs {
        let text = logs.previous.as_deref().or(logs.current.as_deref());
        let mut parts = container.splitn(3, '/');
        if let (Some(namespace), Some(pod), Some(container), Some(line)) = (
            parts.next(),
            parts.next(),
            parts.next(),
            text.and_then(telling_line),
        ) {
            state.set_log_line(namespace, pod, container, line);
        }
    }
    Ok(state)
}

/// Shows an answer that is not good, and what is true.
fn explain(case: &Case, who: &str, answer: &Answer, score: &Score) {
    if score.is_good() {
        return;
    }
    let Score {
        top,
        any,
        cause,
        accused,
        ..
    } = score;
    println!("\n{} ({}), {who}: {}", case.name, case.class, case.title);
    println!("  truth {} {:?}", case.truth.object, case.truth.words);
    println!("  top {top} any {any} cause {cause} accused {accused:?}");
    for line in &answer.lines {
        println!("  | {}", line.text);
    }
}
