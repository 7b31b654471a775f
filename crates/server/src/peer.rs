//! The peer of a connection. On loopback the kernel knows the user of the other end, and
//! only the server's own user and root are served: a port is not a file, everyone on the
//! machine can connect to it.
//!
//! The user is looked up once per connection, before the first request is read. A token
//! counts whoever presents it, so with tokens alone nobody is looked up.

#[cfg(target_os = "linux")]
mod proc_net;
#[cfg(target_os = "linux")]
mod sock_diag;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tokio::net::TcpStream;

use crate::log_limit::LogLimit;

/// Whether this system can tell the user of a loopback peer.
pub const PEER_USERS_ARE_KNOWN: bool = cfg!(target_os = "linux");

/// The other end of a connection; an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Its address, as IPv4 where it is one.
    pub(crate) address: IpAddr,
    /// The address that it connected to.
    pub(crate) reached: IpAddr,
    /// Set if it belongs to a user that is not served without a token.
    pub(crate) other_user: Option<OtherUser>,
}

/// Who may send requests over a connection.
#[derive(Clone, Debug)]
pub(crate) enum PeerPolicy {
    /// Everyone: what a request presents decides, if anything does.
    Anyone,
    /// Processes of the server's own user, and of root.
    SameUser(OwnUser, Arc<LogLimit>),
}

/// The user that the server runs as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnUser {
    uid: u32,
    /// The uid that stands for every user without a name in this user namespace.
    nobody: Option<u32>,
}

/// A user that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherUser {
    /// `None` if the kernel could not tell.
    uid: Option<u32>,
    server: u32,
}

/// A socket, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
#[cfg(target_os = "linux")]
struct SocketEntry {
    state: u8,
    local: SocketAddr,
    remote: SocketAddr,
    uid: u32,
    inode: u64,
}

// === impl Peer ===

#[cfg(test)]
impl Peer {
    /// A peer that is served.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self {
            address,
            reached: address,
            other_user: None,
        }
    }

    /// A peer of 10.0.0.1 that belongs to another user.
    pub(crate) fn of_other_user() -> Self {
        let (uid, server) = (Some(1001), 1000);
        Self {
            other_user: Some(OtherUser { uid, server }),
            ..Self::at([10, 0, 0, 1].into())
        }
    }
}

// === impl PeerPolicy ===

impl PeerPolicy {
    /// Only the server's own user; everyone where the system cannot tell users.
    pub(crate) fn same_user() -> Self {
        if PEER_USERS_ARE_KNOWN {
            Self::SameUser(OwnUser::of_this_process(), Arc::default())
        } else {
            Self::Anyone
        }
    }

    /// Looks up the peer of a connection that was just accepted.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub(crate) async fn identify(&self, stream: &TcpStream) -> io::Result<Peer> {
        let (remote, local) = (
            canonical(stream.peer_addr()?),
            canonical(stream.local_addr()?),
        );
        let other_user = match self {
            Self::Anyone => None,
            Self::SameUser(own, log_limit) => {
                // The tables of a busy machine are long.
                let found = tokio::task::spawn_blocking(move || user_of(remote, local)).await;
                // While this connection lives, its addresses cannot be those of another
                // one. A peer that has gone may have left them to a process of any user.
                let _alive = stream.peer_addr()?;
                let other = own.refuses(found.ok().flatten());
                if let Some(other) = other.filter(|_| log_limit.allows()) {
                    tracing::warn!(%other, "a connection of another user");
                }
                other
            }
        };
        Ok(Peer {
            address: remote.ip(),
            reached: local.ip(),
            other_user,
        })
    }
}

// === impl OwnUser ===

impl OwnUser {
    fn of_this_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            nobody: nobody(),
        }
    }

    fn refuses(self, uid: Option<u32>) -> Option<OtherUser> {
        let uid = uid.filter(|uid| Some(*uid) != self.nobody);
        let is_served = uid.is_some_and(|uid| uid == self.uid || uid == 0);
        (!is_served).then_some(OtherUser {
            uid,
            server: self.uid,
        })
    }
}

// === impl OtherUser ===

impl fmt::Display for OtherUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, server } = self;
        match uid {
            Some(uid) => write!(f, "you are user {uid}")?,
            None => f.write_str("the system does not say which user you are")?,
        }
        write!(
            f,
            ", and without authentication this server answers only the user that it runs as \
             ({server}) and root; start it with --allow-other-users, or give callers tokens \
             with --auth-token-file"
        )
    }
}

