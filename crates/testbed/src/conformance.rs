//! The official conformance suite, run against the server as it is released. The tools,
//! resources and prompts that it asks for are those of a project folder.
//!
//! The suite itself decides: its file of expected failures lists what may fail, and an
//! entry that passes fails the run too. This module installs the suite, runs it and counts.

mod verdict;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use self::verdict::Verdict;
use crate::{
    Kubeconfig, Missing, Progress, cache,
    guard::{Guard, Spec},
    install,
};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance");
/// What the suite asks a server for, as tools, resources and prompts of a project.
const PROJECT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../kubecrier/tests/it/projects/conformance"
);

/// A run takes seconds; this bounds one that hangs.
const RUN_MAX: Duration = Duration::from_mins(5);
const START_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(15);

/// A revision of the protocol and the runs of the suite that test it.
struct Revision {
    date: &'static str,
    /// The folder of that version of the suite, as `package.json` names it.
    package: &'static str,
    runs: &'static [&'static [&'static str]],
}

const REVISIONS: [Revision; 2] = [
    Revision {
        date: "2025-11-25",
        package: "conformance-released",
        runs: &[&["--suite", "all", "--spec-version", "2025-11-25"]],
    },
    Revision {
        date: "2026-07-28",
        package: "conformance-next",
        // The requirements of the revision, and the scenarios that its list runs without
        // a verdict because the suite's own example cannot pass them.
        runs: &[
            &["--requirements", "2026-07-28"],
            &["--suite", "pending", "--spec-version", "2026-07-28"],
        ],
    },
];

/// The installed suite, both versions, with a Node that is new enough.
pub struct Suite {
    modules: PathBuf,
}

// === impl Suite ===

impl Suite {
    /// Installs the suite if it is not there yet.
    pub fn prepare(progress: Progress<'_>) -> Result<Self> {
        let sources = Path::new(SOURCES);
        let target = install::folder("conformance", &sources.join("package-lock.json"))?;
        if !target.is_dir() {
            if !install::is_there("npm") {
                return Err(Missing(
                    "the official conformance suite is not installed; install Node 20 or newer \
                     with npm, then run `cargo xtask conformance`"
                        .to_owned(),
                )
                .into());
            }
            progress("installing the official conformance suite (once per machine)");
            cache::fill(&target, |staging| install::from_npm(sources, staging))
                .context("cannot install the official conformance suite from npm")?;
        }
        let suite = Self {
            modules: target.join("node_modules"),
        };
        if !suite.node().exists() {
            return Err(Missing(format!(
                "npm has no Node 22 for this machine; add its package to `{SOURCES}/package.json`"
            ))
            .into());
        }
        Ok(suite)
    }

    /// A command that runs a script of this project with the folder of the suite's packages
    /// as argument: they contain the published schemas.
    pub fn script(script: &Path) -> Result<std::process::Command, Missing> {
        let list = Path::new(SOURCES).join("package-lock.json");
        let target = install::folder("conformance", &list);
        let suite = Self {
            modules: (target.map_err(|error| Missing(error.to_string()))?).join("node_modules"),
        };
        if !suite.node().exists() {
            return Err(Missing(
                "the official conformance suite is not installed; run `cargo xtask conformance`"
                    .to_owned(),
            ));
        }
        let mut command = std::process::Command::new(suite.node());
        command.arg(script).arg(&suite.modules);
        Ok(command)
    }

    /// Runs both revisions against the server; an unexpected result is an error. The full
    /// output of the suite is written to `logs`.
    pub async fn run(
        &self,
        server: &Path,
        kubeconfig: &Kubeconfig,
        logs: &Path,
        progress: Progress<'_>,
    ) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let kubeconfig = kubeconfig.write(&scratch.path().join("kubeconfig"))?;
        let project = scratch.path().join("project");
        copy(Path::new(PROJECT), &project).with_context(|| format!("cannot copy `{PROJECT}`"))?;
        let (guard, url) = start(server, &project, kubeconfig, scratch.path()).await?;
        let mut surprises = Vec::new();
        for revision in &REVISIONS {
            let version = self.version(revision)?;
            let name = format!("{} (suite {version})", revision.date);
            progress(&format!("{name} against {url}"));
            let log = logs.join(format!("conformance-{}.log", revision.date));
            let verdict = self.judge(revision, &url, &log).await?;
            progress(&format!("{name}: {verdict}"));
            for surprise in verdict.surprises() {
                progress(&format!("  {surprise}"));
            }
            if !verdict.as_expected() {
                surprises.push(format!("{}: see `{}`", revision.date, log.display()));
            }
        }
        guard.signal(Signal::TERM)?;
        guard.wait(STOP_MAX)?;
        if !surprises.is_empty() {
            bail!("not as expected: {}", surprises.join("; "));
        }
        Ok(())
    }

