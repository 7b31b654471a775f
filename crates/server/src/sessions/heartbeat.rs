//! Heartbeats: pings clients of the protocol versions that have `ping`.
//!
//! One task pings them all. A client without an open stream is not pinged: its idle
//! timeout decides. A client that has never answered is pinged a few times and then
//! left alone: it may not support `ping`, so its connection decides.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use mcp_notify::{Heartbeat, HeartbeatConfig, HeartbeatEnd};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{http_session::HttpSession, manager::Sessions};

/// Sessions that wait for the heartbeat task.
#[derive(Default)]
pub(super) struct HeartbeatQueue {
    /// Emptied at once. A session that is queued twice is pinged once.
    joining: Mutex<Vec<Weak<HttpSession>>>,
    joined: Notify,
}

/// Pings one session until it ends.
type HeartbeatFuture = Pin<Box<dyn Future<Output = (Arc<str>, HeartbeatEnd)> + Send>>;

/// How a client has answered pings so far.
#[derive(Default)]
struct PingHistory {
    /// Pings without an answer; meaningless after the first answer.
    missed: AtomicU32,
    /// There was an answer, once.
    ever: AtomicBool,
}

impl Sessions {
    /// Starts to ping the client of a session, which has said that it is ready.
    pub(crate) fn start_heartbeat(&self, id: &str) {
        if self.limits().heartbeat.is_none() {
            return;
        }
        let Some(entry) = self.get(id) else { return };
        let heartbeats = self.heartbeats();
        heartbeats.joining.lock().push(Arc::downgrade(&entry));
        heartbeats.joined.notify_one();
    }

    /// Pings all clients, until `stop`. A session whose client is down ends.
    pub(crate) async fn run_heartbeats(self: Arc<Self>, stop: CancellationToken) {
        let mut config = HeartbeatConfig::default();
        let Some(interval) = self.limits().heartbeat else {
            return;
        };
        config.interval = interval;
        let heartbeat = Heartbeat::new(config);
        let mut beating = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.heartbeats().joined.notified() => {
                    let joining = std::mem::take(&mut *self.heartbeats().joining.lock());
                    for entry in joining.iter().filter_map(Weak::upgrade) {
                        beating.extend(begin(&heartbeat, &config, &entry));
                    }
                }
                Some((id, end)) = beating.next() => if end == HeartbeatEnd::Down {
                    self.give_up(&id, "its client no longer answers");
                },
            }
        }
    }
}

/// `None` if it has begun already.
fn begin(
    heartbeat: &Heartbeat,
    config: &HeartbeatConfig,
    entry: &Arc<HttpSession>,
) -> Option<HeartbeatFuture> {
    let liveness = heartbeat.liveness();
    if !entry.set_liveness(liveness.clone()) {
        return None;
    }
    let patience = config.failures_max;
    let session = entry.session();
    let id = Arc::clone(session.id());
    let weak = Arc::downgrade(entry);
    let answers = Arc::<PingHistory>::default();
    let ask = move || {
        let entry = weak.upgrade().filter(|entry| entry.has_stream());
        let asked = entry.filter(|_| answers.worth_asking(patience));
        let answers = Arc::clone(&answers);
        // The state of a ping is large, and most of the time there is none.
        Box::pin(async move {
            let Some(entry) = asked else { return true };
            // If it takes too long, this is dropped at the await.
            answers.missed.fetch_add(1, Ordering::Relaxed);
            let answered = entry.server_requests.ping().await;
            if answered {
                answers.ever.store(true, Ordering::Relaxed);
            }
            answered
        }) as Pin<Box<dyn Future<Output = bool> + Send>>
    };
    let running = heartbeat.run(session, &liveness, ask);
    // Not an `async` block, which would have room for it twice.
    Some(Box::pin(running.map(move |end| (id, end))))
}

// === impl PingHistory ===

impl PingHistory {
    /// A client that never answered is pinged as often as it may fail, so it never
    /// counts as down.
    fn worth_asking(&self, patience: u32) -> bool {
        self.ever.load(Ordering::Relaxed) || self.missed.load(Ordering::Relaxed) < patience
    }
}
