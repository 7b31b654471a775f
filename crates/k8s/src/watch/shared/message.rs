//! What the holder of a watch writes for the others.

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use kubecrier_core::Event;

use crate::{Contexts, StoredEvent, StoredLabels};

/// The form of a message. A reader of another one watches for itself.
const FORMAT: u32 = 1;

/// One message: what was seen, and of which time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchMessage {
    format: u32,
    /// Who wrote it, and which of its messages it is: no two are alike, so that a server knows its
    /// own again.
    #[serde(default)]
    by: String,
    /// When, by the clock of who wrote it, in milliseconds.
    #[serde(default)]
    pub(super) at: i64,
    /// It has everything after this resourceVersion …
    pub(super) after: String,
    /// … up to this one.
    pub(super) until: String,
    pub(super) seen: Seen,
}

/// What was seen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Seen {
    /// Nothing yet: another server begins, and who wrote before cannot any more.
    Begun,
    /// Events, in order. None says that the watch is open and nothing has happened.
    Events(Vec<LoggedEvent>),
    /// The history of the API server was gone, so that something may be missing before `until`.
    Relisted {
        /// It is another cluster from here on.
        replaced: bool,
    },
    /// The watch does not work.
    Ended {
        /// The last error.
        error: String,
    },
}

/// An event in a message: redacted, and without the labels of the involved object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoggedEvent {
    /// Its resourceVersion; 0 if that is no number.
    pub(super) version: u64,
    /// The members of a notification.
    members: Box<RawValue>,
}

// === impl WatchMessage ===

impl WatchMessage {
    pub(super) fn new(by: String, after: &str, until: &str, seen: Seen) -> Self {
        Self {
            format: FORMAT,
            by,
            at: Timestamp::now().as_millisecond(),
            after: after.to_owned(),
            until: until.to_owned(),
            seen,
        }
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        // Strings and numbers always serialise.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// Reads a message; `None` if it has another form.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let message: Self = serde_json::from_slice(bytes).ok()?;
        (message.format == FORMAT).then_some(message)
    }
}

// === impl LoggedEvent ===

impl LoggedEvent {
    pub(super) fn new(event: &Event) -> Option<Self> {
        let text = String::from_utf8(event.members().to_object()).ok()?;
        Some(Self {
            version: event.version.unwrap_or_default(),
            members: RawValue::from_string(text).ok()?,
        })
    }

    pub(super) fn bytes_len(&self) -> usize {
        self.members.get().len() + 40
    }

    /// The event, unless this server must not show it.
    pub(super) fn to_event(&self, contexts: &Contexts) -> Option<Event> {
        contexts.stored_event(StoredEvent {
            members: self.members.get().as_bytes(),
            version: (self.version > 0).then_some(self.version),
            labels: StoredLabels::Known,
        })
    }
}
