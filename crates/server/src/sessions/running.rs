//! The requests of one session that are being worked on. Each has a service of rmcp for
//! itself: a session that nothing is asked of has none.

use std::collections::HashMap;

use parking_lot::Mutex;
use rmcp::model::RequestId;

/// Running requests, and notifications that are being handled.
#[derive(Default)]
pub(super) struct RunningRequests {
    // A lock for those who begin, end and cancel; held for one step.
    state: Mutex<State>,
}

/// The number of a running request: an id may be used again while the request that had it
/// is still being cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunNumber(u64);

#[derive(Default)]
struct State {
    last: u64,
    running: HashMap<RunNumber, Running>,
    has_ended: bool,
}

struct Running {
    /// `None` for a notification.
    request: Option<RequestId>,
    /// To drop it cancels the work.
    _service: Box<dyn Send>,
}

// === impl RunningRequests ===

impl RunningRequests {
    /// Starts the work for a message, which ends when the service is dropped. After the end
    /// of the session nothing begins.
    pub(super) fn begin<S: Send + 'static>(
        &self,
        request: Option<RequestId>,
        start: impl FnOnce(RunNumber) -> S,
    ) {
        // The work may end before `start` returns; it is removed when it is here.
        let mut state = self.state.lock();
        if state.has_ended {
            return;
        }
        state.last += 1;
        let number = RunNumber(state.last);
        let running = Running {
            request,
            _service: Box::new(start(number)),
        };
        state.running.insert(number, running);
    }

    /// Whether what the work says still counts: it was neither cancelled nor has it ended.
    pub(super) fn is_running(&self, number: RunNumber) -> bool {
        self.state.lock().running.contains_key(&number)
    }

    /// The work is done.
    pub(super) fn finish(&self, number: RunNumber) {
        let mut state = self.state.lock();
        let finished = state.running.remove(&number);
        if state.running.is_empty() {
            // An idle session keeps no room for requests.
            state.running = HashMap::new();
        }
        drop(state);
        drop(finished);
    }

    /// Cancels the request with this id.
    pub(super) fn cancel(&self, request: &RequestId) {
        let mut state = self.state.lock();
        let cancelled: Vec<_> = (state.running)
            .extract_if(|_, running| running.request.as_ref() == Some(request))
            .collect();
        drop(state);
        drop(cancelled);
    }

    /// Cancels everything, for good.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        let cancelled = std::mem::take(&mut state.running);
        drop(state);
        drop(cancelled);
    }
}

#[cfg(test)]
mod tests;
