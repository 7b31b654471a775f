//! Of several servers with the same sink one delivers what happens in a context. The others follow
//! it as well and hold back what they would have told, for as long as it is not certain that the
//! one whose turn it is has told it.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use tokio::time::{Duration, Instant};

use crate::notice::Notice;

/// How long a message is held back. A server that vanishes is noticed within seven seconds, and
/// has told by then what happened this long ago, unless its target did not answer either.
pub(crate) const HELD_BACK: Duration = Duration::from_secs(30);

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Contexts that this server delivers; none if there is no other server.
    ours: Option<HashSet<Arc<str>>>,
    held_back: VecDeque<(Instant, Notice)>,
    max: usize,
}

// === impl Turns ===

impl Turns {
    /// Those of a server that is alone.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            ours: None,
            held_back: VecDeque::new(),
            max: max.max(1),
        }
    }

    /// There are other servers, which deliver every context for now.
    pub(crate) fn share(&mut self) {
        self.ours.get_or_insert_default();
    }

    pub(crate) fn is_ours(&self, context: &str) -> bool {
        self.ours.as_ref().is_none_or(|ours| ours.contains(context))
    }

    /// Whether it is this server's turn now, and was not before.
    pub(crate) fn begin(&mut self, context: &Arc<str>) -> bool {
        let ours = self.ours.as_mut();
        ours.is_some_and(|ours| ours.insert(Arc::clone(context)))
    }

    /// Whether it is not this server's turn any more, and was before.
    pub(crate) fn end(&mut self, context: &str) -> bool {
        self.ours.as_mut().is_some_and(|ours| ours.remove(context))
    }

    /// Keeps a message that another server tells.
    pub(crate) fn hold_back(&mut self, notice: Notice) {
        self.forget_old();
        self.held_back.push_back((Instant::now(), notice));
        if self.held_back.len() > self.max {
            self.held_back.pop_front();
        }
    }

    /// What was held back of a context and may not have been told.
    pub(crate) fn take_held_back(&mut self, context: &str) -> Vec<Notice> {
        self.forget_old();
        let (taken, kept) = std::mem::take(&mut self.held_back)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(_, notice)| *notice.context == *context);
        self.held_back = kept;
        taken.into_iter().map(|(_, notice)| notice).collect()
    }

    fn forget_old(&mut self) {
        let is_old = |(since, _): &(Instant, Notice)| since.elapsed() >= HELD_BACK;
        while self.held_back.front().is_some_and(is_old) {
            self.held_back.pop_front();
        }
    }
}
