//! Sessions and callers that a server must not accept.

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

    /// Tries to resume a stream of this session with the token of another caller.
    pub(crate) async fn open_as(&self, token: &str, last_event_id: &str) -> reqwest::Response {
        let request = self.headers(self.client.get(format!("{}/mcp", self.base)));
        let request = request.header("last-event-id", last_event_id);
        let request = request.header("authorization", format!("Bearer {token}"));
        request.send().await.unwrap()
    }

    /// The same session with an empty id.
    pub(crate) fn without_id(mut self) -> Self {
        self.session.clear();
        self
    }
}
