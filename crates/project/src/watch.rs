//! Follows the folder: file-system events where there are any, polling otherwise.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::project::{POLL_GATE, Project};

/// Nothing happened for so long: the editor is done. Longer than it takes to
/// write, rename and chmod.
const SETTLED: Duration = Duration::from_millis(150);
/// Somebody who never stops writing is looked at all the same: a change is seen
/// within a second.
const SETTLED_MAX: Duration = Duration::from_millis(700);
/// The folders whose content counts.
const FOLDERS: [&str; 5] = ["tools", "resources", "prompts", "server.d", "providers"];

/// The watch on a project's folders.
struct Watch {
    root: PathBuf,
    watcher: Option<RecommendedWatcher>,
    signal: Arc<Signal>,
    /// What is watched, and which folder that was: one that was made anew is another.
    watched: HashMap<PathBuf, Identity>,
    complained: bool,
}

/// Numbers of files are given out again; times of birth are not.
type Identity = (u64, u64, Option<SystemTime>);

#[derive(Default)]
struct Signal {
    root: PathBuf,
    happened: Notify,
    /// Whether it was in the folder of the hook.
    hook: AtomicBool,
    /// Whether something was removed or renamed, perhaps a folder that is watched.
    moved: AtomicBool,
}

/// How changes are heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// By events.
    Events,
    /// Not at all: look from time to time.
    Polling,
    /// There is no folder: look often, that costs nothing.
    Missing,
}

/// Keeps the project up to date until told to stop.
pub async fn follow(project: Project, stop: CancellationToken) {
    let ttl = project.config().ttl;
    let mut watch = Watch::new(project.config().root.clone());
    let mut health = Health::Polling;
    let mut confirm: Option<Instant> = None;
    let mut look = true;
    // What changed before there was a watch.
    project.touch(false);
    loop {
        if look {
            // The watch first: what happens after it is heard of, what happened
            // before it is found.
            (watch, health) = match tokio::task::spawn_blocking(move || watch.renewed()).await {
                Ok(renewed) => renewed,
                Err(error) => {
                    tracing::error!(%error, "the watch on the project folder failed, polling");
                    (Watch::new(project.config().root.clone()), Health::Polling)
                }
            };
            project.refresh().await;
        }
        let next = match health {
            Health::Events => confirm,
            Health::Polling => Some(Instant::now() + ttl),
            Health::Missing => Some(Instant::now() + POLL_GATE),
        };
        let timer = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = watch.signal.happened.notified() => {
                watch.signal.settle().await;
                let hook = watch.signal.hook.swap(false, Ordering::AcqRel);
                project.touch(hook);
                // A folder that was just made is watched only from then on: what was
                // put into it meanwhile is found by looking once more.
                confirm = Some(Instant::now() + POLL_GATE);
                look = true;
            }
            () = project.asked() => {
                project.poll().await;
                look = false;
            }
            () = timer => {
                confirm = None;
                project.touch(false);
                look = true;
            }
        }
    }
}

// === impl Watch ===

impl Watch {
    fn new(root: PathBuf) -> Self {
        let signal = Signal {
            root: root.clone(),
            ..Signal::default()
        };
        Self {
            root,
            watcher: None,
            signal: Arc::new(signal),
            watched: HashMap::new(),
            complained: false,
        }
    }

    /// Watches what is there now, and no longer what is not.
    fn renewed(mut self) -> (Self, Health) {
        let health = match self.renew() {
            Ok(health) => health,
            Err(error) => {
                if !self.complained {
                    tracing::warn!(
                        %error,
                        "no file-system events for the project folder, polling it instead \
                         (on Linux, fs.inotify.max_user_watches may be too low)"
                    );
                }
                self.complained = true;
                self.watcher = None;
                self.watched.clear();
                Health::Polling
            }
        };
        (self, health)
    }

    fn renew(&mut self) -> notify::Result<Health> {
        if self.signal.moved.swap(false, Ordering::AcqRel) {
            let (signal, watched) = (Arc::clone(&self.signal), &mut self.watched);
            // Whatever it was, all is watched anew; that costs little and is rare.
            watched.clear();
            self.watcher = Some(watcher(signal)?);
        }
        if self.watcher.is_none() {
            self.watcher = Some(watcher(Arc::clone(&self.signal))?);
            self.watched.clear();
        }
        let root = self.root.clone();
        if !self.keep(&root, RecursiveMode::NonRecursive)? {
            self.watched.clear();
            self.watcher = None;
            return Ok(Health::Missing);
        }
        for folder in FOLDERS {
            self.keep(&root.join(folder), RecursiveMode::Recursive)?;
        }
        Ok(Health::Events)
    }

