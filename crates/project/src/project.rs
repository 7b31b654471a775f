//! The project as the server has it: what is in the folder now, looked at again
//! when it may have changed.

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
    hook::{self, Hook},
    item::{Kind, Refusal, Snapshot},
    process::{Environment, Runner},
    scan::{Reserved, Scanner},
};
use kubecrier_lifecycle::Lifecycle;

/// A poll at most so often, however many requests ask for one.
pub(super) const POLL_GATE: Duration = Duration::from_secs(1);
/// What an executable may print.
const OUTPUT_MAX: usize = 10 << 20;
/// Refusals that are logged of one pass, and shown in `/stats`.
const SHOWN_MAX: usize = 100;

/// Settings of this room.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder.
    pub root: PathBuf,
    /// Whether `server.d/register.sh` may run.
    pub allow_hook: bool,
    /// How long a look at the folder is good for where nothing says that it changed.
    pub ttl: Duration,
    /// How long the hook's words are good for.
    pub hook_ttl: Duration,
    /// Executables that run at once.
    pub processes_max: usize,
    /// Variables of our own environment that they get.
    pub passed: Vec<String>,
}

/// A project that is served. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Project {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Config,
    runner: Runner,
    // A lock because list calls, the watch and the poll all come here; held for one
    // pass, on a thread that may block.
    scanner: Mutex<Scanner>,
    state: Mutex<State>,
    current: watch::Sender<Arc<Snapshot>>,
    /// A request was dispatched.
    asked: Notify,
    scans: AtomicU64,
    hooks: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Something changed since the last pass began.
    dirty: bool,
    scanned: Option<Instant>,
    polled: Option<Instant>,
    hooked: Option<Instant>,
    hook: Hook,
    /// What has been reported, so that it is said once.
    reported: HashSet<Refusal>,
}

// === impl Project ===

impl Project {
    /// Looks at nothing yet. `accepts` says whether clients could be shown a
    /// definition.
    pub fn new(
        config: Config,
        reserved: Reserved,
        accepts: fn(Kind, &Value) -> Result<(), String>,
        lifecycle: &Lifecycle,
    ) -> Self {
        let runner = Runner::new(lifecycle.clone(), config.processes_max, OUTPUT_MAX);
        let scanner = Scanner::new(config.root.clone(), reserved, accepts);
        let (current, _) = watch::channel(Arc::new(Snapshot::unknown()));
        Self {
            inner: Arc::new(Inner {
                config,
                runner,
                scanner: Mutex::new(scanner),
                state: Mutex::default(),
                current,
                asked: Notify::new(),
                scans: AtomicU64::new(0),
                hooks: AtomicU64::new(0),
            }),
        }
    }

    /// What was there when it was last looked at.
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.inner.current.borrow())
    }

    /// Hears of every pass.
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
        Environment::inherited(&self.inner.config.passed)
            .with("KUBECRIER_PROJECT_ROOT", root)
            .with("MCPBASH_PROJECT_ROOT", root)
    }

    /// Looks again where something may have changed: at the folder when somebody
    /// said so or the look is too old, at the hook when its own time is up. Each
    /// has its own clock, so neither keeps the other from running.
    pub async fn refresh(&self) -> Arc<Snapshot> {
        if self.hook_is_due() {
            let hook = hook::run(self).await;
            self.inner.hooks.fetch_add(1, Ordering::Relaxed);
            let mut state = self.inner.state.lock();
            let new = hook.after(&state.hook);
            state.dirty |= new != state.hook;
            state.hook = new;
        }
        let due = {
            let mut state = self.inner.state.lock();
            let fresh = |at: Instant| at.elapsed() < self.inner.config.ttl;
            let due = state.dirty || !state.scanned.is_some_and(fresh);
            if due {
                // Before the pass: what changes during it makes it dirty again.
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

    /// The same, at most once a second.
    pub async fn poll(&self) {
        {
            let mut state = self.inner.state.lock();
            if state.polled.is_some_and(|at| at.elapsed() < POLL_GATE) {
                return;
            }
            state.polled = Some(Instant::now());
        }
        self.refresh().await;
    }

    /// Something changed: the next refresh looks.
    pub(super) fn touch(&self, hook_too: bool) {
        let mut state = self.inner.state.lock();
        state.dirty = true;
        if hook_too {
            state.hooked = None;
        }
    }

    /// A request was dispatched: a poll follows it.
    pub fn dispatched(&self) {
        self.inner.asked.notify_one();
    }

    pub(super) async fn asked(&self) {
        self.inner.asked.notified().await;
    }

    /// For those who run the server.
    pub fn stats(&self) -> Value {
        let now = self.current();
        let refused: Vec<_> = now.refusals.iter().take(SHOWN_MAX).collect();
        json!({
            "root": self.inner.config.root.display().to_string(),
            "tools": now.tools.len(),
            "resources": now.resources.len(),
            "resourceTemplates": now.templates.len(),
            "prompts": now.prompts.len(),
            "scans": self.inner.scans.load(Ordering::Relaxed),
            "hookRuns": self.inner.hooks.load(Ordering::Relaxed),
            "processesRunning": self.inner.runner.running(),
            "refusedCount": now.refusals.len(),
            "refused": refused,
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
    /// One pass, published while the scanner is held: a later pass is published
    /// later.
    fn scan(&self) {
        let mut scanner = self.scanner.lock();
        let mut hook = self.state.lock().hook.clone();
        if !self.config.allow_hook {
            hook.refusal = hook::is_idle(&self.config.root);
        }
        let found = scanner.scan(&hook);
        self.scans.fetch_add(1, Ordering::Relaxed);
        self.current.send_replace(Arc::clone(&found));
        // After it is there: whoever reads that something is served again may call it.
        self.report(&found);
    }

    /// Says what is refused, once, and when it no longer is.
    fn report(&self, found: &Snapshot) {
        let now: HashSet<_> = found.refusals.iter().cloned().collect();
        let mut state = self.state.lock();
        let fresh: Vec<_> = now.difference(&state.reported).take(SHOWN_MAX).collect();
        for Refusal { path, reason } in &fresh {
            tracing::warn!(path, reason, "not served from the project folder");
        }
        let left = now.difference(&state.reported).count() - fresh.len();
        if left > 0 {
            tracing::warn!(
                left,
                "more files of the project folder are not served, see /stats"
            );
        }
        for Refusal { path, .. } in state.reported.difference(&now).take(SHOWN_MAX) {
            tracing::info!(path, "no longer refused in the project folder");
        }
        state.reported = now;
    }
}

#[cfg(test)]
mod tests;
