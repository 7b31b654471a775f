//! What is set, and what of it may be shown.

use std::{fmt, path::PathBuf, time::Duration};

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;

use crate::ConnectError;

/// The smallest log, in bytes: a few of the largest messages.
const LOG_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Where the store is, and what is kept in it. Its `Debug` output has no password.
#[derive(Clone)]
pub struct NatsConfig {
    /// URLs such as `nats://host:4222` or `tls://host:4222`. They may have a user and a password,
    /// or a token in place of both.
    pub servers: Vec<String>,
    /// Prefix of all names, of letters, digits, `-` and `_`: servers with the same one share.
    pub fleet: String,
    /// A `.creds` file: a user's JWT and its seed.
    pub credentials_file: Option<PathBuf>,
    /// Certificates that are trusted instead of those of the system, as PEM.
    pub ca_file: Option<PathBuf>,
    /// How long messages of the log are kept.
    pub log_max_age: Duration,
    /// How many bytes of messages the log keeps.
    pub log_max_bytes: u64,
    /// How many servers of NATS keep each stream.
    pub replicas: usize,
}

/// The servers, without what only they may know.
pub(crate) struct Servers {
    pub(crate) addresses: Vec<ServerAddr>,
    pub(crate) login: Option<Login>,
    /// Their URLs as they may be shown.
    pub(crate) shown: String,
}

/// How a URL says who connects.
pub(crate) enum Login {
    Password { user: String, password: String },
    Token(String),
}

// === impl NatsConfig ===

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            fleet: "kubecrier".to_owned(),
            credentials_file: None,
            ca_file: None,
            log_max_age: Duration::from_hours(1),
            log_max_bytes: 256 * 1024 * 1024,
            replicas: 1,
        }
    }
}

impl NatsConfig {
    /// Checks what can be checked without a server.
    pub fn check(&self) -> Result<(), ConnectError> {
        if !self.servers.is_empty() {
            Servers::parse(&self.servers)?;
        }
        let invalid = |what: &str| Err(ConnectError::Settings(what.to_owned()));
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if self.fleet.is_empty() || self.fleet.len() > 40 || !self.fleet.bytes().all(is_letter) {
            return invalid(
                "the fleet has 1 to 40 letters, digits, `-` and `_` (--cluster-store-fleet)",
            );
        }
        if self.log_max_age < Duration::from_mins(1) {
            return invalid("the log keeps messages for a minute or more");
        }
        if self.log_max_bytes < LOG_BYTES_MIN || i64::try_from(self.log_max_bytes).is_err() {
            return invalid("the log keeps 4 MiB of messages or more");
        }
        if !(1..=5).contains(&self.replicas) {
            return invalid("a stream has 1 to 5 replicas");
        }
        Ok(())
    }
}

impl fmt::Debug for NatsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.servers.iter().map(|url| without_login(url)).collect();
        f.debug_struct("NatsConfig")
            .field("servers", &servers)
            .field("fleet", &self.fleet)
            .field("credentials_file", &self.credentials_file)
            .field("ca_file", &self.ca_file)
            .field("log_max_age", &self.log_max_age)
            .field("log_max_bytes", &self.log_max_bytes)
            .field("replicas", &self.replicas)
            .finish()
    }
}

// === impl Servers ===

impl Servers {
    pub(crate) fn parse(urls: &[String]) -> Result<Self, ConnectError> {
        if urls.is_empty() {
            return Err(ConnectError::Settings(
                "no server is named (--cluster-store)".to_owned(),
            ));
        }
        let mut addresses = Vec::with_capacity(urls.len());
        let mut login = None;
        for url in urls {
            let (address, of_url) = parse(url).map_err(|why| ConnectError::Url {
                url: without_login(url),
                why,
            })?;
            login = login.or(of_url);
            addresses.push(address);
        }
        let shown: Vec<_> = addresses
            .iter()
            .map(|address| without_login(address.as_url_str()))
            .collect();
        Ok(Self {
            addresses,
            login,
            shown: shown.join(", "),
        })
    }
}

/// The server of a URL without its login, and the login.
fn parse(url: &str) -> Result<(ServerAddr, Option<Login>), String> {
    if !url.starts_with("nats://") && !url.starts_with("tls://") {
        return Err("it begins with neither nats:// nor tls://".to_owned());
    }
    let address: ServerAddr = url
        .parse()
        .map_err(|error: std::io::Error| error.to_string())?;
    let mut url = address.into_inner();
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = match (url.username(), url.password()) {
        ("", _) => None,
        (user, Some(password)) => Some(Login::Password {
            user: decode(user),
            password: decode(password),
        }),
        (token, None) => Some(Login::Token(decode(token))),
    };
    let no_host = || "it has no host".to_owned();
    url.set_password(None).map_err(|()| no_host())?;
    url.set_username("").map_err(|()| no_host())?;
    let address = ServerAddr::from_url(url).map_err(|error| error.to_string())?;
    Ok((address, login))
}

/// A URL without the user, the password or the token in it, also where it is none.
pub(crate) fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        (_, None) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_used_and_never_shown() {
        for (url, shown, user, password) in [
            ("nats://h:1", "nats://h:1", "", ""),
            ("nats://u:p%40s@h:1", "nats://h:1", "u", "p@s"),
            ("tls://secret@h:1", "tls://h:1", "", "secret"),
        ] {
            let servers = Servers::parse(&[url.to_owned()]).unwrap();
            assert_eq!(servers.shown, shown);
            let (found_user, found_password) = match servers.login {
                None => (String::new(), String::new()),
                Some(Login::Password { user, password }) => (user, password),
                Some(Login::Token(token)) => (String::new(), token),
            };
            assert_eq!((&*found_user, &*found_password), (user, password));
            let config = NatsConfig {
                servers: vec![url.to_owned()],
                ..NatsConfig::default()
            };
            let debug = format!("{config:?}");
            assert!(!debug.contains("secret") && !debug.contains("p%40s"));
        }
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        for url in ["http://u:secret@h", "u:secret@h:1", "nats://u:secret@", ""] {
            let Err(error) = Servers::parse(&[url.to_owned()]) else {
                panic!("{url} is no URL of NATS");
            };
            let text = error.to_string();
            assert!(text.contains("--cluster-store"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let valid = NatsConfig::default();
        assert!(valid.check().is_ok());
        let fleet = |fleet: &str| NatsConfig {
            fleet: fleet.to_owned(),
            ..NatsConfig::default()
        };
        for broken in [
            fleet(""),
            fleet("a.b"),
            fleet("a b"),
            fleet(">"),
            NatsConfig {
                replicas: 0,
                ..NatsConfig::default()
            },
            NatsConfig {
                log_max_bytes: 1,
                ..NatsConfig::default()
            },
            NatsConfig {
                log_max_age: Duration::ZERO,
                ..NatsConfig::default()
            },
        ] {
            assert!(broken.check().is_err(), "{broken:?}");
        }
    }
}
