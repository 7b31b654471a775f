//! Hosts that the environment of a container names. All other values are dropped unread: they are
//! nobody's business.

use serde::{Deserialize, Deserializer};

/// Longest name of a host.
const HOST_MAX: usize = 253;

/// A variable of a container's environment.
#[derive(Deserialize)]
struct EnvVar {
    #[serde(default)]
    value: Option<String>,
}

/// The hosts in `env`, each once.
pub(super) fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Box<str>>, D::Error> {
    let all: Option<Vec<EnvVar>> = Option::deserialize(from)?;
    let values = all.into_iter().flatten().filter_map(|one| one.value);
    let mut hosts: Vec<Box<str>> = values
        .filter_map(|value| Some(host(&value)?.into()))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    Ok(hosts)
}

/// The host in `carts:80` or `http://carts/list`; none if a value only looks a little like it.
fn host(value: &str) -> Option<&str> {
    let (host, after) = match value.split_once("://") {
        Some((_, rest)) => {
            let end = rest.find(['/', '?', ',']).unwrap_or(rest.len());
            let place = rest[..end].rsplit('@').next()?;
            place.split_once(':').unwrap_or((place, "80"))
        }
        None => value.split_once(':')?,
    };
    let is_port = (2..=5).contains(&after.len()) && after.bytes().all(|one| one.is_ascii_digit());
    let is_name = host.starts_with(|one: char| one.is_ascii_lowercase())
        && host.len() <= HOST_MAX
        && host
            .bytes()
            .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || b"-.".contains(&one));
    (is_port && is_name && host != "localhost").then_some(host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_are_found_by_their_form() {
        for (value, wanted) in [
            ("carts:80", Some("carts")),
            ("http://carts", Some("carts")),
            ("http://carts/list?a=b", Some("carts")),
            (
                "jdbc:mysql://root:pass@orders-db.shop:3306/orders",
                Some("orders-db.shop"),
            ),
            ("localhost:8080", None),
            ("10.0.0.1:80", None),
            ("carts", None),
            ("Carts:80", None),
            ("web:latest", None),
            ("a:1", None),
            ("user:hunter2", None),
            ("", None),
        ] {
            assert_eq!(host(value), wanted, "{value}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_any_value_is_read(value in "\\PC{0,80}|[a-z]{0,4}(://)?[a-z@:./]{0,30}[0-9]{0,6}") {
            let _ = host(&value);
        }
    }
}
