//! For whom something is counted, and how much one of them may have.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// For whom something is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShareKey {
    /// The one client of a process on stdio, and the process itself, for its sinks.
    Process,
    /// An authenticated caller, by name.
    Caller(Arc<str>),
    /// All anonymous callers from one network address.
    Address(IpAddr),
    /// A session of an anonymous caller on this host, where all have the same address.
    Session(Arc<str>),
}

/// The part of every limit that one caller may take, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerShare(u8);

// === impl ShareKey ===

impl ShareKey {
    /// The key of a network address. A host of IPv6 has a whole prefix of 64 bits to
    /// choose its addresses from, so the prefix counts.
    pub fn address(address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            IpAddr::V6(v6) if !v6.is_loopback() => {
                let [a, b, c, d, ..] = v6.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            other => other,
        };
        Self::Address(address)
    }
}

// === impl CallerShare ===

impl CallerShare {
    /// What one caller may take where there can be others.
    pub const HALF: Self = Self(50);
    /// What one caller may take where there are no others.
    pub const WHOLE: Self = Self(100);

    /// A share in percent, from 1 to 100.
    pub fn percent(percent: u8) -> Self {
        Self(percent.clamp(1, 100))
    }

    /// The share of a limit: at least one, so that a caller can do anything at all.
    pub fn of(self, total: usize) -> usize {
        let share = total as u128 * u128::from(self.0) / 100;
        usize::try_from(share).unwrap_or(total).max(1)
    }
}

impl Default for CallerShare {
    fn default() -> Self {
        Self::HALF
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_key() {
        let key = |text: &str| ShareKey::address(text.parse().unwrap());
        assert_eq!(key("192.0.2.7"), key("::ffff:192.0.2.7"));
        assert_ne!(key("192.0.2.7"), key("192.0.2.8"));
        assert_eq!(key("2001:db8:1:2::3"), key("2001:db8:1:2:ffff::4"));
        assert_ne!(key("2001:db8:1:2::3"), key("2001:db8:1:3::3"));
        assert_ne!(key("::1"), key("::2"));
    }

    proptest! {
        #[test]
        fn half_leaves_at_least_half(total in 2..usize::MAX) {
            let share = CallerShare::HALF.of(total);
            prop_assert!(share >= 1 && total - share >= share);
            prop_assert_eq!(CallerShare::WHOLE.of(total), total);
        }
    }
}