    /// Watches one folder; false if it is not there.
    fn keep(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<bool> {
        let Some(watcher) = &mut self.watcher else {
            return Ok(false);
        };
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_dir);
        let known = self.watched.get(path).copied();
        let now = meta.map(|meta| (meta.dev(), meta.ino(), meta.created().ok()));
        if now == known {
            return Ok(now.is_some());
        }
        if known.is_some() {
            self.watched.remove(path);
            // The folder is gone, and its watch with it.
            let _gone = watcher.unwatch(path);
        }
        let Some(now) = now else { return Ok(false) };
        match watcher.watch(path, mode) {
            Ok(()) => {
                self.watched.insert(path.to_owned(), now);
                Ok(true)
            }
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn watcher(signal: Arc<Signal>) -> notify::Result<RecommendedWatcher> {
    let hear = move |event: notify::Result<Event>| signal.hear(event);
    let config = notify::Config::default().with_follow_symlinks(false);
    RecommendedWatcher::new(hear, config)
}

// === impl Signal ===

impl Signal {
    /// Runs on the watcher's thread.
    fn hear(&self, event: notify::Result<Event>) {
        let counts = match &event {
            // Our own reading is no change.
            Ok(event) => match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
                EventKind::Access(_) => false,
                _ => true,
            },
            // Something was missed: look.
            Err(_) => true,
        };
        if !counts {
            return;
        }
        let gone = matches!(
            event.as_ref().map(|event| event.kind),
            Ok(EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) | Err(_)
        );
        let top = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            path == &self.root || name.is_some_and(|name| FOLDERS.contains(&name))
        };
        if gone
            && event
                .as_ref()
                .is_ok_and(|event| event.paths.iter().any(top))
        {
            self.moved.store(true, Ordering::Release);
        }
        let in_hook = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "server.d");
        if event.is_ok_and(|event| event.paths.iter().any(in_hook)) {
            self.hook.store(true, Ordering::Release);
        }
        self.happened.notify_one();
    }

    /// Waits until nothing more happens, but not for ever.
    async fn settle(&self) {
        let end = Instant::now() + SETTLED_MAX;
        loop {
            let quiet = end.min(Instant::now() + SETTLED);
            if timeout_at(quiet, self.happened.notified()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_settles_into_one_and_an_endless_one_is_not_waited_for() {
        let signal = Arc::new(Signal::default());
        let began = Instant::now();
        signal.settle().await;
        assert_eq!(began.elapsed().as_millis(), SETTLED.as_millis());
        let busy = async {
            loop {
                signal.happened.notify_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let began = Instant::now();
        tokio::select! {
            () = busy => {}
            () = signal.settle() => {}
        }
        assert!(began.elapsed() <= SETTLED_MAX + Duration::from_millis(1));
    }

    #[tokio::test]
    async fn reading_is_no_change() {
        let signal = Signal::default();
        signal.hear(Ok(event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "tools",
        )));
        let quiet = tokio::time::timeout(Duration::from_millis(1), signal.happened.notified());
        assert!(quiet.await.is_err());
        signal.hear(Ok(event(EventKind::Any, "/p/server.d/register.sh")));
        signal.happened.notified().await;
        assert!(signal.hook.load(Ordering::Acquire));
    }

    async fn happened(watch: &Watch) {
        let happened = watch.signal.happened.notified();
        let heard = tokio::time::timeout(Duration::from_secs(20), happened).await;
        heard.expect("a change is heard of");
        watch.signal.settle().await;
    }

    #[tokio::test]
    async fn folders_are_watched_as_they_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        let (watch, health) = Watch::new(root.clone()).renewed();
        assert_eq!(health, Health::Missing);
        fs::create_dir(&root).unwrap();
        let (watch, health) = watch.renewed();
        assert_eq!(health, Health::Events);
        assert_eq!(watch.watched.len(), 1);
        fs::create_dir(root.join("tools")).unwrap();
        happened(&watch).await;
        let (mut watch, _) = watch.renewed();
        assert_eq!(watch.watched.len(), 2);
        for file in ["tools/x", "tools/y", "tools/z"] {
            fs::write(root.join(file), "").unwrap();
            happened(&watch).await;
            // The new folder may well get the number of the old one.
            fs::remove_dir_all(root.join("tools")).unwrap();
            fs::create_dir(root.join("tools")).unwrap();
            happened(&watch).await;
            (watch, _) = watch.renewed();
        }
        fs::remove_dir_all(&root).unwrap();
        happened(&watch).await;
        assert_eq!(watch.renewed().1, Health::Missing);
    }
}
