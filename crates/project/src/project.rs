//! The project as it is served: the current snapshot, and when it is refreshed.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    hook::{self, HookResult},
    item::{ItemKind, Rejection, Snapshot},
    mcp_bash::McpBash,
    process::{Environment, Runner},
    scan::{ReservedNames, Scanner},
};
use kubecrier_lifecycle::Lifecycle;

/// The time between two polls, however many requests trigger one.
pub(super) const POLL_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The size of the output of an executable, in bytes.
const OUTPUT_MAX: usize = 10 << 20;
/// The number of rejections that one pass logs and `/stats` shows.
const REPORTED_MAX: usize = 100;

/// Configures a project.
#[derive(Clone, Debug)]
pub struct Config {
    /// The project folder.
    pub root: PathBuf,
    /// Whether `server.d/register.sh` may run.
    pub allow_hook: bool,
    /// The age at which a snapshot is stale, where no file-system event says so earlier.
    pub ttl: Duration,
    /// The age at which the hook's registration is stale.
    pub hook_ttl: Duration,
    /// The number of executables that run at once.
    pub processes_max: usize,
    /// The environment variables of the server that executables inherit.
    pub passed: Vec<String>,
}

/// Serves a project folder. Clones share it.
#[derive(Clone, Debug)]
pub struct Project {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Config,
    mcp_bash: Option<McpBash>,
    runner: Runner,
    // A lock because list requests, the folder watch and the poll all scan; held for one
    // pass, on a thread that may block.
    scanner: Mutex<Scanner>,
    state: Mutex<State>,
    current: watch::Sender<Arc<Snapshot>>,
    poll_requested: Notify,
    scans: AtomicU64,
    hooks: AtomicU64,
    polls: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// A file changed since the last pass began.
    dirty: bool,
    scanned: Option<Instant>,
    polled: Option<Instant>,
    hooked: Option<Instant>,
    hook: HookResult,
    /// Rejections that were logged, so that each is logged once.
    reported: HashSet<Rejection>,
}

// === impl Project ===

impl Project {
    /// A project that was not scanned yet. `validate` checks whether the protocol can
    /// express a definition.
    pub fn new(
        config: Config,
        reserved: ReservedNames,
        validate: fn(ItemKind, &Value) -> Result<(), String>,
        lifecycle: &Lifecycle,
    ) -> Self {
        let runner = Runner::new(lifecycle.clone(), config.processes_max, OUTPUT_MAX);
        let mcp_bash = McpBash::passed(&config.passed);
        let home = mcp_bash.as_ref().map(|found| found.home().to_owned());
        let scanner = Scanner::new(config.root.clone(), reserved, validate).with_mcp_bash(home);
        let (current, _) = watch::channel(Arc::new(Snapshot::empty()));
        Self {
            inner: Arc::new(Inner {
                config,
                mcp_bash,
                runner,
                scanner: Mutex::new(scanner),
                state: Mutex::default(),
                current,
                poll_requested: Notify::new(),
                scans: AtomicU64::new(0),
                hooks: AtomicU64::new(0),
                polls: AtomicU64::new(0),
            }),
        }
    }

