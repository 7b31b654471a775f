//! `cargo xtask bench start`: from the start of the program to its first answer on stdio, and
//! how large the program is.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
    time::{Duration, Instant, timeout},
};

use crate::{
    bed, print_line,
    report::{Bar, Bars, millis},
    server::binary,
    verdict::Percentiles,
};

/// The median from starting the program to its answer to `tools/list`.
const START_MS: f64 = 50.0;
/// The program that is given to users, in MB.
const PROGRAM_MB: f64 = 25.0;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct StartArgs {
    /// The program; the one that was built for release by default
    #[arg(long)]
    program: Option<PathBuf>,
    /// Whether the program is one that is given to users (`cargo xtask dist`), whose size has a
    /// bound
    #[arg(long)]
    dist: bool,
    /// How often it is started
    #[arg(long, default_value_t = 40)]
    times: u32,
    /// Where the numbers go for a program; beside this program by default
    #[arg(long)]
    json: Option<PathBuf>,
}

pub(crate) async fn run(args: StartArgs) -> Result<()> {
    let program = match args.program {
        Some(program) => program,
        None => binary()?,
    };
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, KUBECONFIG)?;
    // The first start reads the program from the disk.
    start(&program, &kubeconfig).await?;
    let mut times = Vec::new();
    for _ in 0..args.times {
        times.push(start(&program, &kubeconfig).await?);
    }
    let times = Percentiles::of(times);
    let bytes = std::fs::metadata(&program)?.len();
    #[expect(clippy::cast_precision_loss, reason = "megabytes")]
    let megabytes = bytes as f64 / 1e6;
    print_line(&format!(
        "\n{}: {megabytes:.1} MB; first answer of tools/list after {times} ms (p50 / p99)",
        program.display()
    ));
    let mut bars = vec![Bar::at_most(
        "ms from the start to the first answer, p50",
        millis(times.p50),
        START_MS,
    )];
    if args.dist {
        bars.push(Bar::at_most("MB of the program", megabytes, PROGRAM_MB));
    }
    let bars = Bars(bars);
    print_line(&bars.table());
    let report = json!({"times": times, "bytes": bytes, "bars": bars, "load": bed::load_average()});
    bars.conclude(&report, args.json, "start.json")
}

/// The microseconds until a client that starts the program has the list of its tools.
async fn start(program: &PathBuf, kubeconfig: &PathBuf) -> Result<u64> {
    let began = Instant::now();
    let mut child = Command::new(program)
        .env_clear()
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let client = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    // A client waits for the answer to `initialize`.
    stdin
        .write_all(format!("{}\n", messages[0]).as_bytes())
        .await?;
    let answer = async |id: u64, lines: &mut tokio::io::Lines<_>| {
        loop {
            let line = lines.next_line().await?.context("it has ended")?;
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id {
                return Ok::<_, anyhow::Error>(message);
            }
        }
    };
    timeout(TIMEOUT, answer(1, &mut lines)).await??;
    let rest = format!("{}\n{}\n", messages[1], messages[2]);
    stdin.write_all(rest.as_bytes()).await?;
    let tools = timeout(TIMEOUT, answer(2, &mut lines)).await??;
    let took = began.elapsed();
    ensure!(
        tools["result"]["tools"]
            .as_array()
            .is_some_and(|tools| tools.len() > 5),
        "no tools: {tools}"
    );
    drop(stdin);
    timeout(TIMEOUT, child.wait()).await??;
    Ok(u64::try_from(took.as_micros())?)
}

/// A cluster that is never asked.
const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "none",
"clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
"users": [{"name": "none", "user": {}}],
"contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}]}"#;
