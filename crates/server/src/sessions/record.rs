//! The record of a session: what another process needs to go on with it. It has no token and no
//! name of a caller, only a hash that the caller is recognised by.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::model::InitializeRequestParams;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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
