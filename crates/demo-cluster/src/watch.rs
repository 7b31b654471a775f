//! The verb `watch`: a stream of changes, one JSON document per line.

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
    shared::{OpenStream, Shared, Signals, StreamKind},
    status::StatusError,
    store::Store,
    view::View,
};

/// An open watch.
pub(crate) struct WatchStream {
    shared: Arc<Shared>,
    signals: watch::Receiver<Signals>,
    resource: &'static Resource,
    selection: Selection,
    view: View,
    /// The resourceVersion up to which changes are in the queue or were sent.
    version: u64,
    queue: VecDeque<Bytes>,
    next_bookmark: Option<Instant>,
    deadline: Instant,
    /// The signals when the watch was opened; only later ones concern it.
    opened: Signals,
    ended: bool,
    _open: OpenStream,
}

/// How long before the end of a watch the API server sends the last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

// === impl WatchStream ===

impl WatchStream {
    pub(crate) fn open(
        shared: &Arc<Shared>,
        resource: &'static Resource,
        selection: Selection,
        query: &Query,
        view: View,
    ) -> Result<Self, StatusError> {
        let timeout = query
            .number("timeoutSeconds")?
            .and_then(|seconds| u64::try_from(seconds).ok());
        let initial_events = query.initial_events()?;
        let requested = query
            .version()
            .map_err(StatusError::internal_without_reason)?;
        let bookmarks = query.flag("allowWatchBookmarks");
        let signals = shared.signals();
        let opened = *signals.borrow();
        let mut queue = VecDeque::new();
        let mut state = shared.lock();
        let timeout = timeout.filter(|seconds| *seconds > 0).unwrap_or_else(|| {
            // The API server ends a watch after half an hour to an hour.
            1800 + state.store.random().below(1800)
        });
        let deadline = Instant::now() + Duration::from_secs(timeout);
        let version = match requested {
            Some(version) if version > 0 && !initial_events => version,
            _ => {
                let store = &state.store;
                let current = store.version();
                queue = existing(store, resource, &selection, view);
                if bookmarks {
                    queue.push_back(line("BOOKMARK", &bookmark(resource, view, current, true)));
                }
                current
            }
        };
        drop(state);
        let mut watch = Self {
            signals,
            resource,
            selection,
            view,
            version,
            queue,
            next_bookmark: None,
            deadline,
            opened,
            ended: false,
            _open: OpenStream::new(shared, StreamKind::Watch),
            shared: Arc::clone(shared),
        };
        if bookmarks {
            watch.schedule_bookmark();
        }
        Ok(watch)
    }

    /// The lines of the watch, until it ends.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(self, |mut watch| async move {
            let next = watch.next().await?;
            Some((next, watch))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let signals = *self.signals.borrow_and_update();
            if self.ended && self.queue.is_empty() {
                return None;
            }
            if signals.cut > self.opened.cut {
                self.ended = true;
                self.queue.clear();
                return Some(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if signals.frozen {
                self.signals.changed().await.ok()?;
                continue;
            }
            if let Some(line) = self.queue.pop_front() {
                return Some(Ok(line));
            }
            self.enqueue_changes();
            if !self.queue.is_empty() {
                continue;
            }
            if signals.closed > self.opened.closed {
                return None;
            }
            if signals.expired > self.opened.expired {
                self.expire();
                continue;
            }
            let bookmark_at = self.next_bookmark.unwrap_or(self.deadline);
            tokio::select! {
                biased;
                changed = self.signals.changed() => changed.ok()?,
                () = sleep_until(self.deadline) => return None,
                () = sleep_until(bookmark_at), if bookmark_at < self.deadline => {
                    let mark = bookmark(self.resource, self.view, self.version, false);
                    self.queue.push_back(line("BOOKMARK", &mark));
                    self.schedule_bookmark();
                }
            }
        }
    }

    /// Appends the changes since the last call to the queue.
    fn enqueue_changes(&mut self) {
        let state = self.shared.lock();
        let stored = self.resource.store_key();
        let Ok(changes) = state.store.since(self.version) else {
            drop(state);
            return self.expire();
        };
        for change in changes.filter(|change| change.key.resource == stored) {
            if let Some((kind, object)) = change.watch_event(&self.selection) {
                let object = self.view.object(self.resource, &object);
                self.queue.push_back(line(kind, &object));
            }
        }
        self.version = self.version.max(state.store.version());
    }

    /// Ends the watch with 410 Gone.
    fn expire(&mut self) {
        let oldest = self.shared.lock().store.compacted();
        let error = match self.resource.storage {
            Storage::Cached => StatusError::cache_expired(self.version, oldest),
            Storage::Direct | Storage::EventsView | Storage::Review => StatusError::watch_expired(),
        };
        self.queue.push_back(line("ERROR", &error.to_value()));
        self.ended = true;
    }

    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let usual = now + self.shared.bookmark_every();
        let last = self.deadline - LAST_BOOKMARK;
        self.next_bookmark = Some(if last > now { usual.min(last) } else { usual });
    }
}

/// The existing objects, in order, as `ADDED` events.
fn existing(
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

fn bookmark(resource: &Resource, view: View, version: u64, ends_initial_events: bool) -> Value {
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
