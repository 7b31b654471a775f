//! Which lists the clients of 2026-07-28 have: without sessions, what a client last fetched is
//! remembered by who it says it is.
//!
//! Two processes may be the same client by this key, and one of them may have an older list. So
//! all lists that were fetched lately under a key have to be the current one; otherwise the
//! client is notified, which costs it one more fetch.

use std::{collections::HashMap, net::IpAddr};

use mcp_notify::{ContentHash, ListKind};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::caller::Caller;

/// How long a fetch counts.
const KEPT: Duration = Duration::from_hours(1);

/// Clients that are remembered; the one that was not seen for longest makes room.
const CLIENTS_MAX: usize = 1024;

/// Different lists that are remembered of a client.
const LISTS_MAX: usize = 8;

/// The longest name or version that is remembered.
const TEXT_BYTES_MAX: usize = 128;

/// Who a client is, without a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    caller: String,
    peer: Option<IpAddr>,
    name: String,
    version: String,
}

/// What clients have fetched.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    // Requests come on many tasks; held for operations of the map.
    by_client: Mutex<HashMap<ClientKey, Fetched>>,
}

#[derive(Debug)]
struct Fetched {
    seen: Instant,
    /// Of each list, the contents that were fetched lately, and when.
    lists: [Vec<(ContentHash, Instant)>; 3],
}

// === impl ClientKey ===

impl ClientKey {
    /// The key of a client that says who it is.
    pub(crate) fn new(
        caller: &Caller,
        peer: Option<IpAddr>,
        name: &str,
        version: &str,
    ) -> Option<Self> {
        let fits = |text: &str| text.len() <= TEXT_BYTES_MAX;
        (!name.is_empty() && fits(name) && fits(version)).then(|| Self {
            caller: caller.to_string(),
            peer,
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }
}

// === impl Fetches ===

impl Fetches {
    /// A client has begun: whatever it has not fetched since, it does not have.
    pub(super) fn met(&self, client: ClientKey) {
        self.change(client, |_fetched| {});
    }

    /// A client has fetched a list with this content.
    pub(super) fn fetched(&self, client: ClientKey, kind: ListKind, hash: ContentHash) {
        self.change(client, |fetched| {
            let now = fetched.seen;
            let lists = &mut fetched.lists[kind as usize];
            lists.retain(|(known, at)| *known != hash && now < *at + KEPT);
            lists.push((hash, now));
            if lists.len() > LISTS_MAX {
                lists.remove(0);
            }
        });
    }

    /// Whether a client has nothing else than this content, as far as is known. One that this
    /// process has not met may have anything.
    pub(super) fn has_only(&self, client: &ClientKey, kind: ListKind, hash: &ContentHash) -> bool {
        let now = Instant::now();
        let by_client = self.by_client.lock();
        let fetched = by_client.get(client);
        let fetched = fetched.filter(|fetched| now < fetched.seen + KEPT);
        fetched.is_some_and(|fetched| {
            let lists = fetched.lists[kind as usize].iter();
            let mut lately = lists.filter(|(_, at)| now < *at + KEPT);
            lately.all(|(known, _)| known == hash)
        })
    }

    fn change(&self, client: ClientKey, change: impl FnOnce(&mut Fetched)) {
        let now = Instant::now();
        let mut by_client = self.by_client.lock();
        if by_client.len() >= CLIENTS_MAX && !by_client.contains_key(&client) {
            let oldest = by_client.iter().min_by_key(|(_, fetched)| fetched.seen);
            if let Some(oldest) = oldest.map(|(client, _)| client.clone()) {
                by_client.remove(&oldest);
            }
        }
        let fetched = by_client.entry(client).or_insert_with(|| Fetched {
            seen: now,
            lists: [Vec::new(), Vec::new(), Vec::new()],
        });
        fetched.seen = now;
        change(fetched);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn client(name: &str) -> ClientKey {
        ClientKey::new(&Caller::ANONYMOUS, None, name, "1").unwrap()
    }

    fn hash(content: &str) -> ContentHash {
        ContentHash::from(content)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_what_it_fetched_and_one_that_was_never_met_may_have_anything() {
        let fetches = Fetches::default();
        let tools = |name: &str, content: &str| {
            fetches.has_only(&client(name), ListKind::Tools, &hash(content))
        };
        assert!(!tools("a", "1"), "it may have a list of before a restart");
        fetches.met(client("a"));
        assert!(tools("a", "1"), "it has none yet");
        fetches.fetched(client("a"), ListKind::Tools, hash("1"));
        fetches.fetched(client("a"), ListKind::Prompts, hash("other"));
        assert!(tools("a", "1") && !tools("a", "2") && !tools("b", "1"));
        // Another process with the same name fetches the next content.
        advance(KEPT / 2).await;
        fetches.fetched(client("a"), ListKind::Tools, hash("2"));
        assert!(!tools("a", "2"), "one of them may have the first");
        advance(KEPT / 2).await;
        assert!(tools("a", "2"));
        advance(KEPT).await;
        assert!(!tools("a", "2"), "that was too long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let fetches = Fetches::default();
        for number in 0..CLIENTS_MAX + 10 {
            advance(Duration::from_millis(1)).await;
            fetches.met(client(&number.to_string()));
        }
        for content in 0..LISTS_MAX + 10 {
            fetches.fetched(client("1000"), ListKind::Tools, hash(&content.to_string()));
        }
        let by_client = fetches.by_client.lock();
        assert_eq!(by_client.len(), CLIENTS_MAX);
        assert!(!by_client.contains_key(&client("9")) && by_client.contains_key(&client("10")));
        assert_eq!(by_client[&client("1000")].lists[0].len(), LISTS_MAX);
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(ClientKey::new(&Caller::ANONYMOUS, None, &long, "1"), None);
        assert_eq!(ClientKey::new(&Caller::ANONYMOUS, None, "", "1"), None);
    }
}
