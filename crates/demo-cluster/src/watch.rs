//! `watch`: changes as they happen, one JSON document per line.

use std::{collections::VecDeque, io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep_until},
};

use crate::{
    request::Query,
    resource::{Resource, Storage},
    selector::Selection,
    shared::{Open, Opened, Shared, Signals},
    status::Refusal,
    store::Store,
    view::View,
};

/// One open watch.
pub(crate) struct Watching {
    shared: Arc<Shared>,
    signals: watch::Receiver<Signals>,
    resource: &'static Resource,
    selection: Selection,
    view: View,
    /// Everything up to this version has been looked at.
    seen: u64,
    waiting: VecDeque<Bytes>,
    next_bookmark: Option<Instant>,
    deadline: Instant,
    /// What was cut or closed before is none of its business.
    began: Signals,
    over: bool,
    _open: Open,
}

/// The API server sends a last bookmark so long before it ends a watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

// === impl Watching ===

impl Watching {
    pub(crate) fn start(
        shared: &Arc<Shared>,
        resource: &'static Resource,
        selection: Selection,
        query: &Query,
        view: View,
    ) -> Result<Self, Refusal> {
        let timeout = query
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok());
        let with_initial = query.initial_events()?;
        let version = query.version().map_err(Refusal::internal_without_reason)?;
        let bookmarks = query.truth("allowWatchBookmarks");
        let signals = shared.signals();
        let began = *signals.borrow();
        let mut waiting = VecDeque::new();
        let mut state = shared.lock();
        let timeout = timeout.filter(|seconds| *seconds > 0).unwrap_or_else(|| {
            // The API server ends a watch after half an hour to an hour.
            1800 + state.store.random().below(1800)
        });
        let deadline = Instant::now() + Duration::from_secs(timeout);
        let seen = match version {
            Some(version) if version > 0 && !with_initial => version,
            _ => {
                let store = &state.store;
                let now = store.version();
                waiting = initial(store, resource, &selection, view);
                if bookmarks {
                    waiting.push_back(line("BOOKMARK", &mark(resource, view, now, true)));
                }
                now
            }
        };
        drop(state);
        let mut watching = Self {
            signals,
            resource,
            selection,
            view,
            seen,
            waiting,
            next_bookmark: None,
            deadline,
            began,
            over: false,
            _open: Open::new(shared, Opened::Watch),
            shared: Arc::clone(shared),
        };
        if bookmarks {
            watching.plan_bookmark();
        }
        Ok(watching)
    }

    /// The lines of the watch, until it ends.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(self, |mut watching| async move {
            let next = watching.next().await?;
            Some((next, watching))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let signals = *self.signals.borrow_and_update();
            if self.over && self.waiting.is_empty() {
                return None;
            }
            if signals.cut > self.began.cut {
                self.over = true;
                self.waiting.clear();
                return Some(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if signals.frozen {
                self.signals.changed().await.ok()?;
                continue;
            }
            if let Some(line) = self.waiting.pop_front() {
                return Some(Ok(line));
            }
            self.look();
            if !self.waiting.is_empty() {
                continue;
            }
            if signals.closed > self.began.closed {
                return None;
            }
            if signals.expired > self.began.expired {
                self.expire();
                continue;
            }
            let bookmark = self.next_bookmark.unwrap_or(self.deadline);
            tokio::select! {
                biased;
                changed = self.signals.changed() => changed.ok()?,
                () = sleep_until(self.deadline) => return None,
                () = sleep_until(bookmark), if bookmark < self.deadline => {
                    let mark = mark(self.resource, self.view, self.seen, false);
                    self.waiting.push_back(line("BOOKMARK", &mark));
                    self.plan_bookmark();
                }
            }
        }
    }

    /// Takes in what has happened since the last look.
    fn look(&mut self) {
        let state = self.shared.lock();
        let stored = self.resource.store_key();
        let Ok(changes) = state.store.since(self.seen) else {
            drop(state);
            return self.expire();
        };
        for change in changes.filter(|change| change.key.resource == stored) {
            if let Some((kind, object)) = change.seen_by(&self.selection) {
                let object = self.view.object(self.resource, &object);
                self.waiting.push_back(line(kind, &object));
            }
        }
        self.seen = self.seen.max(state.store.version());
    }

    /// Says that the version is gone, and ends.
    fn expire(&mut self) {
        let oldest = self.shared.lock().store.compacted();
        let refusal = match self.resource.storage {
            Storage::Cached => Refusal::cache_expired(self.seen, oldest),
            Storage::Direct | Storage::EventsView | Storage::Review => Refusal::watch_expired(),
        };
        self.waiting.push_back(line("ERROR", &refusal.to_value()));
        self.over = true;
    }

    fn plan_bookmark(&mut self) {
        let now = Instant::now();
        let usual = now + self.shared.bookmark_every();
        let last = self.deadline - LAST_BOOKMARK;
        self.next_bookmark = Some(if last > now { usual.min(last) } else { usual });
    }
}

/// What there is, in order, as if it were new.
fn initial(
    store: &Store,
    resource: &Resource,
    selection: &Selection,
    view: View,
) -> VecDeque<Bytes> {
    store
        .all(resource.store_key())
        .filter(|(_, object)| selection.matches(object))
        .map(|(_, object)| line("ADDED", &view.object(resource, object)))
        .collect()
}

fn mark(resource: &Resource, view: View, version: u64, ends_initial_events: bool) -> Value {
    let object = resource.bookmark(version, ends_initial_events);
    match view {
        View::Whole => object,
        View::Metadata => view.object(resource, &object),
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    text.into()
}
