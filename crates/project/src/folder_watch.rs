//! Watches the project folder: by file-system events where they work, else by polling.

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

use super::project::{POLL_INTERVAL_MIN, Project};

/// The time without events after which a burst of changes is over. Longer than an editor
/// takes to write, rename and chmod.
const DEBOUNCE: Duration = Duration::from_millis(150);
/// The time after which a burst is scanned even if it goes on, so that a change is seen
/// within a second.
const DEBOUNCE_MAX: Duration = Duration::from_millis(700);
/// The folders with items.
const FOLDERS: [&str; 5] = ["tools", "resources", "prompts", "server.d", "providers"];

/// Watches the folders of a project.
struct FolderWatch {
    root: PathBuf,
    watcher: Option<RecommendedWatcher>,
    signal: Arc<ChangeSignal>,
    /// The watched paths, and which folder each was: one that was recreated is another.
    watched: HashMap<PathBuf, FolderIdentity>,
    has_warned: bool,
}

/// Device, inode and creation time: inodes are reused, creation times are not.
type FolderIdentity = (u64, u64, Option<SystemTime>);

/// Carries events from the watcher's thread to the task.
#[derive(Default)]
struct ChangeSignal {
    root: PathBuf,
    changed: Notify,
    /// A file in the folder of the hook changed.
    hook_changed: AtomicBool,
    /// A watched folder may have been removed or renamed.
    folder_moved: AtomicBool,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchMode {
    /// By file-system events.
    Events,
    /// By a scan each time the snapshot gets stale.
    Polling,
    /// There is no folder: a frequent check costs nothing.
    Missing,
}

/// Refreshes the project when its folder changes, until `stop` is cancelled.
pub async fn watch_folder(project: Project, stop: CancellationToken) {
    let ttl = project.config().ttl;
    let mut watch = FolderWatch::new(project.config().root.clone());
    let mut mode = WatchMode::Polling;
    let mut confirm: Option<Instant> = None;
    let mut rescan = true;
    // The folder may have changed before there was a watch.
    project.invalidate(false);
    loop {
        if rescan {
            // The watch before the scan: later changes cause an event, earlier ones are
            // found by the scan.
            (watch, mode) = match tokio::task::spawn_blocking(move || watch.rewatched()).await {
                Ok(rewatched) => rewatched,
                Err(error) => {
                    tracing::error!(%error, "the watch on the project folder failed, polling");
                    (
                        FolderWatch::new(project.config().root.clone()),
                        WatchMode::Polling,
                    )
                }
            };
            project.refresh().await;
        }
        let next = match mode {
            WatchMode::Events => confirm,
            WatchMode::Polling => Some(Instant::now() + ttl),
            WatchMode::Missing => Some(Instant::now() + POLL_INTERVAL_MIN),
        };
        let timer = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = watch.signal.changed.notified() => {
                watch.signal.debounce().await;
                let hook = watch.signal.hook_changed.swap(false, Ordering::AcqRel);
                project.invalidate(hook);
                // A new folder is watched only from now on: one more scan finds the files
                // that were created in it before.
                confirm = Some(Instant::now() + POLL_INTERVAL_MIN);
                rescan = true;
            }
            () = project.poll_requested() => {
                project.poll().await;
                rescan = false;
            }
            () = timer => {
                confirm = None;
                project.invalidate(false);
                rescan = true;
            }
        }
    }
}

// === impl FolderWatch ===

impl FolderWatch {
    fn new(root: PathBuf) -> Self {
        let signal = ChangeSignal {
            root: root.clone(),
            ..ChangeSignal::default()
        };
        Self {
            root,
            watcher: None,
            signal: Arc::new(signal),
            watched: HashMap::new(),
            has_warned: false,
        }
    }

    /// Watches the folders that exist now, and no longer those that do not.
    fn rewatched(mut self) -> (Self, WatchMode) {
        let mode = match self.rewatch() {
            Ok(mode) => mode,
            Err(error) => {
                if !self.has_warned {
                    tracing::warn!(
                        %error,
                        "no file-system events for the project folder, polling it instead \
                         (on Linux, fs.inotify.max_user_watches may be too low)"
                    );
                }
                self.has_warned = true;
                self.watcher = None;
                self.watched.clear();
                WatchMode::Polling
            }
        };
        (self, mode)
    }

