//! The subscriptions that a requester may use: those that it has made with the user and groups
//! that it has now.

use std::sync::Arc;

use super::{Subscriptions, kept::Found, owner};
use crate::{
    caller::Caller,
    output::ToolError,
    resources::Requester,
    sessions,
    viewers::{NoUser, Viewers},
};
use kubecrier_core::{
    filters::Mode,
    subscriptions::{Ledger, Subscription},
};

/// The ledger as requesters see it. Every use of a subscription finds it here: what it tells was
/// decided for the user and groups that it was made with.
#[derive(Clone, Debug)]
pub(crate) struct OwnLedger {
    pub(super) ledger: Arc<Ledger>,
    pub(super) viewers: Viewers,
}

/// Why a requester has no such subscription.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOwn {
    /// The same text for an unknown subscription and for another owner's.
    #[error("subscription not found: `{0}`; events_list_subscriptions shows yours")]
    Unknown(String),
    #[error(
        "subscription `{0}` has ended: your user or groups in Kubernetes have changed; subscribe \
         again"
    )]
    OtherUser(String),
    #[error(transparent)]
    NoUser(#[from] NoUser),
}

// === impl OwnLedger ===

impl OwnLedger {
    pub(crate) fn new(ledger: Arc<Ledger>, viewers: Viewers) -> Self {
        Self { ledger, viewers }
    }

    /// One of the requester's own. One that it has made as another user ends.
    pub(crate) fn get(&self, requester: &Requester, id: &str) -> Result<Arc<Subscription>, NotOwn> {
        let owner = owner(requester);
        let viewer = self.viewers.of(&requester.caller)?;
        match self.ledger.get(&owner, id) {
            Some(one) if *one.viewer() == viewer => Ok(one),
            Some(one) => {
                self.ledger.end(&owner, one.id().as_str());
                Err(NotOwn::OtherUser(one.id().to_string()))
            }
            None => Err(NotOwn::unknown(id)),
        }
    }

    /// All of the requester's own. Those that it has made as another user are left alone: their
    /// maker may still be there with the token that it had then, and else they end unused.
    pub(crate) fn list(&self, requester: &Requester) -> Result<Vec<Arc<Subscription>>, NoUser> {
        let viewer = self.viewers.of(&requester.caller)?;
        let mut own = self.ledger.list(&owner(requester));
        own.retain(|one| *one.viewer() == viewer);
        Ok(own)
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// The mode of a subscription, here or in the record that servers share. It says what a token
    /// has to permit, and nothing about whose it is.
    pub(crate) async fn mode_of(&self, caller: &Caller, id: &str) -> Option<Mode> {
        if let Some(one) = self.inner.ledger.find(id) {
            return Some(one.filters().mode());
        }
        let kept = &self.inner.sharing.get()?.kept;
        match kept.find(&sessions::digest(caller), id).await {
            Ok(Found::Kept(record)) => Some(record.subscription.mode()),
            Ok(Found::Nothing | Found::Ended) | Err(_) => None,
        }
    }
}

// === impl NotOwn ===

impl NotOwn {
    pub(super) fn unknown(id: &str) -> Self {
        Self::Unknown(id.chars().take(80).collect())
    }
}

impl From<NotOwn> for ToolError {
    fn from(error: NotOwn) -> Self {
        Self::NotFound(error.to_string())
    }
}
