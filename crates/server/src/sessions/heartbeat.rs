//! Asks clients of the versions that have `ping` whether they are still there.
//!
//! One task asks them all. Who has no stream open is not asked: its idle time
//! decides. Who has never answered is asked a few times and then left alone, because
//! a client that cannot answer is no dead one: its connection decides.

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use mcp_notify::{Heartbeat, HeartbeatConfig, HeartbeatEnd};
use parking_lot::Mutex;
use rmcp::{Peer, RoleServer};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{entry::Entry, manager::Sessions};

/// Who is to be asked.
#[derive(Default)]
pub(super) struct Hearts {
    /// Emptied at once; who comes twice is let go there.
    joining: Mutex<Vec<(Weak<Entry>, Peer<RoleServer>)>>,
    joined: Notify,
}

/// A session that is asked until it ends.
type Beating = Pin<Box<dyn Future<Output = (Arc<str>, HeartbeatEnd)> + Send>>;

/// What a client has made of our pings.
#[derive(Default)]
struct Answers {
    /// Pings without an answer; meaningless after the first answer.
    missed: AtomicU32,
    /// There was an answer, once.
    ever: AtomicBool,
}

impl Sessions {
    /// The client is ready: from now on it is asked now and then.
    pub(crate) fn watch(&self, id: &str, peer: &Peer<RoleServer>) {
        if self.limits().heartbeat.is_none() {
            return;
        }
        let Some(entry) = self.get(id) else { return };
        let hearts = self.hearts();
        hearts
            .joining
            .lock()
            .push((Arc::downgrade(&entry), peer.clone()));
        hearts.joined.notify_one();
    }

    /// Asks everybody, until told to stop. A session that is down ends.
    pub(crate) async fn listen_to_hearts(self: Arc<Self>, stop: CancellationToken) {
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
                () = self.hearts().joined.notified() => {
                    let joining = std::mem::take(&mut *self.hearts().joining.lock());
                    for (entry, peer) in joining {
                        let entry = entry.upgrade();
                        let begun = entry.and_then(|entry| begin(&heartbeat, &config, &entry, peer));
                        beating.extend(begun);
                    }
                }
                Some((id, end)) = beating.next() => if end == HeartbeatEnd::Down {
                    self.end(&id, "its client no longer answers");
                },
            }
        }
    }
}

/// `None` if it has begun already.
fn begin(
    heartbeat: &Heartbeat,
    config: &HeartbeatConfig,
    entry: &Arc<Entry>,
    peer: Peer<RoleServer>,
) -> Option<Beating> {
    let pulse = heartbeat.pulse();
    if !entry.set_pulse(pulse.clone()) {
        return None;
    }
    let patience = config.failures_max;
    let session = entry.session();
    let id = Arc::clone(session.id());
    let weak = Arc::downgrade(entry);
    let answers = Arc::<Answers>::default();
    let ask = move || {
        let wanted = weak.upgrade().is_some_and(|entry| entry.has_stream());
        let peer = (wanted && answers.worth_asking(patience)).then(|| peer.clone());
        let answers = Arc::clone(&answers);
        // The state of a ping is large, and most of the time there is none.
        Box::pin(async move {
            let Some(peer) = peer else { return true };
            // If it takes too long, this is dropped at the await.
            answers.missed.fetch_add(1, Ordering::Relaxed);
            let answered = mcp_notify::rmcp::ping(&peer).await;
            if answered {
                answers.ever.store(true, Ordering::Relaxed);
            }
            answered
        }) as Pin<Box<dyn Future<Output = bool> + Send>>
    };
    let running = heartbeat.run(session, &pulse, ask);
    Some(Box::pin(async move { (id, running.await) }))
}

// === impl Answers ===

impl Answers {
    /// One that never answered is asked as often as it may fail, so it is never down.
    fn worth_asking(&self, patience: u32) -> bool {
        self.ever.load(Ordering::Relaxed) || self.missed.load(Ordering::Relaxed) < patience
    }
}
