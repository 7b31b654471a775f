//! The owner of a socket, from the tables in `/proc/net`: for a kernel or a sandbox
//! without `sock_diag`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use super::SocketEntry;

/// A socket over IPv6 may have IPv4 addresses, so both tables can have any connection.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The socket with this local and this remote address, if a table has it.
pub(super) fn find(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketEntry>> {
    for table in TABLES {
        let file = match File::open(table) {
            // A kernel without IPv6 has one table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        for line in BufReader::new(file).lines() {
            let found = parse(&line?).filter(|one| one.local == local && one.remote == remote);
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

/// Reads a row; the heading is none.
fn parse(line: &str) -> Option<SocketEntry> {
    let mut fields = line.split_ascii_whitespace();
    let _number = fields.next()?;
    let local = address(fields.next()?)?;
    let remote = address(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    // Queues, timer, retransmissions.
    let uid = fields.nth(3)?.parse().ok()?;
    let _timeout = fields.next()?;
    let inode = fields.next()?.parse().ok()?;
    Some(SocketEntry {
        state,
        local,
        remote,
        uid,
        inode,
    })
}

/// An address in hexadecimal, in words of the machine's own byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| -> Option<[u8; 4]> {
        let digits = words.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match words.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut octets = [0; 16];
            for (at, part) in octets.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(octets).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    /// Rows as Linux 6.18 wrote them on a little-endian machine.
    const ESTABLISHED: &str = "   3: 0100007F:B588 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 1002228 1 00000000a12b13b6 20 4 1 88 146";
    const TIME_WAIT: &str = "   4: 0100007F:B588 0100007F:1F90 06 00000000:00000000 03:00000F9F 00000000     0        0 0 3 00000000a12b13b6";
    const ORPHANED: &str = "   5: 0100007F:B588 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 0 1 00000000a12b13b6 20 4 1 88 146";
    const MAPPED: &str = "   6: 0000000000000000FFFF00000100007F:B588 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 7 1 0 20 4 1 88 -1";

    #[test]
    #[cfg(target_endian = "little")]
    fn only_a_connected_socket_of_a_process_has_an_owner() {
        let (local, remote) = (
            "127.0.0.1:46472".parse().unwrap(),
            "127.0.0.1:8080".parse().unwrap(),
        );
        let owner = |row: &str| parse(row).unwrap().owner(local, remote);
        assert_eq!(owner(ESTABLISHED), Some(1000));
        assert_eq!(owner(MAPPED), Some(1001));
        // The kernel writes uid 0 where there is no owner: that is not root.
        assert_eq!(owner(TIME_WAIT), None);
        assert_eq!(owner(ORPHANED), None);
        let heading =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
        assert!(parse(heading).is_none());
    }

    #[test]
    fn the_tables_of_this_machine_name_the_owner_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let found = find(local, remote).unwrap().unwrap();
        assert_eq!(
            found.owner(local, remote),
            Some(rustix::process::geteuid().as_raw())
        );
        assert!(
            find(remote, "127.0.0.1:1".parse().unwrap())
                .unwrap()
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn fuzz_no_row_panics(line in prop_oneof![any::<String>(), "( [0-9A-F:]{1,40}){0,14}"]) {
            let _any = parse(&line);
        }
    }
}