impl IntoResponse for OtherUser {
    fn into_response(self) -> Response {
        let text = format!("{self}\n");
        (StatusCode::FORBIDDEN, [(header::CONNECTION, "close")], text).into_response()
    }
}

// === impl SocketEntry ===

#[cfg(target_os = "linux")]
impl SocketEntry {
    const ESTABLISHED: u8 = 1;
    const CLOSE_WAIT: u8 = 8;

    /// The user of exactly this connection. A socket that no process holds any more has
    /// no inode, and uid 0 in place of an owner.
    fn owner(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let is_it = self.local == local && self.remote == remote;
        let is_connected = matches!(self.state, Self::ESTABLISHED | Self::CLOSE_WAIT);
        (is_it && is_connected && self.inode != 0).then_some(self.uid)
    }
}

/// The user of the socket with these addresses.
#[cfg(target_os = "linux")]
fn user_of(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A kernel without `sock_diag` for TCP says "not found" too. One that has found a
    /// socket before means it; and the tables take a hundred times as long, which a peer
    /// that connects and leaves must not be able to ask for.
    static HAS_SOCK_DIAG: AtomicBool = AtomicBool::new(false);
    let entry = match sock_diag::find(local, remote) {
        Ok(Some(entry)) => {
            HAS_SOCK_DIAG.store(true, Ordering::Relaxed);
            Some(entry)
        }
        Ok(None) if HAS_SOCK_DIAG.load(Ordering::Relaxed) => None,
        answer => {
            tracing::debug!(?answer, "nothing from sock_diag, reading /proc/net");
            proc_net::find(local, remote).unwrap_or_else(|error| {
                tracing::debug!(%error, "no tables in /proc/net");
                None
            })
        }
    };
    entry?.owner(local, remote)
}

#[cfg(not(target_os = "linux"))]
fn user_of(_local: SocketAddr, _remote: SocketAddr) -> Option<u32> {
    None
}

/// In a user namespace that does not map every uid, all others look like this one.
fn nobody() -> Option<u32> {
    let number = |path| std::fs::read_to_string(path).ok();
    let map = number("/proc/self/uid_map")?;
    let maps_all = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    if maps_all {
        return None;
    }
    let overflow = number("/proc/sys/kernel/overflowuid");
    Some(
        overflow
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(65_534),
    )
}

/// IPv4 addresses as such, also on a socket over IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_the_own_user_and_root_are_served(
            uid in prop::option::of(prop_oneof![Just(0), 998_u32..1002, Just(65_534)]),
            server in prop_oneof![Just(0), 998_u32..1002, Just(65_534)],
            nobody in prop::option::of(Just(65_534)),
        ) {
            let own = OwnUser { uid: server, nobody };
            let expected = match uid {
                None => false,
                Some(uid) if Some(uid) == nobody => false,
                Some(uid) => uid == 0 || uid == server,
            };
            prop_assert_eq!(own.refuses(uid).is_none(), expected);
        }
    }

    #[test]
    fn a_refusal_names_both_users_and_what_to_do() {
        let own = OwnUser {
            uid: 1000,
            nobody: None,
        };
        let text = own.refuses(Some(1001)).unwrap().to_string();
        for part in ["1001", "(1000)", "--allow-other-users", "--auth-token-file"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            own.refuses(None)
                .unwrap()
                .to_string()
                .contains("does not say")
        );
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn the_server_finds_its_own_user_over_both_families() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = tokio::net::TcpListener::bind(listen).await else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let loopback = if listen == "[::1]:0" {
                "[::1]"
            } else {
                "127.0.0.1"
            };
            let client = TcpStream::connect(format!("{loopback}:{port}"))
                .await
                .unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let peer = PeerPolicy::same_user().identify(&accepted).await.unwrap();
            assert_eq!(peer.other_user, None, "{listen}");
            assert_eq!(peer.address, peer.reached, "{listen}");
            assert!(peer.address.is_loopback(), "{listen}");
            drop(client);
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_peer_that_has_left_is_nobody() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        drop(client);
        let peer = PeerPolicy::same_user().identify(&accepted).await;
        assert!(peer.is_ok_and(|peer| peer.other_user.is_some()));
    }
}
