//! Which addresses a sink may connect to.
//!
//! An internal address has to be named with `--sink-allow`: a name in a configuration, or an
//! answer of a DNS server, must not make the process talk to what only it can reach, such as the
//! metadata service of a cloud. The address is checked that is connected to, each time.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

/// Hosts and networks of internal targets that the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedAddresses {
    hosts: BTreeSet<String>,
    networks: Vec<IpNet>,
}

/// An internal address that the operator does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InternalAddress {
    /// The host of the URL.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
}

// === impl AllowedAddresses ===

impl AllowedAddresses {
    /// Parses the entries of `--sink-allow`; the error is the entry that is neither a host nor
    /// a network.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        let mut allowed = Self::default();
        for entry in entries {
            let text = entry.trim().trim_end_matches('.');
            let is_host = !text.is_empty()
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
            if let Ok(network) = text.parse::<IpNet>() {
                allowed.networks.push(network.trunc());
            } else if let Ok(address) = text.parse::<IpAddr>() {
                allowed.networks.push(IpNet::from(address));
            } else if is_host {
                allowed.hosts.insert(text.to_ascii_lowercase());
            } else {
                return Err(entry.clone());
            }
        }
        Ok(allowed)
    }

    /// Whether a connection to this address of this host may be made.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), InternalAddress> {
        let address = address.to_canonical();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_allowed = !is_internal(address)
            || self.hosts.contains(&host)
            || self.networks.iter().any(|one| one.contains(&address));
        if is_allowed {
            return Ok(());
        }
        Err(InternalAddress { host, address })
    }

    /// The same for the host of a URL, as far as it can be decided without DNS.
    pub fn check_literal(&self, host: &str) -> Result<(), InternalAddress> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => self.check(bare, address),
            Err(_) if bare.trim_end_matches('.').eq_ignore_ascii_case("localhost") => {
                self.check(bare, IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
            Err(_) => Ok(()),
        }
    }
}

// === impl InternalAddress ===

impl fmt::Display for InternalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        if host.parse::<IpAddr>().is_ok() {
            write!(f, "{address} is an internal address")?;
        } else {
            write!(f, "`{host}` has the internal address {address}")?;
        }
        write!(f, "; if that is meant, add --sink-allow {host}")
    }
}

/// Whether an address is not one of the public internet.
pub(crate) fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_internal_v4(v4),
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            // IPv4 in IPv6: compatible, NAT64 (64:ff9b::/96) and 6to4 (2002::/16).
            let holds_internal = |at: usize| {
                let ([one, two], [three, four]) =
                    (segments[at].to_be_bytes(), segments[at + 1].to_be_bytes());
                is_internal_v4(Ipv4Addr::new(one, two, three, four))
            };
            match segments {
                [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => holds_internal(6),
                [0x2002, ..] => holds_internal(1),
                _ => is_internal_v6(v6),
            }
        }
    }
}

fn is_internal_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Shared by carriers, protocol assignments, and measurements of networks.
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
}

fn is_internal_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        // Site-local, long deprecated and still routed by some; and local NAT64.
        || (first & 0xffc0) == 0xfec0
        || address.segments()[..3] == [0x64, 0xff9b, 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowed(entries: &[&str]) -> AllowedAddresses {
        let entries: Vec<_> = entries.iter().map(|&one| one.to_owned()).collect();
        AllowedAddresses::new(&entries).unwrap()
    }

    #[test]
    fn internal_addresses_in_every_spelling_are_refused() {
        for text in [
            "127.0.0.1",
            "169.254.169.254",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "::127.0.0.1",
        ] {
            let address: IpAddr = text.parse().unwrap();
            assert!(is_internal(address), "{text}");
            let error = allowed(&[]).check("x.example", address).unwrap_err();
            let text = error.to_string();
            assert!(text.ends_with("add --sink-allow x.example"), "{text}");
        }
        for text in [
            "1.1.1.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "172.32.0.1",
        ] {
            assert!(!is_internal(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn the_flag_names_a_host_an_address_or_a_network() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = allowed(&["alertmanager.monitoring.svc", "10.96.0.0/12", "::1"]);
        let check = |host: &str, ip: &str| one.check(host, address(ip)).is_ok();
        assert!(check("alertmanager.monitoring.svc", "192.168.7.7"));
        assert!(check("Alertmanager.Monitoring.svc.", "192.168.7.7"));
        assert!(!check("other.monitoring.svc", "192.168.7.7"));
        assert!(check("other", "10.96.3.4") && check("other", "::ffff:10.96.3.4"));
        assert!(!check("other", "10.112.0.1"));
        assert!(check("[::1]", "::1") && check("far.example", "1.1.1.1"));
        for bad in ["", "http://x", "a b", "10.0.0.0/40"] {
            assert_eq!(
                AllowedAddresses::new(&[bad.to_owned()]),
                Err(bad.to_owned())
            );
        }
        assert!(one.check_literal("[::1]").is_ok());
        assert!(one.check_literal("localhost").is_err());
        assert!(one.check_literal("127.0.0.1").is_err());
        assert!(one.check_literal("names.wait.for.dns").is_ok());
    }

    proptest! {
        /// What is mapped into IPv6 is what it is.
        #[test]
        fn a_mapped_address_is_judged_as_the_address(bits in any::<u32>()) {
            let v4 = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(
                is_internal(IpAddr::V4(v4)),
                is_internal(IpAddr::V6(v4.to_ipv6_mapped()))
            );
        }

        #[test]
        fn fuzz_entries_are_parsed_or_refused(entry in ".{0,40}") {
            let _parsed = AllowedAddresses::new(&[entry]);
        }
    }
}
