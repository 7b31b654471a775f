//! `testbed prepare` gets the control plane's binaries; `testbed up` runs a
//! cluster for a person; `testbed conformance` runs the official suite; `testbed agents`
//! tries the real agents. All are reached through `cargo xtask`.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use testbed::{
    Binaries, Client, Cluster, ControllerBinaries, Crds, GoTool, Keycloak, Kubeconfig, Mcpb,
    Options, Suite, User, Uv,
};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about = "A real etcd and kube-apiserver on loopback")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or build the control plane, and install the MCP clients, the conformance suite, helm,
    /// promtool, Alertmanager, nats-server and uv.
    Prepare,
    /// Get what an interop run needs that is not needed for the tests: keycloak.
    PrepareInterop {
        /// With what.
        with: InteropParty,
    },
    /// Run two clusters until ctrl-c.
    Up {
        /// Where to write the kubeconfig.
        #[arg(long, default_value = "target/testbed.kubeconfig")]
        kubeconfig: PathBuf,
    },
    /// Try the real agents with a scripted model: is an idle session told of an incident?
    Agents {
        /// The server's binary.
        server: PathBuf,
        /// Only these: claude, codex, opencode, copilot, gemini.
        only: Vec<String>,
    },
    /// Run the official conformance suite against a built server.
    Conformance {
        /// The server's binary; the suite's full words go beside it.
        server: PathBuf,
    },
}

/// With what the server is tried, outside of the usual tests.
#[derive(Clone, Copy, clap::ValueEnum)]
enum InteropParty {
    Keycloak,
}

#[expect(clippy::print_stderr, reason = "a tool for people")]
fn print_line(line: &str) {
    eprintln!("testbed: {line}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Args::parse().command {
        Command::Prepare => {
            let binaries = Binaries::prepare(&mut print_line)?;
            print_line(&format!("using {}", binaries.kube_apiserver.display()));
            ControllerBinaries::prepare(&mut print_line)?;
            for client in Client::ALL {
                client.prepare(&mut print_line)?;
            }
            Suite::prepare(&mut print_line)?;
            for tool in GoTool::ALL {
                tool.prepare(&mut print_line)?;
            }
            Crds::prepare(&mut print_line)?;
            Uv::prepare(&mut print_line)?;
            Mcpb::prepare(&mut print_line)?;
        }
        Command::PrepareInterop { with } => {
            Binaries::prepare(&mut print_line)?;
            Client::TypeScript.prepare(&mut print_line)?;
            match with {
                InteropParty::Keycloak => Keycloak::prepare(&mut print_line)?,
            }
        }
        Command::Up { kubeconfig } => up(kubeconfig).await?,
        Command::Agents { server, only } => agents(&server, &only).await?,
        Command::Conformance { server } => conformance(&server).await?,
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is for docs/agents.md")]
async fn agents(server: &Path, only: &[String]) -> Result<()> {
    let binaries = Binaries::prepare(&mut print_line)?;
    let folder = server.parent().unwrap_or(Path::new(".")).join("../agents");
    let cluster = Cluster::start("dev", &binaries, Options::default()).await?;
    let table = testbed::agents::run(server, &cluster, only, &folder, &mut print_line).await?;
    println!("{}", table.join("\n"));
    Ok(())
}

async fn conformance(server: &Path) -> Result<()> {
    let binaries = Binaries::prepare(&mut print_line)?;
    let suite = Suite::prepare(&mut print_line)?;
    let logs = server.parent().unwrap_or(Path::new("."));
    // Scenarios read the listed resources, which are those of a cluster.
    let cluster = Cluster::start("dev", &binaries, Options::default()).await?;
    let kubeconfig = Kubeconfig::new()
        .context("dev", &cluster, User::Reader)
        .current("dev");
    suite.run(server, &kubeconfig, logs, &mut print_line).await
}

async fn up(kubeconfig: PathBuf) -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let binaries = Binaries::prepare(&mut print_line)?;
    print_line("starting the clusters dev and prod");
    let began = tokio::time::Instant::now();
    let both = async {
        tokio::try_join!(
            Cluster::start("dev", &binaries, Options::default()),
            Cluster::start("prod", &binaries, Options::default()),
        )
    };
    let (dev, prod) = tokio::select! {
        started = both => started?,
        // A cluster that has already started ends when this function returns.
        _stop = interrupted.recv() => return Ok(()),
        _stop = terminated.recv() => return Ok(()),
    };
    let file = Kubeconfig::new()
        .context("dev", &dev, User::Admin)
        .context("prod", &prod, User::Admin)
        .context("dev-reader", &dev, User::Reader)
        .context("dev-team-a", &dev, User::TeamA)
        .namespace("team-a")
        .current("dev");
    let path = env::current_dir()?.join(kubeconfig);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    file.write(&path)
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    print_line(&format!(
        "ready after {:.1} s; stop with ctrl-c",
        began.elapsed().as_secs_f64()
    ));
    print_line(&format!("export KUBECONFIG={}", path.display()));
    tokio::select! {
        _stop = interrupted.recv() => {}
        _stop = terminated.recv() => {}
    }
    print_line("stopping");
    drop((dev, prod));
    std::fs::remove_file(&path).ok();
    Ok(())
}
