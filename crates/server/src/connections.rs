//! Limits on connections, in all and per address, below what the system lets a process
//! open: a client that opens sockets and says nothing cannot take the descriptors that the
//! server needs for its own connections to clusters.

use std::{io::ErrorKind, net::IpAddr};

use ipnet::IpNet;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpStream;

use kubecrier_core::shares::{CallerShare, LimitName, LimitReached, Permit, ShareKey, SharedLimit};

/// The words of the limit.
const LIMIT: LimitName = LimitName::new("connections", "--max-connections");

/// Files, pipes and sockets besides those to clients and clusters.
const OTHER_DESCRIPTORS: u64 = 128;

/// Fewer connections than this serve nobody; the limit of descriptors is too low then.
const CONNECTIONS_MIN: usize = 16;

/// A server with fewer connections than this may well meet the limit, and says at its start
/// that the system allows no more.
const CONNECTIONS_FEW: usize = 1024;

/// The answer to a connection that is one too many.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\
    retry-after: 1\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 52\r\n\r\n\
    too many connections (--max-connections); try again\n";

/// Counts connections.
#[derive(Debug)]
pub(super) struct Connections {
    limit: SharedLimit,
    /// Proxies: one connection after the other of theirs is of another caller.
    proxies: Vec<IpNet>,
}

/// How a connection that is one too many is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// With an answer.
    ClearText,
    /// Without a word, because the client expects TLS.
    Close,
}

// === impl Connections ===

impl Connections {
    /// As many connections as asked for, or as the system has descriptors for: `reserved`
    /// are those of connections to clusters.
    pub(super) fn new(
        asked: usize,
        reserved: usize,
        share: CallerShare,
        proxies: Vec<IpNet>,
    ) -> Self {
        let reserved = u64::try_from(reserved).unwrap_or(u64::MAX);
        let reserved = reserved.saturating_add(OTHER_DESCRIPTORS);
        let needed = reserved.saturating_add(u64::try_from(asked).unwrap_or(u64::MAX));
        let descriptors = raise_descriptor_limit(needed);
        let connections_max = fitting(asked, reserved, descriptors);
        if connections_max < asked.min(CONNECTIONS_FEW) {
            tracing::warn!(
                connections_max,
                asked,
                descriptors,
                "fewer connections than --max-connections: the limit of open files (ulimit -n) \
                 is too low"
            );
        }
        Self {
            limit: SharedLimit::new(LIMIT, connections_max, share),
            proxies,
        }
    }

    /// Counts a connection until the permit is dropped. One too many is told so, as far as
    /// that is possible without waiting.
    pub(super) fn admit(
        &self,
        stream: &TcpStream,
        peer: IpAddr,
        refusal: Refusal,
    ) -> Option<Permit> {
        match self.acquire(peer) {
            Ok(permit) => Some(permit),
            Err(reached) => {
                tracing::debug!(%reached, %peer, "connection refused");
                if refusal == Refusal::ClearText {
                    refuse(stream);
                }
                None
            }
        }
    }

    fn acquire(&self, peer: IpAddr) -> Result<Permit, LimitReached> {
        let key = ShareKey::address(peer);
        let address = peer.to_canonical();
        if self.proxies.iter().any(|net| net.contains(&address)) {
            self.limit.acquire_for_many(&key)
        } else {
            self.limit.acquire(&key)
        }
    }
}

/// Nobody waits for a client that may not read.
fn refuse(stream: &TcpStream) {
    match stream.try_write(REFUSAL) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => tracing::debug!(%error, "the refused connection is gone"),
    }
}

/// The connections that there are descriptors for.
fn fitting(asked: usize, reserved: u64, descriptors: Option<u64>) -> usize {
    let Some(descriptors) = descriptors else {
        return asked;
    };
    let left = usize::try_from(descriptors.saturating_sub(reserved)).unwrap_or(usize::MAX);
    asked.min(left.max(CONNECTIONS_MIN))
}

/// Raises the soft limit of descriptors as far as needed and allowed. Returns the limit;
/// `None` is none.
fn raise_descriptor_limit(needed: u64) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    let wanted = maximum.map_or(needed, |maximum| needed.min(maximum));
    if wanted <= current {
        return Some(current);
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(wanted),
        Err(error) => {
            tracing::debug!(%error, wanted, "cannot raise the limit of open files");
            Some(current)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_refusal_is_a_complete_answer() {
        let text = std::str::from_utf8(REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.lines().any(|line| line == length), "{length}: {head}");
        assert!(body.contains(LIMIT.flag));
    }

    #[test]
    fn a_proxy_has_no_share_because_it_speaks_for_many() {
        let proxies = vec!["10.1.0.0/16".parse().unwrap()];
        let connections = Connections {
            limit: SharedLimit::new(LIMIT, 4, CallerShare::HALF),
            proxies,
        };
        let (proxy, other): (IpAddr, IpAddr) = ([10, 1, 0, 9].into(), "192.0.2.1".parse().unwrap());
        let held: Vec<_> = (0..3)
            .map(|_| connections.acquire(proxy).unwrap())
            .collect();
        let last = connections.acquire(other).unwrap();
        assert!(connections.acquire(proxy).is_err(), "the total holds");
        drop((held, last));
        let held: Vec<_> = (0..2)
            .map(|_| connections.acquire(other).unwrap())
            .collect();
        assert!(connections.acquire(other).is_err(), "others have a share");
        drop(held);
        assert_eq!(connections.limit.used(), 0);
    }

    proptest! {
        /// Descriptors for clusters are left, unless there are next to none at all.
        #[test]
        fn connections_leave_what_is_reserved(
            asked in 1..100_000_usize, reserved in 0..5_000_u64, descriptors in 1..100_000_u64,
        ) {
            let most = fitting(asked, reserved, Some(descriptors));
            prop_assert!(most >= 1 && most <= asked);
            prop_assert!(most <= CONNECTIONS_MIN || most as u64 + reserved <= descriptors);
            prop_assert_eq!(fitting(asked, reserved, None), asked);
        }
    }
}
