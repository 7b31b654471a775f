//! A child process that takes commands on stdin, and its CPU time and memory.

use std::{env, fs, process::Stdio};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Duration, timeout},
};

/// An upper bound for every request.
const TIMEOUT: Duration = Duration::from_mins(3);

/// This program in another role; killed on drop.
pub(crate) struct ChildProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    pid: u32,
}

/// CPU time of a process, in seconds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Cpu {
    pub(crate) user: f64,
    pub(crate) system: f64,
}

// === impl ChildProcess ===

impl ChildProcess {
    /// Starts this program with the subcommand of the role.
    pub(crate) fn start(arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start myself")?;
        let pid = child.id().context("it has ended at once")?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Self {
            child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
            pid,
        })
    }

    /// Sends a line.
    pub(crate) async fn send(&mut self, line: &str) -> Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(())
    }

    /// Receives a line.
    pub(crate) async fn receive(&mut self) -> Result<String> {
        match timeout(TIMEOUT, self.stdout.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => bail!("it ended: {:?}", self.child.wait().await),
            Ok(Err(error)) => Err(error.into()),
            Err(_elapsed) => bail!("no answer in {} s", TIMEOUT.as_secs()),
        }
    }

    /// Sends a line and receives one.
    pub(crate) async fn request(&mut self, line: &str) -> Result<String> {
        self.send(line).await?;
        self.receive()
            .await
            .with_context(|| format!("asked `{line}`"))
    }

    /// CPU of the process and all its threads so far, of user and system together.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid)
    }

    /// Resident memory.
    pub(crate) fn rss_bytes(&self) -> Result<u64> {
        rss_bytes(self.pid)
    }
}

/// CPU of a process and all its threads so far, of user and system together.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let Cpu { user, system } = cpu(pid)?;
    Ok(user + system)
}

/// CPU of a process and all its threads so far, in seconds.
pub(crate) fn cpu(pid: u32) -> Result<Cpu> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name may contain spaces; only numbers follow it.
    let (_, fields) = stat.rsplit_once(')').context("no name in /proc/pid/stat")?;
    #[expect(clippy::cast_precision_loss, reason = "hours fit")]
    let mut seconds = fields.split_whitespace().skip(11).map(|ticks| {
        let ticks = ticks.parse::<u64>().unwrap_or_default();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    });
    Ok(Cpu {
        user: seconds.next().unwrap_or_default(),
        system: seconds.next().unwrap_or_default(),
    })
}

/// Resident memory of a process.
pub(crate) fn rss_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

/// Resident memory that a process has allocated: without the pages of its program, which are
/// read when they are first needed and can be dropped at any time.
pub(crate) fn allocated_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "RssAnon:")
}

fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .with_context(|| format!("no {field} in /proc/pid/status"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}
