//! Who is there: every server says its name each second, and remembers when it heard each other.
//!
//! A server that is frozen or cut off keeps its subscriptions in NATS for minutes, so that they
//! say nothing. That a server hears itself shows that it is able to hear the others.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::store::Inner;

/// How often a server says its name.
const BEAT: Duration = Duration::from_secs(1);

/// A server that hears itself less often than this hears nobody well enough to judge.
const OWN_PAUSE_MAX: Duration = Duration::from_millis(2500);

/// A server that was not heard for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Servers that are remembered.
const NAMES_MAX: usize = 10_000;

/// When each server was heard.
#[derive(Debug, Default)]
pub(super) struct Alive {
    // A lock for one operation on the map.
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    others: HashMap<String, Instant>,
    own: Option<Own>,
}

/// How long a server has heard itself without a pause.
#[derive(Clone, Copy, Debug)]
struct Own {
    since: Instant,
    last: Instant,
}

// === impl Alive ===

impl Alive {
    /// Whether a server is gone, as far as can be known.
    pub(super) fn is_gone(&self, name: &str) -> bool {
        self.heard.lock().is_gone(name, Instant::now())
    }

    /// Says the name, and listens, until the server drains.
    pub(super) async fn run(self: Arc<Self>, inner: Arc<Inner>, name: String, beats: Subscriber) {
        let subject = subject(&inner);
        tokio::select! {
            () = inner.lifecycle.draining().cancelled() => {}
            () = say(&inner, &subject, &name) => {}
            () = self.listen(&name, beats) => {}
        }
    }

    async fn listen(&self, own: &str, mut beats: Subscriber) {
        while let Some(beat) = beats.next().await {
            let Ok(name) = std::str::from_utf8(&beat.payload) else {
                continue;
            };
            self.heard.lock().hear(name, own, Instant::now());
        }
    }
}

// === impl Heard ===

impl Heard {
    fn hear(&mut self, name: &str, own: &str, now: Instant) {
        if name == own {
            let since = match self.own {
                Some(own) if now - own.last <= OWN_PAUSE_MAX => own.since,
                Some(_) | None => now,
            };
            self.own = Some(Own { since, last: now });
        }
        if let Some(last) = self.others.get_mut(name) {
            *last = now;
            return;
        }
        if self.others.len() >= NAMES_MAX {
            self.others.retain(|_, last| now - *last <= SILENCE_MAX);
        }
        if self.others.len() < NAMES_MAX {
            self.others.insert(name.to_owned(), now);
        }
    }

    fn is_gone(&self, name: &str, now: Instant) -> bool {
        let Some(own) = self.own else { return false };
        if now - own.last > OWN_PAUSE_MAX || now - own.since < SILENCE_MAX {
            return false;
        }
        match self.others.get(name) {
            Some(last) => now - *last > SILENCE_MAX,
            None => true,
        }
    }
}

pub(super) fn subject(inner: &Inner) -> String {
    format!("{}.alive", inner.names.fleet)
}

async fn say(inner: &Inner, subject: &str, name: &str) {
    let name = Bytes::copy_from_slice(name.as_bytes());
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // What would be sent later says nothing of later.
        if inner.link.is_connected() {
            let said = inner.client.publish(subject.to_owned(), name.clone()).await;
            if said.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds at which servers are heard; whether `b` is gone at the end.
    #[track_caller]
    fn check(own: &[u64], other: &[u64], at: u64, expected: bool) {
        let start = Instant::now();
        let mut heard = Heard::default();
        for second in 0..=at {
            let now = start + Duration::from_secs(second);
            if own.contains(&second) {
                heard.hear("a", "a", now);
            }
            if other.contains(&second) {
                heard.hear("b", "a", now);
            }
        }
        let now = start + Duration::from_secs(at);
        assert_eq!(heard.is_gone("b", now), expected);
    }

    #[test]
    fn who_is_not_heard_is_gone_only_for_who_hears_itself() {
        let always: Vec<_> = (0..100).collect();
        check(&always, &always, 20, false);
        check(&always, &[0, 1, 2], 7, false);
        check(&always, &[0, 1, 2], 8, true);
        // Never heard: not known before it could have been heard.
        check(&always, &[], 4, false);
        check(&always, &[], 5, true);
        // Frozen, or without a connection, until now, or until a moment ago.
        check(&[0, 1, 2], &[0, 1, 2], 20, false);
        check(&[0, 1, 2, 20], &[0, 1, 2], 20, false);
        check(&[0, 1, 2, 20, 21, 22, 23, 24], &[0, 1, 2], 24, false);
        check(&[0, 1, 2, 20, 21, 22, 23, 24, 25], &[0, 1, 2], 25, true);
        check(&[0, 1, 2, 20, 21, 22, 23, 24, 25], &[20], 25, false);
    }
}
