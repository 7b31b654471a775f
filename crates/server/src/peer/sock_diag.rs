//! The owner of a socket, asked of the kernel with `sock_diag(7)`: one exact lookup,
//! whatever the number of sockets.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink,
    netlink::SocketAddrNetlink, recvfrom, sendto, socket_with, sockopt,
};

use super::SocketEntry;

/// The kernel answers inside of the send, so this is never waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// A header and a `struct inet_diag_req_v2`.
const REQUEST_BYTES: u8 = 16 + 56;
/// A header and a `struct inet_diag_msg`.
const ANSWER_BYTES: usize = HEADER_BYTES + 72;

/// The socket with this local and this remote address, if the kernel has it.
pub(super) fn find(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketEntry>> {
    let protocol = Some(netlink::SOCK_DIAG);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_WITHIN))?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(
        &socket,
        &request(local, remote),
        SendFlags::empty(),
        &kernel,
    )?;
    let mut answer = [0; 512];
    let (_, length, from) = recvfrom(&socket, &mut answer, RecvFlags::empty())?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    if from.is_none_or(|from| from.pid() != 0) {
        return Err(io::Error::other("the answer is not from the kernel"));
    }
    parse(answer.get(..length).unwrap_or_default())
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES.into());
    bytes.extend(u32::from(REQUEST_BYTES).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // The sequence number and the sender: one request per socket, from its own address.
    bytes.extend([0; 8]);
    bytes.extend([family, IPPROTO_TCP, 0, 0]);
    // Sockets in any state; the answer has the state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    for address in [local.ip(), remote.ip()] {
        match address {
            IpAddr::V4(address) => {
                bytes.extend(address.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    // Any interface.
    bytes.extend([0; 4]);
    // INET_DIAG_NOCOOKIE: the addresses alone name the socket.
    bytes.extend([u8::MAX; 8]);
    bytes
}

fn parse(answer: &[u8]) -> io::Result<Option<SocketEntry>> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is too short");
    let kind = number::<2>(answer, 4).map(u16::from_ne_bytes);
    match kind.ok_or_else(malformed)? {
        NLMSG_ERROR => {
            let code = number(answer, HEADER_BYTES).map(i32::from_ne_bytes);
            let error = io::Error::from_raw_os_error(code.ok_or_else(malformed)?.wrapping_neg());
            match error.kind() {
                io::ErrorKind::NotFound => Ok(None),
                _ => Err(error),
            }
        }
        SOCK_DIAG_BY_FAMILY if answer.len() >= ANSWER_BYTES => {
            let message = &answer[HEADER_BYTES..];
            Ok(entry(message))
        }
        _ => Err(malformed()),
    }
}

/// Reads a `struct inet_diag_msg`.
fn entry(message: &[u8]) -> Option<SocketEntry> {
    let family = *message.first()?;
    let ip = |at| -> Option<IpAddr> {
        match family {
            AF_INET => Some(IpAddr::from(number::<4>(message, at)?)),
            // A socket of this family may have an IPv4 address mapped into it.
            AF_INET6 => Some(Ipv6Addr::from(number::<16>(message, at)?).to_canonical()),
            _ => None,
        }
    };
    let port = |at| number(message, at).map(u16::from_be_bytes);
    Some(SocketEntry {
        state: *message.get(1)?,
        local: SocketAddr::new(ip(8)?, port(4)?),
        remote: SocketAddr::new(ip(24)?, port(6)?),
        uid: number(message, 64).map(u32::from_ne_bytes)?,
        inode: number(message, 68).map(u32::from_ne_bytes)?.into(),
    })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    /// The kernel's own answer for a connection within this process.
    fn check(listen: &str) {
        let listener = TcpListener::bind(listen).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let found = find(local, remote).unwrap().unwrap();
        assert_eq!((found.local, found.remote), (local, remote));
        assert_eq!(
            found.owner(local, remote),
            Some(rustix::process::geteuid().as_raw())
        );
        // Orphaned: the client has left, and its socket belongs to no process any more.
        drop(client);
        let left = find(local, remote).unwrap();
        assert_eq!(left.and_then(|left| left.owner(local, remote)), None);
        // A socket that only listens on the port of the client is not the client.
        let listening = listener.local_addr().unwrap();
        let found = find(listening, server.local_addr().unwrap()).unwrap();
        assert_eq!(found.and_then(|one| one.owner(listening, remote)), None);
    }

    #[test]
    fn the_kernel_names_the_owner_of_a_connection() {
        check("127.0.0.1:0");
        if TcpListener::bind("[::1]:0").is_ok() {
            check("[::1]:0");
        }
    }

    #[test]
    fn a_socket_that_does_not_exist_has_no_entry() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert!(find(address(1), address(2)).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn fuzz_no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u16..30) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(4..6) {
                place.copy_from_slice(&kind.to_ne_bytes());
            }
            let _any = parse(&bytes);
        }
    }
}
