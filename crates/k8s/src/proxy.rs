//! Whether requests to a cluster use a proxy, by the rules of kubectl: the `proxy-url` of the
//! kubeconfig is always used; a proxy of the environment is not used for loopback addresses
//! and for the entries of NO_PROXY.

use std::net::IpAddr;

/// Whether requests to `host` bypass the proxy of the environment.
pub(super) fn bypasses(host: &str, no_proxy: &str) -> bool {
    let host = host.trim_matches(['[', ']']).to_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy
        .split(',')
        .map(|entry| entry.trim().to_lowercase())
        .any(|entry| {
            let name = entry
                .rsplit_once(':')
                .map_or(entry.as_str(), |(name, port)| {
                    if port.chars().all(|c| c.is_ascii_digit()) {
                        name
                    } else {
                        &entry
                    }
                });
            match (name, address) {
                ("", _) => false,
                ("*", _) => true,
                (network, Some(address)) => is_in_network(address, network),
                (name, None) => {
                    let domain = name.trim_start_matches('*').trim_start_matches('.');
                    let exact = !name.starts_with('.') && host == domain;
                    exact || host.ends_with(&format!(".{domain}"))
                }
            }
        })
}

fn is_in_network(address: IpAddr, network: &str) -> bool {
    let (base, bits) = network.split_once('/').unwrap_or((network, ""));
    let Ok(base) = base.parse::<IpAddr>() else {
        return false;
    };
    let (value, base, width) = match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let bits: u32 = if bits.is_empty() {
        width
    } else {
        bits.parse().unwrap_or(width)
    };
    let shift = width.saturating_sub(bits);
    shift >= 128 || value >> shift == base >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, no_proxy: &str, expected: bool) {
        assert_eq!(
            bypasses(host, no_proxy),
            expected,
            "{host} with NO_PROXY={no_proxy}"
        );
    }

    #[test]
    fn no_proxy_is_read_as_kubectl_reads_it() {
        check("127.0.0.1", "", true);
        check("[::1]", "", true);
        check("localhost", "", true);
        check("api.example", "", false);
        check("api.example", "example", true);
        check("api.example", ".example", true);
        check("example", ".example", false);
        check("api.example", "*.example", true);
        check("badexample", "example", false);
        check("api.example", "other, api.example:443", true);
        check("api.example", "*", true);
        check("10.1.2.3", "10.0.0.0/8", true);
        check("11.1.2.3", "10.0.0.0/8", false);
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "0.0.0.0/0", true);
    }
}