    fn rewatch(&mut self) -> notify::Result<WatchMode> {
        if self.signal.folder_moved.swap(false, Ordering::AcqRel) {
            // All folders are watched anew, whichever it was; that costs little and is rare.
            self.watcher = None;
        }
        if self.watcher.is_none() {
            self.watcher = Some(watcher(Arc::clone(&self.signal))?);
            self.watched.clear();
        }
        let root = self.root.clone();
        if !self.watch_one(&root, RecursiveMode::NonRecursive)? {
            self.watched.clear();
            self.watcher = None;
            return Ok(WatchMode::Missing);
        }
        for folder in FOLDERS {
            self.watch_one(&root.join(folder), RecursiveMode::Recursive)?;
        }
        Ok(WatchMode::Events)
    }

    /// Watches one folder; false if it does not exist.
    fn watch_one(&mut self, path: &Path, mode: RecursiveMode) -> notify::Result<bool> {
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
            // The folder is gone, and the watch of the system with it.
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

fn watcher(signal: Arc<ChangeSignal>) -> notify::Result<RecommendedWatcher> {
    let on_event = move |event: notify::Result<Event>| signal.on_event(event);
    let config = notify::Config::default().with_follow_symlinks(false);
    RecommendedWatcher::new(on_event, config)
}

// === impl ChangeSignal ===

impl ChangeSignal {
    /// Handles an event on the watcher's thread.
    fn on_event(&self, event: notify::Result<Event>) {
        let is_change = match &event {
            // A scan reads the files, which is no change.
            Ok(event) => match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
                EventKind::Access(_) => false,
                _ => true,
            },
            // Events were lost, so anything may have changed.
            Err(_) => true,
        };
        if !is_change {
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
            self.folder_moved.store(true, Ordering::Release);
        }
        let in_hook = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "server.d");
        if event.is_ok_and(|event| event.paths.iter().any(in_hook)) {
            self.hook_changed.store(true, Ordering::Release);
        }
        self.changed.notify_one();
    }

    /// Waits until no more events come, up to a limit.
    async fn debounce(&self) {
        let end = Instant::now() + DEBOUNCE_MAX;
        loop {
            let quiet = end.min(Instant::now() + DEBOUNCE);
            if timeout_at(quiet, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_debounced_up_to_a_limit() {
        let signal = Arc::new(ChangeSignal::default());
        let began = Instant::now();
        signal.debounce().await;
        assert_eq!(began.elapsed().as_millis(), DEBOUNCE.as_millis());
        let busy = async {
            loop {
                signal.changed.notify_one();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let began = Instant::now();
        tokio::select! {
            () = busy => {}
            () = signal.debounce() => {}
        }
        assert!(began.elapsed() <= DEBOUNCE_MAX + Duration::from_millis(1));
    }

    #[tokio::test]
    async fn a_read_is_no_change() {
        let signal = ChangeSignal::default();
        signal.on_event(Ok(event(
            EventKind::Access(AccessKind::Open(AccessMode::Any)),
            "tools",
        )));
        assert!(signal.changed.notified().now_or_never().is_none());
        signal.on_event(Ok(event(EventKind::Any, "/p/server.d/register.sh")));
        signal.changed.notified().await;
        assert!(signal.hook_changed.load(Ordering::Acquire));
    }

    async fn changed(watch: &FolderWatch) {
        let changed = watch.signal.changed.notified();
        let notified = tokio::time::timeout(Duration::from_secs(20), changed).await;
        notified.expect("a change causes an event");
        watch.signal.debounce().await;
    }

    #[tokio::test]
    async fn folders_are_watched_as_they_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        let (watch, mode) = FolderWatch::new(root.clone()).rewatched();
        assert_eq!(mode, WatchMode::Missing);
        fs::create_dir(&root).unwrap();
        let (watch, mode) = watch.rewatched();
        assert_eq!(mode, WatchMode::Events);
        assert_eq!(watch.watched.len(), 1);
        fs::create_dir(root.join("tools")).unwrap();
        changed(&watch).await;
        let (mut watch, _) = watch.rewatched();
        assert_eq!(watch.watched.len(), 2);
        for file in ["tools/x", "tools/y", "tools/z"] {
            fs::write(root.join(file), "").unwrap();
            changed(&watch).await;
            // The new folder may well get the inode of the old one.
            fs::remove_dir_all(root.join("tools")).unwrap();
            fs::create_dir(root.join("tools")).unwrap();
            changed(&watch).await;
            (watch, _) = watch.rewatched();
        }
        fs::remove_dir_all(&root).unwrap();
        changed(&watch).await;
        assert_eq!(watch.rewatched().1, WatchMode::Missing);
    }
}
