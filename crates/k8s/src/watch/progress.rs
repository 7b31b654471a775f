//! How far a watch is with delivering what it has received.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Events of one watch, counted as they are received and as they are delivered, in order.
#[derive(Debug, Default)]
pub(super) struct Progress {
    received: AtomicU64,
    delivered: AtomicU64,
    advanced: Notify,
}

// === impl Progress ===

impl Progress {
    /// Counts an event that was received, before it is decided who gets it. Returns its number.
    pub(super) fn receive(&self) -> u64 {
        // In one order with what a subscriber does that joins: either it is among those who get
        // the event, or it waits for it.
        self.received.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes that the event of this number and all before it were delivered, or are for nobody.
    pub(super) fn deliver(&self, number: u64) {
        self.delivered.fetch_max(number, Ordering::Release);
        self.advanced.notify_waiters();
    }

    /// Notes that nothing more will be delivered.
    pub(super) fn end(&self) {
        self.deliver(u64::MAX);
    }

    /// Waits until everything that was received before was delivered. Cancel-safe.
    pub(super) async fn until_delivered(&self) {
        let received = self.received.load(Ordering::SeqCst);
        loop {
            let advanced = self.advanced.notified();
            tokio::pin!(advanced);
            // What is delivered from here on wakes it.
            advanced.as_mut().enable();
            if self.delivered.load(Ordering::Acquire) >= received {
                return;
            }
            advanced.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_by_the_last_that_was_received_before() {
        let progress = Progress::default();
        progress.until_delivered().await;
        let (first, second) = (progress.receive(), progress.receive());
        let mut waiting = tokio_test::task::spawn(progress.until_delivered());
        assert!(waiting.poll().is_pending());
        let later = progress.receive();
        progress.deliver(first);
        assert!(waiting.poll().is_pending());
        progress.deliver(second);
        assert!(waiting.is_woken() && waiting.poll().is_ready());
        let mut last = tokio_test::task::spawn(progress.until_delivered());
        assert!(last.poll().is_pending());
        progress.end();
        assert!(last.poll().is_ready() && later > second);
    }
}
