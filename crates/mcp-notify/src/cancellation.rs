//! `notifications/cancelled`, inbound: cancels a request that is in flight.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::method::Method;
use crate::notification::Notification;
use crate::session::{Session, SessionKey};
use crate::teardown::{Detach, DetachOn, shrink_sparse};

/// The id of a JSON-RPC request: a number or a string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A number.
    Number(i64),
    /// A string.
    Text(Arc<str>),
}

/// The requests in flight, per session. Clones share the registry.
///
/// A cancelled request gets no response: its handler returns when it finds the request
/// cancelled. Closing a session cancels all of its requests.
#[derive(Clone, Default)]
pub struct InFlightRequests(Arc<Requests>);

/// A request in flight. Dropping it removes the registration.
#[derive(Debug)]
pub struct InFlightRequest {
    registry: InFlightRequests,
    session: SessionKey,
    id: RequestId,
    serial: u64,
    token: CancellationToken,
}

/// The outcome of `notifications/cancelled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The request was cancelled.
    Cancelled,
    /// There is no such request in flight: ignored, as the protocol requires.
    Unknown,
    /// `initialize` cannot be cancelled.
    Protected,
}

#[derive(Default)]
struct Requests(Mutex<HashMap<SessionKey, HashMap<RequestId, Running>>>);

struct Running {
    /// Distinguishes two requests with the same id.
    serial: u64,
    token: CancellationToken,
    protected: bool,
}

impl InFlightRequests {
    /// A registry without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a request of this method. Keep the returned value while the handler
    /// runs. The request is already cancelled if the session is closed.
    pub fn begin(&self, session: &Session, id: RequestId, method: &str) -> InFlightRequest {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = CancellationToken::new();
        let running = Running {
            serial,
            token: token.clone(),
            protected: method == "initialize",
        };
        let key = session.key();
        self.0
            .0
            .lock()
            .entry(key)
            .or_default()
            .insert(id.clone(), running);
        let registry: Arc<dyn Detach> = Arc::clone(&self.0) as _;
        if !session.attach(&registry, DetachOn::Close) {
            registry.detach(key);
        }
        InFlightRequest {
            registry: self.clone(),
            session: key,
            id,
            serial,
            token,
        }
    }

    /// Handles `notifications/cancelled` of the session, which can cancel its own
    /// requests only.
    pub fn cancel(&self, session: &Session, id: &RequestId) -> CancelOutcome {
        let requests = self.0.0.lock();
        let token = match requests.get(&session.key()).and_then(|own| own.get(id)) {
            None => return CancelOutcome::Unknown,
            Some(Running {
                protected: true, ..
            }) => return CancelOutcome::Protected,
            Some(running) => running.token.clone(),
        };
        drop(requests);
        token.cancel();
        CancelOutcome::Cancelled
    }

    /// The number of requests in flight.
    pub fn len(&self) -> usize {
        self.0.0.lock().values().map(HashMap::len).sum()
    }

    /// Whether no request is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for InFlightRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightRequests")
            .field(&self.len())
            .finish()
    }
}

impl InFlightRequest {
    /// Waits until the request is cancelled. Cancel-safe.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// Whether the request is cancelled: no response is to be sent then.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut requests = self.registry.0.0.lock();
        if let Some(own) = requests.get_mut(&self.session) {
            // A later request may have the same id.
            if own
                .get(&self.id)
                .is_some_and(|running| running.serial == self.serial)
            {
                own.remove(&self.id);
            }
            if own.is_empty() {
                requests.remove(&self.session);
                shrink_sparse(&mut requests);
            }
        }
    }
}

impl Detach for Requests {
    fn detach(&self, session: SessionKey) {
        let mut requests = self.0.lock();
        let own = requests.remove(&session).unwrap_or_default();
        shrink_sparse(&mut requests);
        drop(requests);
        for running in own.into_values() {
            running.token.cancel();
        }
    }
}

impl Notification {
    /// `notifications/cancelled` for a request of the server.
    pub fn cancelled(id: &RequestId, reason: Option<&str>) -> Self {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            request_id: &'a RequestId,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
        }
        Self::builder(Method::CANCELLED)
            .params(&Params {
                request_id: id,
                reason,
            })
            .build()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::CloseReason;

    #[tokio::test]
    async fn a_cancelled_request_is_told_and_unknown_ids_are_ignored() {
        let (requests, session) = (InFlightRequests::new(), Session::new("s"));
        let id = RequestId::Number(7);
        let request = requests.begin(&session, id.clone(), "tools/call");
        assert_eq!(
            requests.cancel(&session, &RequestId::Text("7".into())),
            CancelOutcome::Unknown
        );
        assert!(!request.is_cancelled());
        assert_eq!(requests.cancel(&session, &id), CancelOutcome::Cancelled);
        request.cancelled().await;
        drop(request);
        assert_eq!(requests.cancel(&session, &id), CancelOutcome::Unknown);
        assert!(requests.is_empty());
    }

    #[test]
    fn initialize_cannot_be_cancelled() {
        let (requests, session) = (InFlightRequests::new(), Session::new("s"));
        let request = requests.begin(&session, RequestId::Number(0), "initialize");
        assert_eq!(
            requests.cancel(&session, &RequestId::Number(0)),
            CancelOutcome::Protected
        );
        assert!(!request.is_cancelled());
    }

    #[test]
    fn one_session_cannot_cancel_anothers_and_its_end_cancels_its_own() {
        let (requests, a, b) = (
            InFlightRequests::new(),
            Session::new("a"),
            Session::new("b"),
        );
        let of_a = requests.begin(&a, RequestId::Number(1), "tools/call");
        let of_b = requests.begin(&b, RequestId::Number(1), "tools/call");
        assert_eq!(
            requests.cancel(&a, &RequestId::Number(1)),
            CancelOutcome::Cancelled
        );
        assert!(of_a.is_cancelled() && !of_b.is_cancelled());
        b.close(CloseReason::Requested);
        assert!(of_b.is_cancelled());
        assert!(
            requests
                .begin(&b, RequestId::Number(2), "tools/call")
                .is_cancelled()
        );
        drop(of_a);
        assert!(requests.is_empty());
    }

    #[test]
    fn the_end_of_a_request_does_not_touch_a_later_one_with_its_id() {
        let (requests, session) = (InFlightRequests::new(), Session::new("s"));
        let id = RequestId::Number(1);
        let first = requests.begin(&session, id.clone(), "tools/call");
        let second = requests.begin(&session, id.clone(), "tools/call");
        drop(first);
        assert_eq!(requests.cancel(&session, &id), CancelOutcome::Cancelled);
        assert!(second.is_cancelled());
        drop(second);
        assert!(requests.is_empty());
    }

    #[test]
    fn the_notification_carries_the_id_as_it_was() {
        let params = |id, reason| {
            let notification = Notification::cancelled(&id, reason);
            let params = notification.params().unwrap().unwrap();
            serde_json::from_slice::<serde_json::Value>(&params).unwrap()
        };
        assert_eq!(params(RequestId::Number(3), None), json!({"requestId": 3}));
        assert_eq!(
            params(RequestId::Text("x".into()), Some("late")),
            json!({"requestId": "x", "reason": "late"})
        );
    }
}