    /// The snapshot of the last pass.
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.inner.current.borrow())
    }

    /// Subscribes to the snapshots of all passes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.inner.current.subscribe()
    }

    pub(super) fn config(&self) -> &Config {
        &self.inner.config
    }

    pub(super) fn runner(&self) -> &Runner {
        &self.inner.runner
    }

    /// The environment of every executable of the project.
    pub(super) fn environment(&self) -> Environment {
        let root = self.inner.config.root.as_os_str();
        let environment = Environment::inherited(&self.inner.config.passed)
            .with("KUBECRIER_PROJECT_ROOT", root)
            .with("MCPBASH_PROJECT_ROOT", root);
        match &self.inner.mcp_bash {
            Some(installed) => installed.extend(environment),
            None => environment,
        }
    }

    /// Rescans the folder if it was invalidated or the snapshot is stale, and runs the hook
    /// if its registration is stale. Each has its own clock, so neither keeps the other from
    /// running.
    pub async fn refresh(&self) -> Arc<Snapshot> {
        if self.hook_is_due() {
            let hook = hook::run(self).await;
            self.inner.hooks.fetch_add(1, Ordering::Relaxed);
            let mut state = self.inner.state.lock();
            let new = hook.or_last(&state.hook);
            state.dirty |= new != state.hook;
            state.hook = new;
        }
        let due = {
            let mut state = self.inner.state.lock();
            let fresh = |at: Instant| at.elapsed() < self.inner.config.ttl;
            let due = state.dirty || !state.scanned.is_some_and(fresh);
            if due {
                // Before the pass, so that a change during it makes the state dirty again.
                state.dirty = false;
                state.scanned = Some(Instant::now());
            }
            due
        };
        if due {
            let inner = Arc::clone(&self.inner);
            let pass = tokio::task::spawn_blocking(move || inner.scan());
            if let Err(error) = pass.await {
                tracing::error!(%error, "looking at the project folder failed, what was there stays");
            }
        }
        self.current()
    }

    fn hook_is_due(&self) -> bool {
        if !self.inner.config.allow_hook {
            return false;
        }
        let mut state = self.inner.state.lock();
        let fresh = |at: Instant| at.elapsed() < self.inner.config.hook_ttl;
        let due = !state.hooked.is_some_and(fresh);
        if due {
            state.hooked = Some(Instant::now());
        }
        due
    }

    /// Refreshes at most once a second.
    pub async fn poll(&self) {
        {
            let mut state = self.inner.state.lock();
            if state
                .polled
                .is_some_and(|at| at.elapsed() < POLL_INTERVAL_MIN)
            {
                return;
            }
            state.polled = Some(Instant::now());
        }
        self.inner.polls.fetch_add(1, Ordering::Relaxed);
        self.refresh().await;
    }

    /// Makes the next refresh scan the folder, and run the hook too if its files changed.
    pub(super) fn invalidate(&self, hook_too: bool) {
        let mut state = self.inner.state.lock();
        state.dirty = true;
        if hook_too {
            state.hooked = None;
        }
    }

    /// Requests a poll, after a client's request was served.
    pub fn request_poll(&self) {
        self.inner.poll_requested.notify_one();
    }

    pub(super) async fn poll_requested(&self) {
        self.inner.poll_requested.notified().await;
    }

    /// Statistics for operators.
    pub fn stats(&self) -> Value {
        let now = self.current();
        let rejected: Vec<_> = now.rejections.iter().take(REPORTED_MAX).collect();
        json!({
            "root": self.inner.config.root.display().to_string(),
            "tools": now.tools.len(),
            "resources": now.resources.len(),
            "resourceTemplates": now.templates.len(),
            "prompts": now.prompts.len(),
            "scans": self.inner.scans.load(Ordering::Relaxed),
            "polls": self.inner.polls.load(Ordering::Relaxed),
            "hookRuns": self.inner.hooks.load(Ordering::Relaxed),
            "processesRunning": self.inner.runner.running(),
            "refusedCount": now.rejections.len(),
            "refused": rejected,
        })
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.inner.scans), load(&self.inner.hooks))
    }
}

// === impl Inner ===

impl Inner {
    /// Runs one pass and publishes its snapshot while the scanner is locked, so that
    /// snapshots are published in the order of the passes.
    fn scan(&self) {
        let mut scanner = self.scanner.lock();
        let mut hook = self.state.lock().hook.clone();
        if !self.config.allow_hook {
            hook.rejection = hook::not_allowed(&self.config.root);
        }
        let found = scanner.scan(&hook);
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.current.send_replace(Arc::clone(&found));
        // After the snapshot is published: a reader of the log may use the item at once.
        self.log_rejections(&found);
    }

    /// Logs each new rejection once, and when a file is no longer rejected.
    fn log_rejections(&self, found: &Snapshot) {
        let now: HashSet<_> = found.rejections.iter().cloned().collect();
        let mut state = self.state.lock();
        let fresh: Vec<_> = now.difference(&state.reported).take(REPORTED_MAX).collect();
        for Rejection { path, reason, .. } in &fresh {
            tracing::warn!(path, reason, "not served from the project folder");
        }
        let left = now.difference(&state.reported).count() - fresh.len();
        if left > 0 {
            tracing::warn!(
                left,
                "more files of the project folder are not served, see /stats"
            );
        }
        for Rejection { path, .. } in state.reported.difference(&now).take(REPORTED_MAX) {
            tracing::info!(path, "no longer refused in the project folder");
        }
        state.reported = now;
    }
}

#[cfg(test)]
mod tests;
