//! Resources that the operator has switched off: they are in no list, complete nothing, and
//! every request for one says why.

use rmcp::model::Resource;

use super::{
    FollowGuard, ReadFuture, Requester, ResourceError, ResourceProvider, UpdatePublisher,
    uri::ClusterUri,
};
use crate::{doors::SwitchedOff, shared_reads::SharedRead};

/// A provider of which nothing is left but what it owns.
pub(crate) struct ClosedResources {
    /// Recognises the URIs; nothing else of it is used.
    provider: Box<dyn ResourceProvider>,
    why: SwitchedOff,
}

// === impl ClosedResources ===

impl ClosedResources {
    pub(crate) fn new(provider: Box<dyn ResourceProvider>, why: SwitchedOff) -> Self {
        Self { provider, why }
    }

    fn refusal(&self, uri: &str) -> ResourceError {
        // A URI that cannot be read is refused for that.
        let parsed = ClusterUri::looks_like(uri).then(|| ClusterUri::read(uri));
        match parsed {
            Some(Err(invalid)) => invalid,
            _ => ResourceError::Invalid(self.why.to_string()),
        }
    }
}

impl ResourceProvider for ClosedResources {
    fn owns(&self, uri: &str) -> bool {
        self.provider.owns(uri)
    }

    fn shared_updates(&self) -> Option<SharedRead> {
        self.provider.shared_updates()
    }

    fn is_open(&self) -> bool {
        false
    }

    fn list(&self, _requester: &Requester) -> Vec<Resource> {
        Vec::new()
    }

    fn read<'a>(&'a self, uri: &'a str, _requester: &'a Requester) -> ReadFuture<'a> {
        Box::pin(std::future::ready(Err(self.refusal(uri))))
    }

    fn may_subscribe(&self, uri: &str, _requester: &Requester) -> Result<(), ResourceError> {
        Err(self.refusal(uri))
    }

    fn follow(&self, _uri: &str, _updates: &UpdatePublisher) -> FollowGuard {
        FollowGuard::none()
    }
}
