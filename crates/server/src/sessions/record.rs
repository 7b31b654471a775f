//! The record of a session: what another process needs to go on with it. It has no token and no
//! name of a caller, only a hash that the caller is recognised by.

use std::sync::Arc;

use bytes::Bytes;
use kubecrier_history::{RegistryEntry, Revision};
use rmcp::model::InitializeRequestParams;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Duration;

use super::store::TIME_TO_LIVE;
use crate::{caller::Caller, subscriptions::SubscriptionRecord};

/// The form of a record. One of another form is of no use.
const FORMAT: u32 = 1;

/// A session, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRecord {
    format: u32,
    /// Whose it is.
    caller: String,
    /// The server that has it, where several share their sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<String>,
    /// What the client said of itself, with the version that was agreed on.
    pub(crate) client: InitializeRequestParams,
    /// Whether the client has said that it is ready.
    pub(crate) is_initialized: bool,
    /// The level of its log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<String>,
    /// What is pushed to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) subscriptions: Vec<SubscriptionRecord>,
    /// The resources that it is notified of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<Arc<str>>,
    /// The content of each list that it was last notified of; empty if it was not.
    #[serde(default)]
    pub(crate) lists: [String; 3],
}

/// How a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum End {
    /// On purpose: it goes on nowhere.
    Final,
    /// The server that had it heard nothing of its client. One that was cut off from the store and
    /// still has the client goes on with it.
    Silent,
}

/// What is kept of a session that has ended: a server that did not hear of it finds it here.
#[derive(Debug, Serialize, Deserialize)]
struct EndRecord {
    format: u32,
    ended: End,
}

/// What the registry has of a session.
#[derive(Debug)]
pub(super) enum Kept {
    /// There is no record.
    Nothing,
    Session(Box<SessionRecord>, Revision),
    Ended(End, Revision),
    /// A record of another form, which this server cannot read.
    Foreign,
}

// === impl SessionRecord ===

impl SessionRecord {
    /// The record of a session that has just begun.
    pub(crate) fn new(caller: &Caller, client: InitializeRequestParams) -> Self {
        Self {
            format: FORMAT,
            caller: digest(caller),
            home: None,
            client,
            is_initialized: false,
            level: None,
            subscriptions: Vec::new(),
            resources: Vec::new(),
            lists: <[String; 3]>::default(),
        }
    }

    /// Whether it is the caller's.
    pub(crate) fn is_of(&self, caller: &Caller) -> bool {
        self.caller == digest(caller)
    }

    /// The bytes that are kept.
    pub(crate) fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// Reads what was kept; `None` if it has another form.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(bytes).ok()?;
        (record.format == FORMAT).then_some(record)
    }
}

// === impl End ===

impl End {
    /// The bytes that are kept.
    pub(super) fn to_bytes(self) -> Bytes {
        let record = EndRecord {
            format: FORMAT,
            ended: self,
        };
        serde_json::to_vec(&record).unwrap_or_default().into()
    }

    /// How long that is kept.
    pub(super) fn time_to_live(self) -> Duration {
        match self {
            // As long as a copy that another server still has could be continued.
            Self::Final => TIME_TO_LIVE,
            // Until what was under way when it was written has come.
            Self::Silent => Duration::from_secs(10),
        }
    }
}

// === impl Kept ===

impl Kept {
    /// Reads what was found.
    pub(super) fn of(found: Option<RegistryEntry>) -> Self {
        let Some(RegistryEntry { value, revision }) = found else {
            return Self::Nothing;
        };
        if let Some(record) = SessionRecord::parse(&value) {
            return Self::Session(Box::new(record), revision);
        }
        match serde_json::from_slice(&value) {
            Ok(EndRecord { format, ended }) if format == FORMAT => Self::Ended(ended, revision),
            Ok(_) | Err(_) => Self::Foreign,
        }
    }

    /// Whether it is a session that a server has.
    pub(super) fn is_at(&self, home: Option<&str>) -> bool {
        matches!(self, Self::Session(record, _) if record.home.as_deref() == home)
    }
}

/// What a caller is recognised by: the same for all requests that are the same caller's.
pub(crate) fn digest(caller: &Caller) -> String {
    let mut hash = Sha256::new();
    hash.update(b"the caller of a session\n");
    let name = caller.to_string();
    let user = caller.kubernetes_user();
    let user = user.map(|user| format!("{user:?}")).unwrap_or_default();
    for part in [name, user] {
        // With its length, so that no two lists of parts are one text.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let is_named = *caller != Caller::ANONYMOUS;
    hash.update([u8::from(is_named)]);
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ClientCapabilities, Implementation};

    #[test]
    fn a_record_is_read_again_and_names_nobody() {
        let client = InitializeRequestParams::new(
            ClientCapabilities::default(),
            Implementation::new("client", "1"),
        );
        let (ann, bob) = (Caller::named("ann-of-finance"), Caller::named("bob"));
        let record = SessionRecord::new(&ann, client);
        let bytes = record.to_bytes();
        let read = SessionRecord::parse(&bytes).unwrap();
        assert_eq!(read, record);
        assert!(read.is_of(&ann));
        assert!(!read.is_of(&bob) && !read.is_of(&Caller::ANONYMOUS));
        assert!(!read.is_of(&Caller::named("anonymous")));
        assert!(
            !String::from_utf8(bytes.to_vec())
                .unwrap()
                .contains("finance")
        );
        let other = String::from_utf8(bytes.to_vec()).unwrap();
        let other = other.replace("\"format\":1", "\"format\":2");
        assert_eq!(SessionRecord::parse(other.as_bytes()), None);
        assert_eq!(SessionRecord::parse(b"{}"), None);
    }
}
