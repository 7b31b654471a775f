//! Sessions that a server must not accept.

use std::sync::atomic::AtomicU64;

use super::HttpSession;

impl HttpSession {
    /// The same session, as its client tries it at another server.
    pub(crate) fn moved_to(&self, base: &str) -> Self {
        Self {
            base: base.to_owned(),
            version: self.version.clone(),
            client: self.client.clone(),
            session: self.session.clone(),
            next: AtomicU64::new(1),
        }
    }

    /// The same session with an empty id.
    pub(crate) fn without_id(mut self) -> Self {
        self.session.clear();
        self
    }
}