    async fn judge(&self, revision: &Revision, url: &str, log: &Path) -> Result<Verdict> {
        let expected = revision.expected();
        let mut verdict = Verdict::default();
        let mut transcript = String::new();
        for run in revision.runs {
            let mut command = Command::new(self.node());
            command
                .arg(self.package(revision).join("dist/index.js"))
                .args(["server", "--url", url, "--expected-failures", &expected])
                .args(*run)
                .kill_on_drop(true);
            let done = timeout(RUN_MAX, command.output())
                .await
                .with_context(|| format!("the suite still runs after {RUN_MAX:?}: {command:?}"))?
                .with_context(|| format!("cannot start {command:?}"))?;
            let output = String::from_utf8_lossy(&done.stdout);
            transcript.push_str(&output);
            transcript.push_str(&String::from_utf8_lossy(&done.stderr));
            fs::write(log, &transcript)
                .with_context(|| format!("cannot write `{}`", log.display()))?;
            verdict
                .add(&output, done.status.success())
                .with_context(|| format!("the suite did not finish: see `{}`", log.display()))?;
        }
        Ok(verdict)
    }

    fn node(&self) -> PathBuf {
        self.modules.join(".bin/node")
    }

    fn package(&self, revision: &Revision) -> PathBuf {
        self.modules.join(revision.package)
    }

    fn version(&self, revision: &Revision) -> Result<String> {
        let manifest = fs::read(self.package(revision).join("package.json"))?;
        let manifest: serde_json::Value = serde_json::from_slice(&manifest)?;
        let version = manifest["version"].as_str();
        Ok(version.context("the suite has no version")?.to_owned())
    }
}

// === impl Revision ===

impl Revision {
    /// The file of expected failures.
    fn expected(&self) -> String {
        format!("{SOURCES}/expected-{}.yaml", self.date)
    }
}

/// Copies a folder, with the permissions that a server wants of a project, whatever the umask
/// of the checkout was.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?.path();
        let target = to.join(entry.file_name().context("an entry without a name")?);
        if entry.is_dir() {
            copy(&entry, &target)?;
        } else {
            fs::copy(&entry, &target)?;
            let mode = fs::metadata(&entry)?.permissions().mode() & 0o755;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// Starts the server with the project and a clean environment; returns its URL too. Besides its
/// defaults, it lets clients poll for answers that take long, as the suite wants to see it once.
async fn start(
    server: &Path,
    project: &Path,
    kubeconfig: PathBuf,
    scratch: &Path,
) -> Result<(Guard, String)> {
    let log = scratch.join("server.log");
    let flags = [
        "--port",
        "0",
        "--poll-answers-after",
        // The suite polls once: the answer of its slow tool has to come while it waits.
        "3s",
        "--project-root",
    ];
    let flags = flags.map(OsString::from);
    let args = [OsString::from("-i"), server.into()]
        .into_iter()
        .chain(flags)
        .chain([project.into(), "--kubeconfig".into(), kubeconfig.into()]);
    let guard = Guard::start(&Spec {
        program: Path::new("env"),
        args: args.collect(),
        clear: None,
        log: log.clone(),
    })?;
    let began = Instant::now();
    loop {
        if let Some(url) = url_in(&fs::read_to_string(&log).unwrap_or_default()) {
            return Ok((guard, url));
        }
        if guard.exited() || began.elapsed() > START_MAX {
            bail!(
                "`{}` does not say where it listens:\n{}",
                server.display(),
                guard.log_tail()
            );
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The address in a complete line of the log.
fn url_in(log: &str) -> Option<String> {
    let line = log
        .split_inclusive('\n')
        .find(|line| line.ends_with('\n') && line.contains("serving MCP over HTTP"))?;
    let url = line.split_once("url=")?.1.split_whitespace().next()?;
    Some(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_a_whole_line() {
        let line = "INFO serving MCP over HTTP version=\"1\" url=http://127.0.0.1:4430/mcp";
        assert_eq!(url_in(line), None, "there may be more of it to come");
        let whole = format!("INFO other url=x\n{line}\n");
        assert_eq!(url_in(&whole).as_deref(), Some("http://127.0.0.1:4430/mcp"));
    }

    #[test]
    fn every_expected_failure_is_a_feature_that_is_missing() {
        for revision in &REVISIONS {
            let text = fs::read_to_string(revision.expected()).unwrap();
            let entries: Vec<_> = text.lines().filter(|line| line.contains("- ")).collect();
            assert!(entries.len() > 3);
            for entry in entries {
                let reason = entry.split_once(" # ").map_or("", |(_, reason)| reason);
                assert!(reason.starts_with("this server does not offer "), "{entry}");
            }
        }
    }

    #[test]
    fn the_lock_file_names_no_host() {
        let lock = fs::read_to_string(format!("{SOURCES}/package-lock.json")).unwrap();
        assert!(lock.contains("\"integrity\"") && !lock.contains("\"resolved\""));
    }
}
